import Annals
import AnnalsTesting
import Foundation
import Testing

@Suite("A store around an app's own database", .timeLimit(.minutes(20)))
struct WrappedDatabaseTests {
    struct Item: Codable, Identifiable, Hashable, FetchableRecord, PersistableRecord {
        var id: String
    }

    enum Kind: String, CaseIterable {
        case named, temporary, address, file

        func open(_ folder: ScratchFolder) throws -> any DatabaseWriter {
            switch self {
            case .named: try DatabaseQueue(named: UUID().uuidString)
            case .temporary: try DatabaseQueue(path: "")
            case .address: try DatabaseQueue(path: "file:" + folder.file("shop.db"))
            case .file: try DatabaseQueue(path: folder.file("shop.db"))
            }
        }
    }

    @Test("has lists, tells of changes and syncs by itself, whatever SQLite has the database in", arguments: Kind.allCases)
    func watched(_ kind: Kind) async throws {
        let folder = try ScratchFolder()
        let queue = try kind.open(folder)
        try await queue.write { db in try db.execute(sql: "CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL)") }
        let store = try Store(wrapping: queue)
        try await store.track(.all)
        #expect((store.path == ":memory:") == (kind == .named || kind == .temporary))
        let address = try SpaceAddress("shop", at: "http://127.0.0.1:1", as: "a")
        let relay = try MemoryRelay(space: address.space, clock: ManualClock(milliseconds: 1_700_000_000_000))
        let agent = SyncAgent(store: store, transport: relay, joining: address)
        try await agent.sync()
        let head = try #require(try await store.replicaState()?.position)
        try await withThrowingTaskGroup(of: Bool.self) { group in
            let changes = store.remoteChanges
            let list = FetchedResults(Item.order(Column("id")), in: store)
            let events = agent.events
            group.addTask {
                for try await _ in changes { break }
                return true
            }
            group.addTask {
                for try await snapshot in list where snapshot.itemIdentifiers.count == 1 { break }
                return true
            }
            group.addTask {
                for await _ in events where try await store.replicaState()?.position != head { break }
                return true
            }
            group.addTask {
                try await agent.run()
                return false
            }
            try await store.write { db in try Item(id: "x").insert(db) }
            var done = 0
            while done < 3, let isOne = try await group.next() { done += isOne ? 1 : 0 }
            group.cancelAll()
        }
    }

    @Test("gives a queue without WAL a busy timeout, because Annals reads the file beside it")
    func busyTimeout() async throws {
        let folder = try ScratchFolder()
        func timeout(_ writer: any DatabaseWriter) throws -> Int? {
            _ = try Store(wrapping: writer)
            return try writer.writeWithoutTransaction { db in try Int.fetchOne(db, sql: "PRAGMA busy_timeout") }
        }
        var patient = GRDB.Configuration()
        patient.busyMode = .timeout(3)
        #expect(try timeout(DatabaseQueue(path: folder.file("queue"))) == 10_000)
        #expect(try timeout(DatabaseQueue(path: folder.file("patient"), configuration: patient)) == 3_000)
        #expect(try timeout(DatabasePool(path: folder.file("pool"))) == 0)
    }

    @Test("joins a space with the functions and collations that the app gives its connections")
    func setUp() async throws {
        let folder = try ScratchFolder()
        let relay = try MemoryRelay(space: try #require(SpaceName("shop")), clock: ManualClock(milliseconds: 1_700_000_000_000))
        var stores: [Store] = []
        for name in ["a", "b"] {
            var options = GRDB.Configuration()
            options.prepareDatabase { db in
                db.add(collation: DatabaseCollation("backward") { $1.compare($0) })
            }
            let pool = try DatabasePool(path: folder.file(name), configuration: options)
            try await pool.write { db in
                try db.execute(
                    sql: "CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL COLLATE backward); INSERT INTO item VALUES (?)", arguments: [name]
                )
            }
            var configuration = Store.Configuration()
            configuration.tables = .all
            let store = try Store(wrapping: pool, configuration: configuration)
            let address = try SpaceAddress("shop", at: "http://127.0.0.1:1", as: name)
            try await SyncAgent(store: store, transport: relay, joining: address, existing: .sameKey).sync()
            stores.append(store)
        }
        try await SyncAgent(store: stores[0], transport: relay).sync()
        for store in stores {
            #expect(try await store.read { db in try String.fetchAll(db, sql: "SELECT id FROM item ORDER BY id") } == ["b", "a"])
        }
    }
}
