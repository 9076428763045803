internal import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Reads raw changes of one column list.
///
///     let reader = try RawChangeReader(db, table)
///     try reader.read(span.first...span.last) { change in folder.add(change) }
package struct RawChangeReader {
    private let statement: Statement
    private let columnCount: Int
    private let maskCount: Int
    private let isByRowid: Bool
    private let key: [Int]

    package init(_ db: Database, _ table: TrackedTable) throws {
        try self.init(db, table, prepare: db.makeStatement(sql:))
    }

    /// Uses a cached statement: creating the reader is faster, but only one such reader may read a table at a time.
    init(cachedIn db: Database, _ table: TrackedTable) throws {
        try self.init(db, table, prepare: db.cachedStatement(sql:))
    }

    private init(_ db: Database, _ table: TrackedTable, prepare: (String) throws -> Statement) throws {
        columnCount = table.columns.count
        maskCount = StoreSchema.maskCount(columnCount)
        isByRowid = table.key.isByRowid
        key = table.key.places
        let columns = StoreSchema.changesColumns(columnCount, byRowid: isByRowid).filter { $0 != "at" }.joined(separator: ", ")
        statement = try prepare(
            "SELECT \(columns) FROM main.\(StoreSchema.changesTable(table.id)) WHERE id BETWEEN ? AND ? ORDER BY id")
    }

    /// Passes the changes of a range of ids in their order. An error of `body` ends the reading.
    package func read(_ ids: ClosedRange<Int64>, _ body: (RawChange) throws -> Void) throws {
        try statement.setArguments([ids.lowerBound, ids.upperBound])
        defer { statement.rewind() }
        while try statement.step() { try body(current()) }
    }

    /// One change; nil if it was purged.
    package func change(_ id: Int64) throws -> RawChange? {
        var found: RawChange?
        try read(id...id) { found = $0 }
        return found
    }

    private func current() -> RawChange {
        let operation = StoreSchema.Operation(rawValue: statement.integer(at: 1))
        let rowids = 2 + maskCount
        let first = rowids + (isByRowid ? 2 : 0)
        let old = operation == .insert ? nil : statement.values(at: first..<(first + columnCount))
        let new = operation == .delete ? nil : newRow(from: first + columnCount, old: old)
        let leftOut = operation == .update ? leftOut(old ?? [], from: first + columnCount) : []
        return RawChange(
            id: statement.integer(at: 0), old: old, new: new, leftOut: leftOut,
            oldRowid: isByRowid && old != nil ? statement.integer(at: rowids) : nil,
            newRowid: isByRowid && new != nil ? statement.integer(at: rowids + 1) : nil,
            precedes: operation == .delete ? statement.value(at: 2).integer : nil)
    }

    /// Indices of the values that an update left out. A column that an update did not change is NULL in the new row, or 1 if its
    /// old value was left out.
    private func leftOut(_ old: [Value], from first: Int) -> [Int] {
        old.indices.filter { place in
            guard old[place].isNull, !statement.isNull(at: first + place), !key.contains(place) else { return false }
            return !StoreSchema.isMarked(place) { statement.integer(at: 2 + $0) }
        }
    }

    /// An update holds only the changed values and the key of the new row.
    private func newRow(from first: Int, old: [Value]?) -> [Value] {
        guard var row = old else { return statement.values(at: first..<(first + columnCount)) }
        for mask in 0..<maskCount {
            var bits = UInt64(bitPattern: statement.integer(at: 2 + mask))
            while bits != 0 {
                let place = mask * StoreSchema.columnsPerMask + bits.trailingZeroBitCount
                row[place] = statement.value(at: first + place)
                bits &= bits - 1
            }
        }
        return row
    }
}
