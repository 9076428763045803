internal import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Writes raw changes as the triggers do, for code that changes rows while the triggers are off.
///
///     let writer = try RawChangeWriter(db, table)
///     try writer.write(RawChange(id: last + 1, old: nil, new: row), at: nil)
package struct RawChangeWriter {
    private let statement: Statement
    private let table: TrackedTable

    package init(_ db: Database, _ table: TrackedTable) throws {
        self.table = table
        let columns = StoreSchema.changesColumns(table.columns.count, byRowid: table.key.isByRowid)
        statement = try db.makeStatement(
            sql: """
                INSERT INTO main.\(StoreSchema.changesTable(table.id))(\(columns.joined(separator: ", ")))
                VALUES(\(columns.map { _ in "?" }.joined(separator: ", ")))
                """)
    }

    /// Writes one change under its id. `day` is the time as a Julian day number; nil if the transaction's time is sufficient.
    package func write(_ change: RawChange, at day: Double?) throws {
        let count = table.columns.count
        var parameter = 0
        func bind(_ value: Value) throws {
            parameter += 1
            try statement.bind(value, at: parameter)
        }
        defer { statement.rewind() }
        try bind(.integer(change.id))
        try bind(day.map(Value.real) ?? .null)
        try bind(.integer(operation(of: change).rawValue))
        for mask in masks(of: change) { try bind(mask) }
        if table.key.isByRowid {
            try bind(change.oldRowid.map(Value.integer) ?? .null)
            try bind(change.newRowid.map(Value.integer) ?? .null)
        }
        for columnIndex in 0..<count { try bind(change.old?[columnIndex] ?? .null) }
        for columnIndex in 0..<count {
            let isKept = change.old?[columnIndex] != change.new?[columnIndex] || table.key.columnIndexes.contains(columnIndex)
            try bind(change.leftOut.contains(columnIndex) ? .integer(1) : isKept ? change.new?[columnIndex] ?? .null : .null)
        }
        _ = try statement.step()
    }

    private func operation(of change: RawChange) -> StoreSchema.Operation {
        precondition(change.old != nil || change.new != nil, "a change must have an old row, a new row or both")
        if change.old == nil { return .insert }
        return change.new == nil ? .delete : .update
    }

    private func masks(of change: RawChange) -> [Value] {
        let masks = 0..<StoreSchema.maskCount(table.columns.count)
        guard let old = change.old, let new = change.new else {
            // A delete needs no mask, so m0 holds the id of the change that it precedes.
            return masks.map { $0 == 0 ? change.precedes.map(Value.integer) ?? .null : .null }
        }
        let changed = old.indices.filter { old[$0] != new[$0] }
        return masks.map { .integer(RawChangeColumns.mask($0, ofChanged: changed)) }
    }
}
