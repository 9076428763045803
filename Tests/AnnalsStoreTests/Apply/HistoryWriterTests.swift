import AnnalsCore
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsSchema
@testable import AnnalsStore

@Suite("History of rows that are almost as large as SQLite's rows can be")
struct HistoryWriterTests {
    @Test("F10: an update of two values that together are too large for a row is written as two, and is one in history")
    func twoSteps() throws {
        let store = try HistoryFile("CREATE TABLE doc(id INTEGER PRIMARY KEY, body BLOB, note TEXT)")
        try store.track()
        let rows: [[Value]] = [
            [.integer(1), .blob([UInt8](repeating: 1, count: 600)), .text("a")],
            [.integer(1), .blob([UInt8](repeating: 2, count: 600)), .text("a")],
            [.integer(7), .blob([UInt8](repeating: 3, count: 600)), .text("b")],
            [.integer(7), .null, .text("b")],
        ]
        try store.queue.write { db in
            let tables = try TrackedTables.load(db)
            let table = try #require(tables.table(named: "doc"))
            let writer = try HistoryWriter(db, table.definition, layoutID: table.id)
            writer.largestUpdate = 1_000
            try writer.insert(rows[0])
            for (old, new) in zip(rows, rows.dropFirst()) { try writer.update(old, to: new) }
            // Two updates have two changes each, and one has one.
            #expect(writer.lastID == 6)
            let largest = try Int.fetchOne(
                db, sql: "SELECT max(coalesce(length(o1), 0) + coalesce(length(n1), 0)) FROM annals_changes_\(table.id)")
            #expect(largest == 600)
        }
        // The raw changes add up to the update, for any part of them that belongs to one transaction.
        let layout = try store.queue.read { db in try #require(TrackedTables.load(db).table(named: "doc")?.id) }
        for (ids, old, new) in [
            (2...3, rows[0], rows[1]), (2...6, rows[0], rows[3]), (4...5, rows[1], rows[2]), (6...6, rows[2], rows[3]),
        ] as [(ClosedRange<Int64>, [Value], [Value])] {
            var changes: [NetChange] = []
            try store.queue.read { db in
                let net = try NetChanges(db, tables: TrackedTables.load(db))
                try net.forEachRow(in: .init(layout: layout, first: ids.lowerBound, last: ids.upperBound)) { changes.append($0) }
            }
            #expect(changes.map(\.old) == [old] && changes.map(\.new) == [new], "\(ids)")
        }
    }
}
