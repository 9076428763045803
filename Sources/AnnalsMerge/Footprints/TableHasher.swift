import AnnalsCore
package import AnnalsWire

/// Computes the hashes of one table's rows. It is prepared once for many rows.
package final class TableHasher: Sendable {
    /// The primary key, a unique index, or the index of a parent that a foreign key refers to.
    struct Index: Sendable {
        var table: UInt64
        var columnIndexes: [Int]
        var columns: [FootprintRules.Column]
        var tuples: FootprintHash.Tuples
        /// The one hash of a coarse index.
        var coarse: UInt64?
        var coarseColumns: [Int]?
        /// The rows that have the reference. Only a reference has one.
        var condition: RowCondition?

        var isCoarse: Bool { coarse != nil }

        /// nil if a value is NULL. A tuple with NULL conflicts with nothing and refers to nothing.
        func hash(_ row: [Value]) -> UInt64? {
            if let condition, !condition.holds(row) { return nil }
            if let coarse { return coarse }
            if columnIndexes.contains(where: { row[$0].isNull }) { return nil }
            return tuples.hash { CanonicalTuple.value(row[columnIndexes[$0]], in: columns[$0]) }
        }

        func isSame(_ old: [Value], _ new: [Value]) -> Bool {
            usedColumnIndexes.allSatisfy { old[$0] == new[$0] }
        }

        /// Its columns and those of its condition.
        var usedColumnIndexes: [Int] { condition.map { columnIndexes + $0.columnIndexes } ?? columnIndexes }

        func isTouched(_ old: [Value]?, _ new: [Value]?) -> Bool {
            guard let old, let new, let coarseColumns else { return true }
            return coarseColumns.contains { old[$0] != new[$0] }
        }
    }

    /// The key of the hashes.
    package let key: FootprintKey
    let table: UInt64
    let indexes: [Index]
    let references: [Index]
    private let rowColumnIndexes: [Int]
    private let rowColumns: [FootprintRules.Column]
    private let rows: FootprintHash.Tuples

    package init(_ rules: FootprintRules, _ key: FootprintKey) {
        let hash = FootprintHash(key: key)
        let table = hash.tableHash(rules.table)
        self.key = key
        self.table = table
        rowColumnIndexes = rules.key.columnIndexes
        rowColumns = rules.key.columns
        rows = hash.rows(of: rules.table, keyColumns: rules.key.columnIndexes.count)
        indexes = ([rules.key] + rules.uniques).map { index in
            let names = index.columns.map(\.name)
            return Index(
                table: table, columnIndexes: index.columnIndexes, columns: index.columns,
                tuples: hash.tuples(of: rules.table, columns: names),
                coarse: index.isCoarse ? hash.indexHash(table: rules.table, columns: names) : nil, coarseColumns: index.coarseColumns)
        }
        references = rules.references.map { reference in
            let names = reference.parentColumns.map(\.name)
            return Index(
                table: hash.tableHash(reference.parentTable), columnIndexes: reference.columnIndexes, columns: reference.parentColumns,
                tuples: hash.tuples(of: reference.parentTable, columns: names),
                coarse: reference.isCoarse ? hash.indexHash(table: reference.parentTable, columns: names) : nil,
                condition: reference.condition)
        }
    }

    /// Passes on the write set of a change: the row under its old and new key, and each tuple of the key and of the
    /// unique indexes that the change takes or gives up.
    func writes(_ old: [Value]?, _ new: [Value]?, _ write: (UInt64) -> Void) {
        if let old, let new {
            let before = row(old)
            write(before)
            if !rowColumnIndexes.allSatisfy({ old[$0] == new[$0] }) {
                let after = row(new)
                if after != before { write(after) }
            }
        } else if let row = new ?? old {
            write(self.row(row))
        }
        for index in indexes {
            if let coarse = index.coarse {
                if index.isTouched(old, new) { write(coarse) }
                continue
            }
            // Most changes do not change the values of an index. Different values may still be equal in the index, so
            // the hashes are compared next.
            if let old, let new, index.isSame(old, new) { continue }
            let (given, taken) = (old.flatMap(index.hash), new.flatMap(index.hash))
            guard taken != given else { continue }
            if let given { write(given) }
            if let taken { write(taken) }
        }
    }

    /// Passes on the read set of a change: the parent's tuple for every foreign key value that it sets, with the hash
    /// of the parent's table.
    func reads(_ old: [Value]?, _ new: [Value]?, _ read: (_ table: UInt64, UInt64) -> Void) {
        guard let new else { return }
        for reference in references {
            if let old, reference.isSame(old, new) { continue }
            if let hash = reference.hash(new) { read(reference.table, hash) }
        }
    }

    /// The hash of a row by its key.
    private func row(_ row: [Value]) -> UInt64 {
        rows.hash { CanonicalTuple.value(row[rowColumnIndexes[$0]], in: rowColumns[$0]) }
    }
}
