import AnnalsCore
import AnnalsSQLite
import AnnalsStore
import GRDB

/// Describes a refused constraint: its columns, the values, and the rows that prevent the save.
extension Saving {
    func conflict(_ planned: PlannedRow) throws -> ConstraintConflict {
        let table = planned.table
        guard let refusal = planned.refusal else { return make(.trigger, planned, columnIndexes: [], name: nil, others: []) }
        let named =
            refusal.table.isEmpty || refusal.table.isSameIdentifier(as: table.name)
            ? refusal.columns.compactMap(table.columnIndex(of:)) : []
        switch refusal.kind {
        case .unique:
            let row = planned.values.map { $0 ?? .null }
            let holders = try session.holders(of: row, in: table, exceptKey: planned.ownKey)
            guard !holders.isEmpty else { return make(.unique, planned, columnIndexes: named, name: refusal.name, others: []) }
            var columnIndexes: [Int] = []
            var others: [StoredRow] = []
            for holder in holders {
                columnIndexes += (holder.columnIndexes ?? named).filter { !columnIndexes.contains($0) }
                let other = StoredRow(table, holder.row)
                if !others.contains(other) { others.append(other) }
            }
            return make(.unique, planned, columnIndexes: columnIndexes, name: refusal.name, others: others)
        case .foreignKey:
            let broken = try brokenForeignKeys(of: planned)
            return broken ?? make(.foreignKey, planned, columnIndexes: named, name: refusal.name, others: [])
        case .notNull, .check, .datatype, .trigger:
            return make(refusal.kind, planned, columnIndexes: named, name: refusal.name, others: [])
        }
    }

    private func make(
        _ kind: ConstraintConflict.Kind, _ planned: PlannedRow, columnIndexes: [Int], name: String?, others: [StoredRow]
    ) -> ConstraintConflict {
        let table = planned.table
        var values: [String: DatabaseValue] = [:]
        for columnIndex in columnIndexes where columnIndex < planned.values.count {
            values[table.columns[columnIndex].name] = planned.values[columnIndex]?.databaseValue
        }
        return ConstraintConflict(
            kind: kind, table: table.name, identifier: planned.identifier, name: name,
            columns: columnIndexes.map { table.columns[$0].name },
            values: values, mine: planned.mine, others: others)
    }

    // MARK: Foreign keys

    /// The rows of the save that leave a reference without its parent.
    func brokenForeignKeys() throws -> [ConstraintConflict] {
        var broken = try displaced.compactMap { try brokenForeignKeys(of: $0) }
        for (identifier, row) in edits.rows.lazy.filter({ $0.value.hasEdits }).sorted(by: { $0.value.order < $1.value.order }) {
            let present = names[identifier] ?? identifier
            let stored = try session.row(present.key, of: row.table)
            let planned = PlannedRow(
                identifier: identifier, row: row, action: stored.map { .update(from: $0) } ?? .delete(stored: []),
                values: stored ?? row.base ?? [])
            if let conflict = try brokenForeignKeys(of: planned) { broken.append(conflict) }
        }
        if broken.isEmpty {
            broken = [
                ConstraintConflict(
                    kind: .foreignKey, table: "", identifier: nil, name: nil, columns: [], values: [:], mine: nil, others: [])
            ]
        }
        return broken
    }

    private func brokenForeignKeys(of planned: PlannedRow) throws -> ConstraintConflict? {
        if case .delete(let stored) = planned.action {
            return try brokenByDeleting(planned, stored.isEmpty ? planned.values.map { $0 ?? .null } : stored)
        }
        for key in planned.table.foreignKeys {
            let columnIndexes = key.columnIndexes.compactMap(\.self)
            let values = columnIndexes.compactMap { planned.values[$0] }
            guard columnIndexes.count == key.columns.count, values.count == columnIndexes.count, !values.contains(where: \.isNull) else {
                continue
            }
            guard try rows(of: key.parentTable, having: key.parentColumns, values, limit: 1).isEmpty else { continue }
            return make(.foreignKey, planned, columnIndexes: columnIndexes, name: key.parentTable, others: [])
        }
        return nil
    }

    /// Describes the rows that refer to a row that is to be deleted.
    private func brokenByDeleting(_ planned: PlannedRow, _ row: [Value]) throws -> ConstraintConflict? {
        for (child, key) in session.catalog.references(to: planned.table.name) {
            let values = key.parentColumns.compactMap { planned.table.columnIndex(of: $0).map { row[$0] } }
            guard values.count == key.columns.count, !values.isEmpty else { continue }
            let children = try rows(of: child.name, having: key.columns, values, limit: Self.childrenTold)
            guard !children.isEmpty else { continue }
            let others = children.map { found in StoredRow(child, child.columns.map { Value(found[$0.name] as DatabaseValue) }) }
            return ConstraintConflict(
                kind: .foreignKey, table: planned.table.name, identifier: planned.identifier, name: child.name, columns: key.parentColumns,
                values: Dictionary(zip(key.parentColumns, values.map(\.databaseValue)), uniquingKeysWith: { $1 }), mine: nil, others: others
            )
        }
        return nil
    }

    /// How many of the referring rows an error lists.
    private static let childrenTold = 10

    private func rows(of table: String, having columns: [String], _ values: [Value], limit: Int) throws -> [Row] {
        let conditions = columns.map { "\($0.quotedDatabaseIdentifier) = ?" }.joined(separator: " AND ")
        return try Row.fetchAll(
            db, sql: "SELECT * FROM \(table.quotedDatabaseIdentifier) WHERE \(conditions) LIMIT \(limit)",
            arguments: StatementArguments(values.map(\.databaseValue)))
    }
}
