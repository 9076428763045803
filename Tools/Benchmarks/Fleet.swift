import Annals
import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation

/// A space with one author and files of replicas. A benchmark copies the files, so that each round starts from the same state.
final class Fleet {
    let folder: BenchmarkFolder
    let relay: LocalRelay
    private let space: SpaceName

    /// Creates, tracks and joins `author.db` with the schema of `rows` and this number of its rows.
    init(_ rows: Rows, present: Int) async throws {
        folder = try BenchmarkFolder()
        guard let space = SpaceName("bench") else { throw BareConnection.Failure(description: "the name of the space is invalid") }
        self.space = space
        relay = try LocalRelay(folder: folder.file("relay"), space: space)
        _ = try rows.file(folder.file("author.db"), present: present)
        let store = try Store(path: folder.file("author.db"))
        _ = try await store.track(.all)
        _ = try await joining("author").join(store)
        try store.close()
    }

    private func joining(_ name: String) -> Joining {
        Joining(transport: relay, address: "http://127.0.0.1:1", space: space, name: name)
    }

    func clone(_ name: String) async throws {
        _ = try await joining(name).clone(to: folder.file("\(name).db"))
    }

    /// Runs `work` on a bare connection in transactions of the given size. Each of them is recorded as one transaction of history.
    func write(_ name: String, _ indices: [Int], perTransaction: Int, _ work: @escaping @Sendable (BareConnection, Int) throws -> Void)
        async throws
    {
        let store = try Store(path: folder.file("\(name).db"))
        let connection = try BareConnection(folder.file("\(name).db"))
        for chunk in indices.chunks(of: perTransaction) {
            try connection.execute("BEGIN IMMEDIATE")
            for index in chunk { try work(connection, index) }
            try connection.execute("COMMIT")
            try await store.recordExternalChanges()
        }
        _ = try await store.prepareOutbox()
        try store.close()
    }

    func sync(_ name: String, _ direction: SyncDirection = .both) async throws {
        let store = try Store(path: folder.file("\(name).db"))
        _ = try await SyncAgent(store: store, transport: relay).sync(direction)
        try store.close()
    }

    /// The pages of the log after a replica's position.
    func pages(after name: String) async throws -> [Page] {
        let store = try Store(path: folder.file("\(name).db"))
        defer { try? store.close() }
        guard var position = try await store.replicaState()?.position else { return [] }
        var pages: [Page] = []
        while true {
            let lineage = try await relay.describe().lineage
            let page = try await relay.pull(after: position, seen: LogMark(lineage: lineage), byteLimit: 1 << 20, wait: nil)
            guard !page.frames.isEmpty else { return pages }
            pages.append(page)
            position = page.lastPosition
            if position >= page.head { return pages }
        }
    }
}
