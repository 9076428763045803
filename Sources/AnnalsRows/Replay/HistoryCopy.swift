package import AnnalsCore
package import AnnalsHistory
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// A copy of the tracked rows in an attached database, which can be moved backward and forward through history.
///
/// The net changes of a transaction are applied in two passes, because it may have swapped keys or unique values. The first
/// pass removes the rows that are deleted or that change a unique value. The second pass writes rows. Steps of a large transaction that
/// need no second pass are complete after the first one.
package final class HistoryCopy {
    package enum Direction {
        case back, forth
    }

    private let db: Database
    private let changes: NetChanges
    private let schema: String
    private var tables: [String: CopiedTable] = [:]
    /// Called for every row that differs from history. If it throws, the move ends; otherwise the move continues as far as it can.
    package var mismatch: (CopyMismatch) throws -> Void
    /// Called from time to time with the number of raw changes since the last call.
    package var progress: (Int64) throws -> Void = { _ in }

    package init(_ db: Database, schema: String, changes: NetChanges, mismatch: @escaping (CopyMismatch) throws -> Void) {
        self.db = db
        self.changes = changes
        self.schema = schema
        self.mismatch = mismatch
    }

    package func table(_ definition: DeclaredTable) -> CopiedTable {
        let name = definition.name.foldedIdentifier
        if let table = tables[name] { return table }
        let table = CopiedTable(db, schema: schema, definition: definition)
        tables[name] = table
        return table
    }

    /// Undoes or repeats the changes of one transaction. Returns the number of rows.
    @discardableResult
    package func move(_ direction: Direction, through transaction: Int64) throws -> Int {
        try move(direction, through: changes.parts(of: transaction))
    }

    @discardableResult
    package func move(_ direction: Direction, through parts: [NetChanges.Part]) throws -> Int {
        let count = parts.reduce(0) { $0 + $1.sections.reduce(0) { $0 + Int($1.last - $1.first + 1) } }
        guard count > HistoryLimits.foldedAtOnce else {
            var steps: [Step] = []
            try forEachStep(direction, parts) { steps.append($0) }
            let rows = try take(steps)
            try progress(Int64(count))
            return rows
        }
        return try moveMany(direction, parts, count)
    }

    /// The first step that needs a second pass is the first one that moves a row, or whose row has a key or unique value of another row
    /// still. All steps before it are complete after the first pass. Most transactions have no such step, and are read once.
    ///
    /// - Parameter count: the number of raw changes, at least one for each row.
    private func moveMany(_ direction: Direction, _ parts: [NetChanges.Part], _ count: Int) throws -> Int {
        var (rows, complete) = (0, 0)
        try forEachStep(direction, parts) { step in
            if rows == complete, try step.table.takeAtOnce(step, mismatch) {
                complete += 1
            } else {
                try step.table.takeOut(step, mismatch)
            }
            rows += 1
            if rows.isMultiple(of: Self.rowsBetweenReports) { try progress(Int64(Self.rowsBetweenReports)) }
        }
        try progress(Int64(count - rows / Self.rowsBetweenReports * Self.rowsBetweenReports))
        guard complete < rows else { return rows }
        var index = 0
        try forEachStep(direction, parts) { step in
            if index >= complete { try step.table.put(step, mismatch) }
            index += 1
        }
        return rows
    }

    private static let rowsBetweenReports = 1_000

    /// The change of one row between two states; nil if the row does not exist in a state.
    package struct Step {
        package var table: CopiedTable
        package var from: [Value]?
        package var to: [Value]?
        /// Column numbers of values that neither state holds. These values are unchanged.
        package var leftOut: [Int] = []

        package init(table: CopiedTable, from: [Value]? = nil, to: [Value]? = nil, leftOut: [Int] = []) {
            self.table = table
            self.from = from
            self.to = to
            self.leftOut = leftOut
        }
    }

    @discardableResult
    package func take(_ steps: [Step]) throws -> Int {
        for step in steps { try step.table.takeOut(step, mismatch) }
        for step in steps { try step.table.put(step, mismatch) }
        return steps.count
    }

    private func forEachStep(_ direction: Direction, _ parts: [NetChanges.Part], _ visit: (Step) throws -> Void) throws {
        for part in parts {
            let table = table(part.entry.definition)
            try changes.forEachRow(in: part) { row in
                let (from, to) = direction == .back ? (row.new, row.old) : (row.old, row.new)
                try visit(Step(table: table, from: from, to: to, leftOut: row.leftOut))
            }
        }
    }
}
