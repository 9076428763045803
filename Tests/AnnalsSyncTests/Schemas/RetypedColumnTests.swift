import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// A column is added with another type than the space has for it, and is then declared again as in the space, as the error says.
@Suite("A column that is declared again with another type")
struct RetypedColumnTests {
    private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES(1, 'x'), (2, 'y')"

    enum Correction: CaseIterable {
        /// DROP COLUMN and ADD COLUMN in one migration.
        case dropAndAdd
        case rebuildInMigration
        /// By another program, which Annals does not see.
        case rebuild
    }

    private func correct(_ store: Int, _ how: Correction, _ declared: String, in world: SyncedStores) async throws {
        let rebuild = """
            CREATE TABLE new_item(id INTEGER PRIMARY KEY, name TEXT, cm \(declared));
            INSERT INTO new_item SELECT * FROM item; DROP TABLE item; ALTER TABLE new_item RENAME TO item
            """
        switch how {
        case .dropAndAdd:
            let sql = "ALTER TABLE item DROP COLUMN cm; ALTER TABLE item ADD COLUMN cm \(declared)"
            try await world.stores[store].migrate(label: "again", sql: sql)
        case .rebuildInMigration: try await world.stores[store].migrate(label: "again", sql: rebuild)
        case .rebuild: try world.outside(store, rebuild, foreignKeys: false)
        }
    }

    private func expectAlike(_ world: SyncedStores) async throws {
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1)
        for store in world.stores { #expect(try await store.verify() == []) }
    }

    private func refusedSync(_ store: Int, in world: SyncedStores) async throws {
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(store) }
        #expect(error?.code == .schemaRefused)
    }

    @Test("without work of its own", arguments: Correction.allCases, ["INTEGER DEFAULT 5", "INTEGER"])
    func unused(how: Correction, declared: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "ALTER TABLE item ADD COLUMN cm \(declared)")
        try await world.sync(0)
        try world.outside(1, "ALTER TABLE item ADD COLUMN cm REAL" + declared.drop { $0 != " " })
        try await refusedSync(1, in: world)
        try await correct(1, how, declared, in: world)
        let summary = try await world.sync(1)
        #expect(summary.reconciled == 0)
        try await world.settle()
        try await expectAlike(world)
        let changes = try await world.stores[1].read { db in
            let reader = try HistoryReader(db)
            return try reader.transactions(HistoryRequest()).flatMap { try reader.changes(in: $0) }
        }
        #expect(changes.isEmpty)
    }

    /// The unsent values have the earlier type. They are sent as the column stores them now.
    @Test("with unsent work", arguments: Correction.allCases, ["INTEGER", "TEXT"])
    func used(how: Correction, declared: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "ALTER TABLE item ADD COLUMN cm \(declared)")
        try await world.sync(0)
        try world.outside(1, "ALTER TABLE item ADD COLUMN cm REAL")
        try await world.stores[1].recordExternalChanges()
        try world.outside(1, "UPDATE item SET cm = 7 WHERE id = 1; INSERT INTO item VALUES(3, 'z', 8)")
        try await refusedSync(1, in: world)
        try await correct(1, how, declared, in: world)
        try await world.settle()
        try await expectAlike(world)
        let rows = try await world.rows(0, "SELECT id || name || coalesce(typeof(cm), '') FROM item ORDER BY id").map {
            String.fromDatabaseValue($0[0])
        }
        let type = how == .dropAndAdd ? "null" : declared.lowercased()
        #expect(rows == ["1x\(type)", "2ynull", "3z\(type)"])
    }

    @Test("a column of the space that is dropped and added in one migration is the same column, and another type is refused")
    func ofSpace() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, cm INTEGER); INSERT INTO item VALUES(1, 7), (2, 8)")
        try await world.stores[0].migrate(label: "again", sql: "ALTER TABLE item DROP COLUMN cm; ALTER TABLE item ADD COLUMN cm INTEGER")
        #expect(try await world.sync(0).reconciled == 0)
        try await world.settle()
        try await expectAlike(world)
        #expect(try await world.rows(1, "SELECT count(cm) FROM item").map { Int.fromDatabaseValue($0[0]) } == [0])
        let error = await #expect(throws: AnnalsError.self) {
            try await world.stores[1].migrate(label: "no", sql: "ALTER TABLE item DROP COLUMN cm; ALTER TABLE item ADD COLUMN cm TEXT")
        }
        #expect(error?.code == .schemaRefused)
    }

    /// Nothing was offered to the space before the correction.
    @Test("before the first sync, with recorded work", arguments: Correction.allCases)
    func neverOffered(how: Correction) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(1, "ALTER TABLE item ADD COLUMN cm REAL")
        try await world.stores[1].recordExternalChanges()
        try world.outside(1, "UPDATE item SET cm = 7 WHERE id = 1")
        try await world.stores[1].recordExternalChanges()
        try await correct(1, how, "INTEGER", in: world)
        try world.outside(1, "UPDATE item SET name = 'yy' WHERE id = 2")
        try await world.sync(1)
        try world.outside(0, "ALTER TABLE item ADD COLUMN cm INTEGER")
        try await world.settle()
        try await expectAlike(world)
    }
}
