import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsWire
import GRDB
import Synchronization
import Testing

/// A sync without work uses the result of the last one, until the file is written.
@Suite struct IdleTests {
    private static let schema = "CREATE TABLE item(id TEXT PRIMARY KEY NOT NULL, n INT); INSERT INTO item VALUES('a', 0), ('b', 0)"

    /// Two replicas. The store of the first uses a connection of the test, which lists its statements.
    private struct Pair {
        let world: SyncedStores
        let queue: DatabaseQueue
        let store: Store
        let agent: SyncAgent
        private let statements: Statements

        private final class Statements: Sendable {
            let list = Mutex<[String]>([])
        }

        init(schema: String = IdleTests.schema) async throws {
            world = try await SyncedStores(replicas: 2, schema: schema)
            try world.stores[0].close()
            let statements = Statements()
            var configuration = GRDB.Configuration()
            configuration.prepareDatabase { db in
                db.trace { event in statements.list.withLock { $0.append(event.description) } }
            }
            queue = try DatabaseQueue(path: world.stores[0].path, configuration: configuration)
            self.statements = statements
            store = try Store(wrapping: queue, configuration: world.configuration("r0"))
            agent = SyncAgent(store: store, transport: world.relay, environment: world.environment)
        }

        /// The statements of an exchange.
        func statements(of work: () async throws -> Void) async throws -> [String] {
            statements.list.withLock { $0 = [] }
            try await work()
            return statements.list.withLock { $0 }
        }

        func beIdle() async throws {
            for _ in 0..<3 { try await agent.sync() }
            let summary = try await agent.sync()
            #expect(!summary.movedSomething)
        }
    }

    @Test func `it takes no lock, and looks at none of the tables however many there are`() async throws {
        var seen: [[String]] = []
        for count in [1, 40] {
            let tables = (0..<count).map { "CREATE TABLE t\($0)(id TEXT PRIMARY KEY NOT NULL);" }.joined()
            let pair = try await Pair(schema: tables)
            try await pair.beIdle()
            seen.append(try await pair.statements { try await pair.agent.sync() })
        }
        #expect(seen[0] == seen[1])
        #expect(
            seen[0].allSatisfy {
                $0.hasPrefix("PRAGMA") || $0.hasPrefix("SELECT") || $0.hasPrefix("BEGIN DEFERRED") || $0.hasPrefix("COMMIT")
            }, "\(seen[0])")
        #expect(!seen[0].contains { $0.contains("annals_changes_") }, "\(seen[0])")
    }

    @Test func `it waits for no writer, and sees what that commits when it is there`() async throws {
        let pair = try await Pair()
        try await pair.beIdle()
        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        let writer = try DatabaseQueue(path: pair.queue.path, configuration: configuration)
        try await writer.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN IMMEDIATE; UPDATE item SET n = 1")
        }
        #expect(try await !pair.agent.sync().movedSomething)
        try await writer.writeWithoutTransaction { db in try db.execute(sql: "COMMIT") }
        try writer.close()
        #expect(try await pair.agent.sync().pushed.transactions == 1)
    }

    enum Writer: CaseIterable {
        case otherProgram, store, ownConnection, afterRollback, otherSchema, ownSchema, peer
    }

    @Test("every kind of writer is noticed", arguments: Writer.allCases)
    func noticed(_ writer: Writer) async throws {
        let pair = try await Pair()
        try await pair.beIdle()
        let insert = "INSERT INTO item(id, n) VALUES('c', 3)"
        switch writer {
        case .otherProgram: try pair.world.outside(0, insert)
        case .store: try await pair.store.write { db in try db.execute(sql: insert) }
        case .ownConnection: try await pair.queue.write { db in try db.execute(sql: insert) }
        case .afterRollback:
            try await pair.queue.writeWithoutTransaction { db in
                try db.execute(sql: "BEGIN; \(insert); ROLLBACK")
            }
            #expect(try await !pair.agent.sync().movedSomething)
            try await pair.queue.write { db in try db.execute(sql: insert) }
        case .otherSchema: try pair.world.outside(0, "ALTER TABLE item ADD COLUMN more TEXT; \(insert)")
        case .ownSchema:
            try await pair.queue.write { db in try db.execute(sql: "ALTER TABLE item ADD COLUMN more TEXT; \(insert)") }
        case .peer:
            try pair.world.outside(1, insert)
            try await pair.world.sync(1)
        }
        let summary = try await pair.agent.sync()
        #expect(summary.movedSomething, "\(summary)")
        try await pair.world.sync(1)
        for queue in [pair.queue, try DatabaseQueue(path: pair.world.stores[1].path)] {
            #expect(try await queue.read { db in try Int.fetchOne(db, sql: "SELECT n FROM item WHERE id = 'c'") } == 3)
        }
    }

    @Test func `a schema's change alone is noticed`() async throws {
        let pair = try await Pair()
        try await pair.beIdle()
        try await pair.queue.write { db in try db.execute(sql: "CREATE UNIQUE INDEX one ON item(n, id)") }
        #expect(try await pair.agent.sync().schemaVersion == 2)
        try await pair.queue.write { db in try db.execute(sql: "ALTER TABLE item ADD COLUMN up TEXT AS (upper(id))") }
        let error = await #expect(throws: AnnalsError.self) { try await pair.agent.sync() }
        #expect(error?.code == .schemaRefused)
    }

    @Test("what is written while an answer is on its way is noticed", arguments: ["push", "page", "empty page"])
    func meanwhile(_ answer: String) async throws {
        let pair = try await Pair()
        try await pair.beIdle()
        switch answer {
        case "push": try await pair.store.write { db in try db.execute(sql: "UPDATE item SET n = 1 WHERE id = 'a'") }
        case "page":
            try pair.world.outside(1, "UPDATE item SET n = 1 WHERE id = 'a'")
            try await pair.world.sync(1)
        default: break
        }
        let world = pair.world
        let relay = AlteredRelay(
            base: world.relay,
            after: { if [.push, .pull].contains($0.kind) { try world.outside(0, "UPDATE item SET n = 2 WHERE id = 'b'") } })
        let agent = SyncAgent(store: pair.store, transport: relay, environment: world.environment)
        try await agent.sync(answer == "push" ? .pushOnly : .pullOnly)
        try await pair.agent.sync(.pushOnly)
        try await world.sync(1)
        #expect(try await world.rows(1, "SELECT n FROM item WHERE id = 'b'") == [[2.databaseValue]])
    }

    @Test func `after a push and after a page the outbox is known to be empty without a look`() async throws {
        let pair = try await Pair()
        for isPush in [true, false] {
            try await pair.beIdle()
            if isPush {
                try await pair.store.write { db in try db.execute(sql: "UPDATE item SET n = n + 1") }
            } else {
                try await pair.world.sync(1)
                try pair.world.outside(1, "UPDATE item SET n = n + 1")
                try await pair.world.sync(1)
            }
            #expect(try await pair.agent.sync(isPush ? .pushOnly : .pullOnly).movedSomething)
            var status: ExchangeStatus?
            let statements = try await pair.statements { status = try await pair.store.prepareOutbox() }
            #expect(statements.allSatisfy { $0.hasPrefix("PRAGMA") }, "\(statements)")
            try pair.world.outside(0, "SELECT 1; PRAGMA user_version = \(isPush ? 1 : 2)")
            let looked = try await pair.store.prepareOutbox()
            #expect(String(describing: status) == String(describing: looked as ExchangeStatus?))
        }
    }
}
