import AnnalsCore
import AnnalsMerge

/// The net effect of what was done to rows: per row the first old and the last new values, whatever came between.
struct NetRows {
    struct Row {
        var table: RowTable
        var old: [Value]?
        var new: [Value]?
        var mark: RowMark?
    }

    private var rows: [Row] = []
    /// Rows by the key they have now, or had last.
    private var index: [RowReference: Int] = [:]

    mutating func record(_ table: RowTable, old: [Value]?, new: [Value]?, mark: RowMark? = nil) {
        let before = old.map { RowReference(table.name, table.key(of: $0)) }
        let after = new.map { RowReference(table.name, table.key(of: $0)) }
        if let before, let place = index[before], rows[place].new != nil {
            index[before] = nil
            rows[place].new = new
            rows[place].mark = mark ?? rows[place].mark
            index[after ?? before] = place
        } else if let after, before == nil, let place = index[after], rows[place].new == nil {
            // The key was deleted before in the same transaction: one update of the row.
            rows[place].new = new
            rows[place].mark = mark
        } else if let target = after ?? before {
            index[target] = rows.count
            rows.append(Row(table: table, old: old, new: new, mark: mark))
        }
    }

    /// The rows that came out different, parents' tables before their children's where that is possible.
    func effective(tableOrder: [String: Int]) -> [Row] {
        rows.filter { $0.old != $0.new }
            .enumerated()
            .sorted { left, right in
                let a = tableOrder[left.element.table.name] ?? .max
                let b = tableOrder[right.element.table.name] ?? .max
                return (a, left.offset) < (b, right.offset)
            }
            .map(\.element)
    }
}

extension NetRows.Row {
    /// The row as a change of a transaction; nil when nothing changed.
    var change: RowChange? {
        switch (old, new) {
        case (nil, nil): return nil
        case (nil, let new?): return .insert(new)
        case (let old?, nil): return .delete(old)
        case (let old?, let new?):
            let columns = old.indices.filter { old[$0] != new[$0] }.map { ColumnChange(column: $0, old: old[$0], new: new[$0]) }
            return columns.isEmpty ? nil : .update(key: table.key(of: old), columns: columns)
        }
    }
}
