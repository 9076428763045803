/// Checks rows against the constraints of a schema. It uses only the schema's closures, and no SQL.
struct Constraints {
    let schema: Schema

    /// Throws the first constraint of the schema that the rows violate (law 4).
    func check(_ rows: Rows) throws(Violation) {
        for table in schema.tables {
            let all = rows.rows(of: table.name)
            for row in all.values { try checkRow(table, row) }
            for unique in table.uniques { try checkUnique(table, unique, all.values) }
        }
        try checkReferences(rows)
    }

    func checkReferences(_ rows: Rows) throws(Violation) {
        for table in schema.tables {
            let all = rows.rows(of: table.name).values
            for reference in table.references where reference.isDeclared { try checkReference(table, reference, all, rows) }
        }
    }

    private func checkRow(_ table: Table, _ row: [Cell]) throws(Violation) {
        for (column, cell) in zip(table.columns, row) where column.isNotNull && cell.isNull {
            throw Violation("law 4", "\(table.name).\(column.name) is NULL in \(Rows.text(row))")
        }
        for check in table.checks where !check.holds(row) {
            throw Violation("law 4", "\(table.name) \(Rows.text(row)) breaks CHECK (\(check.sql))")
        }
    }

    private func checkUnique(_ table: Table, _ unique: Unique, _ rows: some Collection<[Cell]>) throws(Violation) {
        var seen: Set<[Cell]> = []
        for row in rows where unique.condition?.holds(row) ?? true {
            let tuple = unique.parts.map { $0.collation.folded($0.value(row)) }
            if tuple.contains(.null) { continue }
            if !seen.insert(tuple).inserted {
                throw Violation(
                    "law 4", "\(table.name) holds \(Rows.text(tuple)) twice in UNIQUE (\(unique.parts.map(\.sql).joined(separator: ", ")))")
            }
        }
    }

    private func checkReference(
        _ table: Table, _ reference: Reference, _ rows: some Collection<[Cell]>, _ all: Rows
    ) throws(Violation) {
        func folded(_ cells: [Cell]) -> [Cell] { zip(reference.collations, cells).map { $0.folded($1) } }
        let parents = Set(all.rows(of: reference.parent).values.map { row in folded(reference.parentColumns.map { row[$0] }) })
        for row in rows {
            let tuple = reference.columns.map { row[$0] }
            if tuple.contains(.null) || parents.contains(folded(tuple)) { continue }
            throw Violation(
                "law 4", "\(table.name) \(Rows.text(row)) refers to \(reference.parent) \(Rows.text(tuple)), which is not there")
        }
    }
}
