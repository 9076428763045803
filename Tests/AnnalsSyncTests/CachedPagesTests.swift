import AnnalsCore
import AnnalsHTTP
import AnnalsReplica
import AnnalsStore
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Synchronization
import Testing

@testable import AnnalsSync

/// Replicas that get pages from a cache. A page that is not the last one may have an old head.
@Suite struct CachedPagesTests {
    private static let schema = "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT)"

    /// Keeps each page that is not the last one.
    private final class Cache: Sendable {
        private let pages = Mutex<[Position: Page]>([:])
        private let served = Mutex<[Position]>([])

        /// The positions after which kept pages were asked for.
        var hits: [Position] { served.withLock { $0 } }

        /// A relay behind this cache. A page holds one batch.
        func relay(_ base: any RelayTransport) -> AlteredRelay {
            AlteredRelay(
                base: base, pageBytes: 1,
                page: { page, _ in
                    guard !page.isLast else { return }
                    guard let kept = self.pages.withLock({ $0[page.after] }) else {
                        return self.pages.withLock { $0[page.after] = page }
                    }
                    #expect(kept.frames == page.frames)
                    self.served.withLock { $0.append(kept.after) }
                    page = kept
                })
        }
    }

    private func push(_ world: SyncedStores, _ index: Int, _ id: String) async throws {
        try world.outside(index, "INSERT INTO note VALUES('\(id)', 'from \(index)')")
        #expect(try await world.sync(index, .pushOnly).pushed.transactions == 1)
    }

    @Test func `a replica whose work is beyond the head of a kept page syncs, and gets the whole log`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        let cache = Cache()
        let relay = cache.relay(world.relay)
        let start = try #require(try await world.stores[2].replicaState()).position
        for id in ["a", "b", "c"] { try await push(world, 1, id) }
        try await world.sync(0, over: relay)
        #expect(cache.hits.isEmpty)
        try await push(world, 1, "d")
        try await push(world, 2, "own")
        try await push(world, 1, "e")

        let summary = try await world.sync(2, over: relay)
        #expect(cache.hits == [start, start.next])
        #expect(summary.position == start.advanced(by: 6) && summary.head == summary.position)
        try await world.settle()
        #expect(try await world.rows(2, "SELECT count(*) FROM note") == [[6.databaseValue]])
    }

    @Test func `a kept page never lowers the head that a replica knows`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        let cache = Cache()
        let relay = cache.relay(world.relay)
        let start = try #require(try await world.stores[2].replicaState()).position
        for id in ["a", "b", "c"] { try await push(world, 1, id) }
        try await world.sync(0, over: relay)
        try await push(world, 2, "own")
        var watched = relay
        watched.before = { request in
            guard request.kind == .pull else { return }
            let head = try await world.stores[2].replicaState()?.head
            #expect(head == start.advanced(by: 4))
        }
        try await world.sync(2, over: watched)
        #expect(cache.hits == [start, start.next])
    }

    @Test func `a relay that really has less than it accepted is noticed by a page that is not the last`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        for id in ["a", "b", "c"] { try await push(world, 1, id) }
        let start = try #require(try await world.stores[2].replicaState()).position
        try FileManager.default.copyItem(atPath: world.folder.file("relay"), toPath: world.folder.file("backup"))
        try await push(world, 2, "own")
        let restored = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        let relay = AlteredRelay(base: restored, pageBytes: 1)
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(2, over: relay) }
        #expect(error?.code == .relayRolledBack)
        #expect(try await world.stores[2].replicaState()?.position == start)
    }

    @Test(arguments: [
        (nil, 0), ("0", 0), ("90", 90_000), ("-5", 0), ("x", 0), ("9223372036854775807", 30 * 86_400_000),
    ])
    func `the relay's clock has gone on while a cache kept the answer`(age: String?, milliseconds: Int64) throws {
        let relay = try HTTPRelay(address: "http://127.0.0.1:1", space: #require(SpaceName("shop")), client: HTTPClient())
        let headers = [HTTPHeaders.Field(name: "Annals-Time", value: "1700000000000")] + (age.map { [.init(name: "Age", value: $0)] } ?? [])
        #expect(relay.relayTime(HTTPResponse(status: 200, headers: HTTPHeaders(headers))) == 1_700_000_000_000 + milliseconds)
    }
}
