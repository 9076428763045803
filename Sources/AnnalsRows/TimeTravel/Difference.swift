import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
package import GRDB

/// The number of rows that differ between two points of history.
public struct DifferenceCount: Hashable, Sendable {
    public internal(set) var inserted = 0
    public internal(set) var updated = 0
    public internal(set) var deleted = 0

    public var total: Int { inserted + updated + deleted }

    package mutating func note(_ change: NetChange) {
        switch (change.old, change.new) {
        case (nil, _): inserted += 1
        case (_, nil): deleted += 1
        default: updated += 1
        }
    }
}

/// The rows that differ between two points of history, in the current tables and columns.
///
/// One read transaction reads the transactions between the points and folds them in a temporary database. The rows are visited
/// from there. So a slow visit does not keep other programs from writing.
package struct Difference {
    package let db: Database
    package let environment: CaptureEnvironment

    package init(db: Database, environment: CaptureEnvironment) {
        self.db = db
        self.environment = environment
    }

    private struct Folded {
        var rows: DifferenceFold
        var isBackward: Bool

        func forEachRow(of table: TrackedTables.Entry, _ visit: (NetChange) throws -> Void) throws {
            try rows.forEachRow(of: table) { row in
                try visit(isBackward ? NetChange(old: row.new, new: row.old, leftOut: row.leftOut) : row)
            }
        }
    }

    /// Visits every row that differs. Tables of parents come first.
    package func forEachChange(from: HistoryToken, to: HistoryToken, _ visit: (HistoryChange) throws -> Void) throws -> DifferenceCount {
        try folded(from, to) { folded in
            var count = DifferenceCount()
            for table in folded.rows.tables {
                let layout = table.definition.layout
                try folded.forEachRow(of: table) { row in
                    count.note(row)
                    try visit(HistoryChange(row, layout: layout))
                }
            }
            return count
        }
    }

    /// Writes SQL that changes the state at `from` into the state at `to` (see `DifferenceSQL`).
    package func writeSQL(from: HistoryToken, to: HistoryToken, _ write: (String) throws -> Void) throws -> DifferenceCount {
        let script = try DifferenceSQL(db)
        return try folded(from, to) { folded in
            var count = DifferenceCount()
            for table in folded.rows.tables {
                let statements = try script.statements(for: table)
                try folded.forEachRow(of: table) { row in
                    if count.total == 0 { try write(script.head(from: from, to: to)) }
                    count.note(row)
                    if let text = statements.takingOut(row) { try write(text) }
                }
                try folded.forEachRow(of: table) { row in
                    if let text = statements.putting(row) { try write(text) }
                }
            }
            if count.total > 0 { try write(script.foot) }
            return count
        }
    }

    private func folded<T>(_ from: HistoryToken, _ to: HistoryToken, _ body: (Folded) throws -> T) throws -> T {
        try Replay.withConnection(db, attaching: "") {
            try db.execute(
                sql: """
                    PRAGMA \(SchemaCopy.target).journal_mode = OFF;
                    PRAGMA \(SchemaCopy.target).synchronous = OFF;
                    PRAGMA \(SchemaCopy.target).secure_delete = OFF;
                    PRAGMA \(SchemaCopy.target).cache_size = \(-DifferenceLimits.cacheKibibytes);
                    """)
            let rows = try RecordedRead.run(db, environment) {
                let bounds = try HistoryBounds(db)
                let ends = try [bounds.check(from).number, bounds.check(to).number].sorted()
                let changes = try NetChanges(db, tables: TrackedTables.load(db))
                let rows = DifferenceFold(db, schema: SchemaCopy.target, changes: changes)
                for number in stride(from: ends[0] + 1, through: ends[1], by: 1) { try rows.add(transaction: number) }
                return rows
            }
            return try body(Folded(rows: rows, isBackward: to.number < from.number))
        }
    }
}

/// Limits of comparing two points.
enum DifferenceLimits {
    /// The page cache of the temporary database.
    static let cacheKibibytes = 8_192
}
