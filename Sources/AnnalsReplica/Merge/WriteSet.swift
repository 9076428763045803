package import AnnalsCore
import AnnalsMerge
package import AnnalsRows
import AnnalsSchema

/// The net changes of a transaction after it was repeated: one change for each row.
package struct WriteSet {
    package struct Row {
        package var table: RowTable
        package var old: [Value]?
        package var new: [Value]?
        package var mark: RowMark?
        package var age: Int64
    }

    private var rows: [Row] = []
    /// Removed rows, by their old keys.
    private var gone: [RowReference: Int] = [:]

    package var isEmpty: Bool { rows.isEmpty }

    /// Whether it has a change of a table and of one of some columns, by canonical names. Without columns, and for inserts and deletes, every
    /// change counts.
    func touches(_ table: String, _ columns: [String]) -> Bool {
        rows.contains { row in
            guard row.table.first.name.isSameIdentifier(as: table) else { return false }
            guard let old = row.old, let new = row.new, !columns.isEmpty else { return true }
            return row.table.first.columns.indices.contains { index in
                old[index] != new[index] && columns.contains { $0.isSameIdentifier(as: row.table.first.columns[index].name) }
            }
        }
    }

    /// Removals, also by a change of the key, must be recorded before inserts.
    package mutating func record(_ table: RowTable, old: [Value]?, new: [Value]?, mark: RowMark? = nil, age: Int64 = 0) {
        guard old != new else { return }
        switch (old, new) {
        case (let old?, nil):
            gone[RowReference(table.name, table.key(of: old))] = rows.count
            rows.append(Row(table: table, old: old, new: nil, mark: mark, age: age))
        case (nil, let new?):
            // A delete and an insert of one key in one transaction are one update of the row (merge rule 4).
            if let index = gone.removeValue(forKey: RowReference(table.name, table.key(of: new))) {
                rows[index].new = new
                rows[index].mark = nil
                rows[index].age = min(rows[index].age, age)
            } else {
                rows.append(Row(table: table, old: nil, new: new, mark: mark, age: age))
            }
        default:
            rows.append(Row(table: table, old: old, new: new, mark: mark, age: age))
        }
    }

    /// The changes. Tables of parents come before tables of children if possible.
    func effective(tableOrder: [String: Int]) -> [Row] {
        rows.enumerated()
            .sorted { left, right in
                let a = tableOrder[left.element.table.name] ?? .max
                let b = tableOrder[right.element.table.name] ?? .max
                return (a, left.offset) < (b, right.offset)
            }
            .map(\.element)
    }
}

extension WriteSet.Row {
    /// The row as a change of a transaction; nil if nothing changed.
    package var change: RowChange? { RowChange(old: old, new: new, key: table.definition.primaryKey) }
}
