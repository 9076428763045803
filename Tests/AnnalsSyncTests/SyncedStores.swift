import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import RelayLog
import Synchronization
import Testing

/// A folder that is deleted after the test.
final class TemporaryFolder: Sendable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.path + "/annals-test-\(ReplicaID.random())"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }
}

/// Replicas of one space in one process, with a real log and a clock that the test sets.
final class SyncedStores: Sendable {
    let folder: TemporaryFolder
    let relay: LocalRelay
    let clock: ManualClock
    private let opened = Mutex<[Store]>([])
    var stores: [Store] { opened.withLock { $0 } }
    let space: SpaceName
    let policies: MergePolicies
    let outboxLimits: OutboxLimits
    private let rings: Mutex<[String: SpaceKeyRing]>
    private let ring: SpaceKeyRing?

    /// The first replica is made from `schema` and `rows`. The others are clones.
    ///
    /// `spaceKeys`: encrypts the space. `sharesClock`: the relay uses the test's clock too. Otherwise it uses the machine's clock, which is
    /// years ahead.
    init(
        replicas: Int, schema: String, policies: MergePolicies = MergePolicies(), outboxLimits: OutboxLimits = OutboxLimits(),
        relayLimits: RelayLogLimits = RelayLogLimits(), sharesClock: Bool = false, spaceKeys: SpaceKeyRing? = nil
    ) async throws {
        self.policies = policies
        ring = spaceKeys
        rings = Mutex([:])
        self.outboxLimits = outboxLimits
        folder = try TemporaryFolder()
        space = try #require(SpaceName("shop"))
        let clock = ManualClock(milliseconds: 1_700_000_000_000)
        self.clock = clock
        let relayClock = RelayClock(wall: { clock.milliseconds }, monotonic: RelayClock.system.monotonic)
        relay = try LocalRelay(
            folder: folder.file("relay"), space: space, limits: relayLimits, clock: sharesClock ? relayClock : .system)
        let first = folder.file("r0.db")
        let queue = try DatabaseQueue(path: first)
        try await queue.write { db in try db.execute(sql: schema) }
        try queue.close()
        let store = try Store(path: first, configuration: configuration("r0"))
        _ = try await store.track(.all)
        _ = try await joining("r0").join(store, references: .ignore)
        opened.withLock { $0 = [store] }
        for number in 1..<max(replicas, 1) { try await addClone("r\(number)") }
    }

    @discardableResult
    func addClone(_ name: String) async throws -> Store {
        let path = folder.file("\(name).db")
        _ = try await joining(name).clone(to: path)
        let store = try Store(path: path, configuration: configuration(name))
        opened.withLock { $0.append(store) }
        return store
    }

    /// Adds a store that was made elsewhere.
    func add(_ store: Store) {
        opened.withLock { $0.append(store) }
    }

    /// Adds a replica whose file was copied with a copy command.
    func addCopy(of index: Int) async throws {
        let path = try await copyFile(of: index)
        let store = try Store(path: path, configuration: configuration("copy of r\(index)"))
        opened.withLock { $0.append(store) }
    }

    /// Copies a replica's file like a backup program, while nothing is written.
    func copyFile(of index: Int) async throws -> String {
        let path = folder.file("copy-\(ReplicaID.random()).db")
        let source = try DatabaseQueue(path: stores[index].path)
        let target = try DatabaseQueue(path: path)
        try source.backup(to: target)
        try source.close()
        try target.close()
        return path
    }

    /// Replaces a replica's file.
    func restore(_ file: String, as index: Int) async throws {
        let path = stores[index].path
        try stores[index].close()
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        try FileManager.default.copyItem(atPath: file, toPath: path)
        let store = try Store(path: path, configuration: configuration("r\(index)"))
        opened.withLock { $0[index] = store }
    }

    func identities() async throws -> [ReplicaID] {
        var identities: [ReplicaID] = []
        for store in stores { if let state = try await store.replicaState() { identities.append(state.replica) } }
        return identities
    }

    func joining(_ name: String, over transport: (any RelayTransport)? = nil) -> Joining {
        Joining(
            transport: transport ?? relay, address: "http://127.0.0.1:1", space: space, name: name, spaceKeys: keys(of: name),
            configuration: configuration(name), environment: environment)
    }

    private func keys(of name: String) -> SpaceKeyRing? {
        rings.withLock { $0[name] ?? ring }
    }

    /// Gives a replica other keys from now on, like a change of its key file.
    func give(_ keys: SpaceKeyRing, to index: Int) throws {
        rings.withLock { $0["r\(index)"] = keys }
        try reopen(index)
    }

    var environment: SyncAgent.Environment {
        let clock = clock
        var environment = SyncAgent.Environment(pause: { clock.advance($0) }, random: { 0.5 })
        environment.elapsed = { .milliseconds(clock.milliseconds) }
        return environment
    }

    func configuration(_ name: String) -> Store.Configuration {
        var configuration = Store.Configuration()
        let clock = clock
        configuration.now = { clock.milliseconds }
        configuration.process = name
        configuration.mergePolicies = policies
        configuration.outboxLimits = outboxLimits
        configuration.spaceKeys = keys(of: name)
        return configuration
    }

    @discardableResult
    func sync(
        _ index: Int, _ direction: SyncDirection = .both, over transport: (any RelayTransport)? = nil
    ) async throws -> SyncAgent.Summary {
        try await SyncAgent(store: stores[index], transport: transport ?? relay, environment: environment).sync(direction)
    }

    /// Closes a replica's file and opens it again, like a program that was killed and starts again.
    func reopen(_ index: Int, newSchemas: NewSchemas = .wait) throws {
        let old = stores[index]
        try old.close()
        var configuration = configuration("r\(index)")
        configuration.newSchemas = newSchemas
        let store = try Store(path: old.path, configuration: configuration)
        opened.withLock { $0[index] = store }
    }

    /// Syncs all replicas until nothing is left to exchange.
    func settle() async throws {
        for _ in 0..<20 {
            var isQuiet = true
            for index in stores.indices {
                let summary = try await sync(index)
                if summary.pushed.transactions + summary.pulled.transactions > 0 { isQuiet = false }
            }
            if isQuiet { return try await expectOneStanding() }
        }
        Issue.record("the replicas do not settle")
    }

    /// Replicas at one position have the same data for a clone. Otherwise they would refute each other's snapshots.
    private func expectOneStanding() async throws {
        var first: LogContents?
        for store in stores {
            guard let comparison = try await store.logContents(scratch: folder.file("standing-\(ReplicaID.random()).db")) else { continue }
            if let first, first.position == comparison.position { #expect(first.differences(of: comparison) == []) }
            first = first ?? comparison
        }
    }

    /// Writes as another program: a connection of its own, without Annals.
    func outside(_ index: Int, _ sql: String, foreignKeys: Bool = true) throws {
        var configuration = GRDB.Configuration()
        configuration.foreignKeysEnabled = foreignKeys
        configuration.busyMode = .timeout(10)
        let queue = try DatabaseQueue(path: stores[index].path, configuration: configuration)
        defer { try? queue.close() }
        try queue.write { db in try db.execute(sql: sql) }
    }

    func rows(_ index: Int, _ sql: String) async throws -> [[DatabaseValue]] {
        try await stores[index].read { db in try Row.fetchAll(db, sql: sql).map { Array($0.databaseValues) } }
    }
}
