import AnnalsCore
import AnnalsSchema
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

/// A migration tool dropped all of Annals' tables as unknown tables, as Alembic's autogenerate proposes. The triggers stay, so every
/// write to the program's tables fails.
@Suite struct DroppedTablesTests {
    private func shop() throws -> PurgedStore {
        let shop = try PurgedStore("CREATE TABLE item(id INTEGER PRIMARY KEY, n INT); CREATE TABLE other(id INTEGER PRIMARY KEY)")
        try shop.file.managed("till", nil, "INSERT INTO item VALUES(1, 0)")
        let tables = try shop.file.queue.read { db in
            try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'annals%'")
        }
        for table in tables { try shop.file.outside("DROP TABLE \(table)") }
        #expect(throws: DatabaseError.self) { try shop.file.outside("INSERT INTO item VALUES(2, 0)") }
        return shop
    }

    private func schema(_ shop: PurgedStore) throws -> [String] {
        try shop.file.queue.read { db in try String.fetchAll(db, sql: "SELECT name FROM sqlite_master ORDER BY name") }
    }

    @Test func `verify names the tables that cannot be written`() async throws {
        let findings = try await shop().store.verify()
        #expect(findings.map(\.code) == [.trigger, .trigger])
        #expect(findings.map(\.table) == ["item", "other"])
        #expect(findings.allSatisfy { $0.message.contains("cannot be written") })
    }

    @Test func `after a repair the tables are written again, and can be tracked`() async throws {
        let shop = try shop()
        let report = try await shop.store.repair(shop.store.repairPlan())
        #expect(report.steps == [.removeTriggers(tables: ["item", "other"])])
        #expect(report.remaining == [])
        #expect(try schema(shop) == ["item", "other"])
        try shop.file.outside("INSERT INTO item VALUES(2, 0)")
        #expect(try await !shop.store.track(.all).hadLostHistory)
    }

    @Test func `untrack takes the triggers away; of one table it says what to do`() async throws {
        let shop = try shop()
        let error = await #expect(throws: AnnalsError.self) { try await shop.store.untrack(["item"]) }
        #expect(error?.code == .corruptBatch)
        #expect(error?.hint?.contains("without table names") == true)
        _ = try await shop.store.untrack()
        #expect(try schema(shop) == ["item", "other"])
        try shop.file.outside("INSERT INTO item VALUES(2, 0)")
    }

    @Test func `track begins a new history, and says so`() async throws {
        let shop = try shop()
        #expect(try await shop.store.track(.all, options: .init(isDryRun: true)).hadLostHistory)
        #expect(try schema(shop).count == 15)
        let report = try await shop.store.track(.all)
        #expect(report.hadLostHistory)
        #expect(report.tables.map(\.isTracked) == [true, true])
        let before = try shop.file.bounds().latest.number
        #expect(try shop.file.external("INSERT INTO item VALUES(2, 0)") == before + 1)
        #expect(try await shop.store.verify() == [])
        #expect(try await !shop.store.track(.all).hadLostHistory)
    }

    @Test func `a program's own triggers are left alone, whatever their names`() throws {
        let file = try HistoryFile(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY);
            CREATE TRIGGER annals_1_insert AFTER INSERT ON t BEGIN SELECT 'annals_changes_2'; END;
            """)
        let error = #expect(throws: AnnalsError.self) { try file.track() }
        #expect(error?.code == .schemaRefused)
        #expect(try file.findings() == [])
        _ = try file.queue.writeWithoutTransaction { db in try Tracking.untrack(db) }
        #expect(try file.queue.read { db in try String.fetchAll(db, sql: "SELECT name FROM sqlite_master") } == ["t", "annals_1_insert"])
    }

    @Test func `where history is damaged, untrack of one table does not say that it is not tracked`() async throws {
        let shop = try PurgedStore("CREATE TABLE item(id INTEGER PRIMARY KEY, n INT)")
        try shop.file.outside(
            "DELETE FROM annals_tables; UPDATE annals_transactions SET id = 1; UPDATE annals_meta SET value = x'00' WHERE name = 'format'")
        let error = await #expect(throws: AnnalsError.self) { try await shop.store.untrack(["item"]) }
        #expect(error?.code == .corruptBatch, "\(String(describing: error))")
        let other = try PurgedStore("CREATE TABLE item(id INTEGER PRIMARY KEY, n INT)")
        let missing = await #expect(throws: AnnalsError.self) { try await other.store.untrack(["thing"]) }
        #expect(missing?.code == .notTracked)
    }
}
