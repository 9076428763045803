import Annals
import AnnalsTesting
import Testing

/// A new table in a store with history expires no reader's token.
@Suite("New tables and history")
struct NewTableTests {
    private static let table = "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT)"

    private func store() async throws -> (store: Store, token: HistoryToken) {
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)") }
        try await store.track(.all)
        try await store.register("index")
        let token = try await store.latestToken()
        try await store.write { db in try db.execute(sql: "INSERT INTO item VALUES (1, 'Milk')") }
        return (store, token)
    }

    private func tablesRead(_ store: Store) async throws -> [String] {
        var read: [String] = []
        for transaction in try await store.unread(by: "index") { read += transaction.tables }
        return read
    }

    @Test("made by a migration, with rows")
    func migration() async throws {
        let (store, token) = try await store()
        try await store.migrate(label: "v2", tracking: .all) { db in
            try db.execute(sql: Self.table)
            try db.execute(sql: "INSERT INTO tag VALUES (1, 'new')")
        }
        #expect(try await tablesRead(store) == ["item", "tag"])
        let count = try await store.diff(from: token, to: store.latestToken()) { _ in }
        #expect(count.inserted == 2)
        #expect(try await store.verify() == [])
        let file = try TemporaryFile("before.db")
        _ = try await store.replay(to: token, output: file.path)
        let before = try DatabaseQueue(path: file.path)
        #expect(
            try await before.read { db in try Int.fetchOne(db, sql: "SELECT (SELECT count(*) FROM item) + (SELECT count(*) FROM tag)") }
                == 0)
    }

    @Test("made before it is tracked, still empty")
    func tracked() async throws {
        let (store, token) = try await store()
        try await store.write { db in try db.execute(sql: Self.table) }
        try await store.track(.all)
        try await store.write { db in try db.execute(sql: "INSERT INTO tag VALUES (1, 'new')") }
        #expect(try await tablesRead(store) == ["item", "tag"])
        #expect(try await store.historyCount(HistoryRequest(after: token)) == 2)
        #expect(try await store.verify() == [])
    }

    @Test("filled before it is tracked, and then its rows are recorded")
    func trackedWithRows() async throws {
        let (store, token) = try await store()
        try await store.write { db in
            try db.execute(sql: Self.table)
            try db.execute(sql: "INSERT INTO tag VALUES (1, 'old')")
        }
        let report = try await store.track(.all)
        #expect(report.tables.map(\.recordedRows) == [0, 1])
        #expect(try await tablesRead(store) == ["item", "tag"])
        #expect(try await store.verify() == [])
        // The table did not exist at the earlier point, so its rows there are known.
        let count = try await store.diff(from: token, to: store.latestToken()) { _ in }
        #expect(count.inserted == 2)
        try await store.restore(to: token)
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM tag") } == 0)
    }

    @Test("made by another replica, where a store takes new tables")
    func taken() async throws {
        var configuration = Store.Configuration()
        configuration.newSchemas = .take
        let space = try await TestSpace(configuration: configuration) { db in
            try db.execute(sql: "CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL, name TEXT)")
        }
        let store = space[1].store
        try await store.register("index")
        let token = try await store.latestToken()
        try await store.write { db in try db.execute(sql: "INSERT INTO item VALUES ('1', 'Milk')") }
        try await space[0].store.migrate(label: "v2", tracking: .all) { db in
            try db.execute(sql: "CREATE TABLE tag (id TEXT PRIMARY KEY NOT NULL)")
        }
        try await space[0].store.write { db in try db.execute(sql: "INSERT INTO tag VALUES ('new')") }
        try await space.settle()
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM tag") } == 1)
        #expect(try await store.historyCount(HistoryRequest(after: token).tables("tag")) == 1)
        #expect(Set(try await tablesRead(store)) == ["item", "tag"])
        #expect(try await store.verify() == [])
    }
}
