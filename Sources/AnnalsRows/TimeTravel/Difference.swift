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
        var chosen: ChosenDifference
        var isBackward: Bool

        func forEachRow(of table: TrackedTables.Entry, _ visit: (NetChange) throws -> Void) throws {
            let columns = chosen.columns(of: table)
            try rows.forEachRow(of: table) { row in
                guard row.differs(in: columns) else { return }
                try visit(isBackward ? NetChange(old: row.new, new: row.old, leftOut: row.leftOut) : row)
            }
        }
    }

    /// Visits every row that differs. Tables of parents come first.
    ///
    /// - Throws: `AnnalsError` with code `notTracked` or `usage` if the filter does not fit the tables.
    package func forEachChange(
        from: HistoryPoint, to: HistoryPoint, only filter: DifferenceFilter = DifferenceFilter(), _ visit: (HistoryChange) throws -> Void
    ) throws -> DifferenceCount {
        try folded(from, to, filter) { folded in
            var count = DifferenceCount()
            for table in folded.rows.tables {
                let layout = table.definition.layout
                let names = folded.chosen.columns(of: table).map { indexes in Set(indexes.map { layout.columns[$0] }) }
                try folded.forEachRow(of: table) { row in
                    count.note(row)
                    var change = HistoryChange(row, layout: layout)
                    if let names { change.columns.removeAll { !names.contains($0.name) } }
                    try visit(change)
                }
            }
            return count
        }
    }

    /// Writes SQL that changes the state at `from` into the state at `to` (see `DifferenceSQL`).
    ///
    /// - Throws: `AnnalsError` with code `usage` for a filter with columns, because an inserted row has all its columns.
    package func writeSQL(
        from: HistoryPoint, to: HistoryPoint, only filter: DifferenceFilter = DifferenceFilter(), _ write: (String) throws -> Void
    ) throws -> DifferenceCount {
        guard filter.columns.isEmpty else {
            throw AnnalsError(
                .usage, operation: "diff", "SQL is for whole rows, not for some of their columns", hint: "Leave the columns out",
                commandHint: "Leave --column out")
        }
        let script = try DifferenceSQL(db)
        return try folded(from, to, filter) { folded in
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

    private func folded<T>(
        _ from: HistoryPoint, _ to: HistoryPoint, _ filter: DifferenceFilter, _ body: (Folded) throws -> T
    ) throws -> T {
        try Replay.withConnection(db, attaching: "") {
            try db.execute(
                sql: """
                    PRAGMA \(SchemaCopy.target).journal_mode = OFF;
                    PRAGMA \(SchemaCopy.target).synchronous = OFF;
                    PRAGMA \(SchemaCopy.target).secure_delete = OFF;
                    """)
            let (rows, chosen) = try RecordedRead.run(db, environment) {
                let bounds = try HistoryBounds(db)
                for point in [from, to] { try bounds.check(point.token) }
                let (first, last) = from.isAfter(to) ? (to, from) : (from, to)
                let tables = try TrackedTables.load(db)
                let chosen = try ChosenDifference(filter, tables, db)
                let names = filter == DifferenceFilter() ? nil : tables.entries.filter(chosen.holds).map(\.definition.name)
                try UnknownRows.check([from, to], tables: names, operation: "diff", db)
                let rows = try DifferenceFold(db, schema: SchemaCopy.target, changes: NetChanges(db, tables: tables), chosen: chosen)
                try rows.add(after: first)
                let next = (first.dividedTransaction ?? first.token.number) + 1
                for number in stride(from: next, through: last.dividedTransaction ?? last.token.number, by: 1) {
                    try rows.add(transaction: number)
                }
                try rows.add(after: last, isUndone: true)
                return (rows, chosen)
            }
            return try body(Folded(rows: rows, chosen: chosen, isBackward: from.isAfter(to)))
        }
    }
}
