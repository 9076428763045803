import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// The space knows which value rows have that are older than a column. Stores may declare another default.
@Suite struct ChangedDefaultTests {
    private static let schema = """
        CREATE TABLE book (id TEXT PRIMARY KEY NOT NULL, title TEXT);
        INSERT INTO book VALUES ('a', 'One'), ('b', 'Two');
        """

    /// The statements with which a migration tool rebuilds the table.
    private static func rebuild(_ declaration: String, _ value: String) -> String {
        """
        CREATE TABLE new__book (id TEXT PRIMARY KEY NOT NULL, title TEXT, pages \(declaration));
        INSERT INTO new__book (id, title, pages) SELECT id, title, \(value) FROM book;
        DROP TABLE book; ALTER TABLE new__book RENAME TO book;
        """
    }

    private func pages(_ world: SyncedStores, _ index: Int) async throws -> [String] {
        try await world.rows(index, "SELECT id, pages FROM book ORDER BY id").map { row in
            "\(String.fromDatabaseValue(row[0]) ?? "")\(Int.fromDatabaseValue(row[1]).map(String.init) ?? "-")"
        }
    }

    @Test(arguments: ["INTEGER NOT NULL DEFAULT 8", "INTEGER DEFAULT 9", "INTEGER"], [[0, 1], [1, 0]])
    func `two replicas add a column with different defaults: the first in the log counts for older rows`(
        declaration: String, order: [Int]
    ) async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        try world.outside(0, "ALTER TABLE book ADD COLUMN pages INTEGER NOT NULL DEFAULT 7; UPDATE book SET pages = 70 WHERE id = 'a'")
        try world.outside(1, "ALTER TABLE book ADD COLUMN pages \(declaration); UPDATE book SET title = 'Deux' WHERE id = 'b'")
        try world.outside(1, "INSERT INTO book VALUES ('n', 'New', 1)")
        try world.outside(2, "INSERT INTO book VALUES ('o', 'Old')")
        // A replica without NOT NULL would wait for it, and one with NOT NULL until its program has removed it.
        let isNullable = declaration != "INTEGER NOT NULL DEFAULT 8"
        func removeConstraint() throws { try world.outside(0, Self.rebuild("INTEGER DEFAULT 7", "pages")) }
        if isNullable, order[0] == 1 { try removeConstraint() }
        for index in order { _ = try? await world.sync(index) }
        for index in order { _ = try? await world.sync(index) }
        if isNullable, order[0] == 0 { try removeConstraint() }
        try await world.settle()
        try world.outside(2, "INSERT INTO book VALUES ('p', 'Older')")
        try await world.settle()
        try await world.addClone("late")
        try world.outside(2, "INSERT INTO book VALUES ('q', 'Oldest')")
        try await world.settle()
        try world.outside(2, "ALTER TABLE book ADD COLUMN pages \(declaration)")
        try await world.expectAlike()
        let value = order[0] == 0 ? "7" : ["INTEGER NOT NULL DEFAULT 8": "8", "INTEGER DEFAULT 9": "9"][declaration] ?? "-"
        #expect(try await pages(world, 0) == ["a70", "b\(value)", "n1", "o\(value)", "p\(value)", "q\(value)"])
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test(arguments: ["INTEGER", "INTEGER DEFAULT 9"])
    func `a column that was filled becomes nullable`(later: String) async throws {
        let world = try await SyncedStores(replicas: 4, schema: Self.schema)
        try world.reopen(3, newSchemas: .take)
        try await world.settle()
        let filled = Self.rebuild("INTEGER NOT NULL", "7")
        try world.outside(0, filled)
        try world.outside(2, "INSERT INTO book VALUES ('o', 'Old')")
        try await world.settle()
        try world.outside(1, filled)
        try world.outside(1, "INSERT INTO book VALUES ('n', 'New', 1)")
        try await world.settle()
        let token = try await world.stores[0].latestToken()
        try world.outside(2, "INSERT INTO book VALUES ('p', 'Older')")
        try await world.stores[0].migrate(label: "v3", sql: Self.rebuild(later, "pages"))
        try world.outside(0, "UPDATE book SET pages = NULL WHERE id = 'a'")
        try await world.sync(0)
        try await world.sync(3)
        #expect(try await pages(world, 3).first == "a-")
        // The program of replica 2 makes both migrations at once.
        try world.outside(1, Self.rebuild(later, "pages"))
        try world.outside(2, filled)
        try world.outside(2, Self.rebuild(later, "pages"))
        try await world.addClone("late")
        try await world.expectAlike()
        for index in world.stores.indices {
            #expect(try await pages(world, index) == ["a-", "b7", "n1", "o7", "p7"], "replica \(index)")
            #expect(try await world.stores[index].verify().isEmpty, "replica \(index)")
        }
        _ = try await world.stores[0].replay(to: token, output: world.folder.file("then.db"))
        let then = try DatabaseQueue(path: world.folder.file("then.db"))
        let rows = try await then.read { db in try String.fetchAll(db, sql: "SELECT id || pages FROM book ORDER BY id") }
        #expect(rows == ["a7", "b7", "n1", "o7"])
        try then.close()
    }

    @Test func `a tool removes the default after it has added the column`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        try world.outside(0, "ALTER TABLE book ADD COLUMN pages INTEGER NOT NULL DEFAULT 7")
        try await world.sync(0)
        try world.outside(0, Self.rebuild("INTEGER NOT NULL", "pages"))
        try await world.settle()
        try world.outside(1, "INSERT INTO book VALUES ('o', 'Old')")
        try await world.settle()
        try await world.addClone("late")
        try world.outside(1, "INSERT INTO book VALUES ('p', 'Older')")
        try await world.settle()
        for index in [1, 2] { try world.outside(index, "ALTER TABLE book ADD COLUMN pages INTEGER NOT NULL DEFAULT 8") }
        try await world.expectAlike()
        #expect(try await pages(world, 3) == ["a7", "b7", "o7", "p7"])
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }
}
