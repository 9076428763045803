import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import SeededRandom
import Testing

/// Another program, or a bad disk, changed Annals' own tables. No process may crash, unreadable data is reported in one sentence,
/// `verify` finds what prevents a sync, and a store works again if `repair` says so.
///
/// `ANNALS_SEED=n swift test --filter DamagedTablesTests` replays one seed.
@Suite(.timeLimit(.minutes(20))) struct DamagedTablesTests {
    static let seeds = Seeds.given ?? Array(1...20)
    private static let values = ["NULL", "x'01ff'", "''", "'x'", "-1", "9223372036854775807", "-9223372036854775808", "1.5e300"]

    @Test("a value of Annals' own tables that it never writes ends no process, is told, found and repaired or left", arguments: seeds)
    func damage(seed: UInt64) async throws {
        var chance = SeededGenerator(seed: seed)
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE item(id TEXT PRIMARY KEY, list INTEGER REFERENCES list(id), title TEXT, done INTEGER);
                INSERT INTO list VALUES(1, 'home'), (2, 'work');
                INSERT INTO item VALUES('a', 1, 'milk', 0), ('b', 1, 'bread', 0);
                """)
        try await story(world, &chance)
        let damage = try await damage(world, &chance)
        let note: Comment = "seed \(seed): \(damage); ANNALS_SEED=\(seed) replays it"
        let store = world.stores[0]

        try await told(note) { _ = try await store.status() }
        try await told(note) { _ = try await store.conflicts() }
        try await told(note) { for try await _ in store.history(HistoryRequest()) {} }
        let found = try await store.verify()
        let copy = try await world.copyFile(of: 0)
        let isSynced = try await told(note) { try await world.sync(0) }
        guard !isSynced else { return }
        #expect(!found.isEmpty, note)

        guard try await told(note, { try await world.restore(copy, as: 0) }) else { return }
        let left = try await repair(world.stores[0])
        // If the rows are only unverified, the sync compares them.
        guard left.allSatisfy({ $0.code == .unseen }) else { return try await takeOut(world, note) }
        // A table that is renamed only in this table looks like a dropped table. The sync reports it.
        if damage.contains(where: { $0.hasPrefix("annals_tables.name") }) { return }
        try await world.settle()
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1, note)
    }

    /// The findings that repairs cannot remove. One finding may hide another.
    private func repair(_ store: Store) async throws -> [Finding] {
        var plan = try await store.repairPlan()
        var steps: Set<RepairStep> = []
        while !Set(plan.steps).isSubset(of: steps) {
            steps.formUnion(plan.steps)
            _ = try await store.repair(plan)
            plan = try await store.repairPlan()
        }
        return plan.findings
    }

    /// Tables that cannot be repaired can be untracked and tracked again.
    private func takeOut(_ world: SyncedStores, _ note: Comment) async throws {
        let store = world.stores[0]
        do {
            _ = try await store.untrack()
        } catch let error as AnnalsError where error.code == .alreadyJoined {
            // The record of the space is readable and may be wrong.
            try await store.leave(force: true)
            _ = try await store.untrack()
        }
        let left = try await world.rows(0, "SELECT name FROM sqlite_master WHERE name LIKE 'annals\\_%' ESCAPE '\\'")
        #expect(left.isEmpty, note)
        #expect(try await store.track(.all).tables.allSatisfy(\.isTracked), note)
        #expect(try await store.verify().isEmpty, note)
    }

    /// Writes some of everything that the tables can hold.
    private func story(_ world: SyncedStores, _ chance: inout SeededGenerator) async throws {
        try world.outside(1, "UPDATE item SET title = 'oat milk' WHERE id = 'a'; INSERT INTO list VALUES(3, 'garden')")
        try world.outside(0, "UPDATE item SET title = 'soy milk' WHERE id = 'a'; INSERT INTO list VALUES(3, 'cellar')")
        try await world.settle()
        try world.outside(0, "DELETE FROM item WHERE id = 'b'; INSERT INTO item VALUES('c', 2, 'mail', 0)")
        try world.outside(1, "UPDATE item SET done = 1; INSERT INTO item VALUES('d', 2, 'call', 0)")
        try await world.sync(1)
        _ = try await world.stores[0].updateOutbox()
        if Bool.random(using: &chance) {
            let failing = AlteredRelay.failing(
                world.relay, from: Int.random(in: 1...4, using: &chance), Bool.random(using: &chance) ? .after : .before)
            _ = try? await world.sync(0, over: failing)
        }
        try world.outside(0, "INSERT INTO item VALUES('e', 2, 'sweep', 0); UPDATE list SET name = 'office' WHERE id = 2")
        if Bool.random(using: &chance) { _ = try await world.stores[0].updateOutbox() }
    }

    /// Writes one to three wrong values.
    private func damage(_ world: SyncedStores, _ chance: inout SeededGenerator) async throws -> [String] {
        let names = try await world.rows(0, "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'annals\\_%' ESCAPE '\\'")
        var places: [(table: String, column: String)] = []
        for table in names.compactMap({ String.fromDatabaseValue($0[0]) }).sorted() {
            guard try await world.rows(0, "SELECT 1 FROM \(table) LIMIT 1").count > 0 else { continue }
            for column in try await world.rows(0, "SELECT name FROM pragma_table_info('\(table)')") {
                places.append((table, String.fromDatabaseValue(column[0]) ?? ""))
            }
            if table == "annals_meta" { places += Array(repeating: (table, "value"), count: 20) }
        }
        var done: [String] = []
        for _ in 0..<Int.random(in: 1...3, using: &chance) {
            guard let place = places.randomElement(using: &chance), let value = Self.values.randomElement(using: &chance) else { continue }
            let key = place.table == "annals_meta" || place.table == "annals_highest" ? "name" : "rowid"
            let rows = try await world.rows(0, "SELECT count(*) FROM \(place.table)")
            let row = Int.random(in: 0..<max(1, Int.fromDatabaseValue(rows[0][0]) ?? 1), using: &chance)
            let sql = """
                UPDATE OR IGNORE \(place.table) SET "\(place.column)" = \(value)
                WHERE \(key) = (SELECT \(key) FROM \(place.table) LIMIT 1 OFFSET \(row))
                """
            // Changes that SQLite refuses do no damage.
            if (try? world.outside(0, sql)) != nil { done.append("\(place.table).\(place.column)[\(row)] = \(value)") }
        }
        return done
    }

    /// Whether the work succeeded. If not, checks its error.
    @discardableResult
    private func told(_ note: Comment, _ body: () async throws -> Void) async throws -> Bool {
        do {
            try await body()
            return true
        } catch let error as AnnalsError {
            #expect(error.code != .defect, note)
            return false
        }
    }
}
