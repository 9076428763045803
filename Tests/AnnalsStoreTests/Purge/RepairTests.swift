import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import Foundation
import GRDB
import Testing

@testable import AnnalsStore

@Suite("Repair rebuilds what can be rebuilt")
struct RepairTests {
    private func shop() throws -> PurgedStore {
        let shop = try PurgedStore("CREATE TABLE item(id INTEGER PRIMARY KEY, n INT); CREATE TABLE other(id INTEGER PRIMARY KEY)")
        for number in 1...4 {
            try shop.file.managed("till", nil, "INSERT INTO item VALUES(\(number), 0); INSERT INTO other VALUES(\(number))")
        }
        return shop
    }

    private static let damages = [
        "DROP TRIGGER annals_1_insert", "DELETE FROM annals_changes_1 WHERE id = 2", "DELETE FROM annals_transactions WHERE number = 2",
        "DELETE FROM annals_spans WHERE number = 2", "DELETE FROM annals_spans WHERE number = 4", "DROP TABLE annals_changes_1",
        "DROP TABLE annals_notes_w8", "DROP INDEX annals_notes_w8_key",
        "DROP TABLE annals_spans", "DROP TABLE annals_transactions", "UPDATE annals_changes_1 SET n1 = 'x'",
        "DELETE FROM annals_transactions WHERE number = 4; UPDATE item SET n = 1 WHERE id = 1; UPDATE item SET n = 0",
        "UPDATE annals_transactions SET author = x'00'; UPDATE annals_spans SET first = 'x' WHERE number > 1",
    ]

    @Test("It says what it will do, does it, all is well then, and capture goes on", arguments: damages)
    func damage(_ sql: String) async throws {
        let shop = try shop()
        try await shop.store.register("report", from: shop.file.token(1))
        let rows = try shop.file.rows()
        let damage = sql.contains("TRIGGER") ? "DROP TRIGGER \(try shop.file.triggerName("insert", of: "item"))" : sql
        try shop.file.outside(damage)
        let plan = try await shop.store.repairPlan()
        #expect(!plan.findings.isEmpty)
        #expect(!plan.steps.isEmpty)
        #expect(plan.remaining == nil)
        let report = try await shop.store.repair(shop.store.repairPlan())
        #expect(report.steps == plan.steps)
        #expect(report.remaining == [], "\(plan.steps)")
        #expect(try shop.file.rows() == rows)
        await #expect("who had read up to now must learn of it") { try await shop.store.token(of: "report") } throws: {
            ($0 as? AnnalsError)?.code == .tokenExpired
        }
        let before = try shop.file.bounds().latest.number
        #expect(before >= 5, "numbers go on rising")
        #expect(try shop.file.external("INSERT INTO item VALUES(9, 9); DELETE FROM other WHERE id = 1") == before + 1)
        #expect(try shop.file.changes(before + 1).count == 2)
        #expect(try await shop.store.verify() == [])
    }

    @Test("A store in order is left as it is")
    func clean() async throws {
        let shop = try shop()
        let report = try await shop.store.repair(shop.store.repairPlan())
        #expect(report.findings == [])
        #expect(report.steps == [])
        #expect(report.remaining == nil)
        #expect(try shop.file.transactions().count == 4)
    }

    @Test("Rows that break a foreign key are the user's to mend")
    func foreignKey() async throws {
        let shop = try PurgedStore("CREATE TABLE t(id INTEGER PRIMARY KEY, p REFERENCES t(id))")
        try shop.file.external("INSERT INTO t VALUES(1, 7)")
        let report = try await shop.store.repair(shop.store.repairPlan())
        #expect(report.findings.map(\.code) == [.foreignKey])
        #expect(report.steps == [])
    }
}
