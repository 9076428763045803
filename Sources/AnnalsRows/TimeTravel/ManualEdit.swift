package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// A change of one row that a person decided. If a constraint prevents it, the error names the constraint, instead of showing
/// SQLite's message or a COMMIT that fails.
package struct ManualEdit {
    package let db: Database
    package let table: DeclaredTable
    package let tables: TrackedTables

    package init(db: Database, table: DeclaredTable, tables: TrackedTables) {
        self.db = db
        self.table = table
        self.tables = tables
    }

    package func find(_ key: [Value]) throws -> [Value]? {
        let sql = table.lookup(in: "main.\(SQL.quote(table.name))", "IS")
        return try PreparedStatement(db, sql).row(for: key, columns: table.columns.count)
    }

    // MARK: Writing

    package func delete(_ row: [Value]) throws {
        try write("be deleted", before: row, after: nil) {
            try prepare("DELETE FROM main.\(SQL.quote(table.name)) WHERE \(isKey)", key(of: row)).run()
        }
    }

    /// Writes the columns that differ, if there are any.
    package func update(_ row: [Value], to values: [String: Value]) throws {
        var after = row
        for (column, value) in values { if let columnIndex = table.columnIndex(of: column) { after[columnIndex] = value } }
        let columnIndexes = row.indices.filter { after[$0] != row[$0] }
        guard !columnIndexes.isEmpty else { return }
        let key = key(of: row)
        let set = columnIndexes.enumerated().map { "\(SQL.quote(table.columns[$1].name)) = ?\(key.count + $0 + 1)" }.joined(separator: ", ")
        try write("have these values", before: row, after: after) {
            try prepare("UPDATE main.\(SQL.quote(table.name)) SET \(set) WHERE \(isKey)", key + columnIndexes.map { after[$0] }).run()
        }
    }

    package func insert(_ values: [String: Value]) throws {
        let row = table.columns.map { values[$0.name] ?? .null }
        let columns = table.columns.map { SQL.quote($0.name) }.joined(separator: ", ")
        let placeholders = row.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        try write("be inserted again", before: nil, after: row) {
            try prepare("INSERT INTO main.\(SQL.quote(table.name)) (\(columns)) VALUES (\(placeholders))", row).run()
        }
    }

    private func write(_ what: String, before: [Value]?, after: [Value]?, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
            let reason = error.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY ? try reference(before, after, isWritten: false) : nil
            throw refusal(what, before ?? after ?? [], reason ?? error.message ?? "a constraint forbids it")
        }
        // References that SQLite would check only at COMMIT.
        if let reason = try reference(before, after, isWritten: true) { throw refusal(what, before ?? after ?? [], reason) }
    }

    private func refusal(_ what: String, _ row: [Value], _ reason: String) -> AnnalsError {
        let name = Self.text(key(of: row), table.primaryKey.map { table.columns[$0].name })
        return AnnalsError(
            .constraint, operation: "resolve", "the row \(name) of \(table.name) cannot \(what): \(reason)",
            hint: "Nothing was changed; change the rows that prevent it first, or give other values in setting:",
            commandHint: "Nothing was changed; change the rows that prevent it first, or --set other values")
    }

    // MARK: References

    /// Describes the foreign key that prevents the change; nil if there is none.
    ///
    /// - Parameter isWritten: Whether the change is written already. If so, rows left without a parent are found; else the rows
    ///   before the change are checked.
    private func reference(_ before: [Value]?, _ after: [Value]?, isWritten: Bool) throws -> String? {
        if let after {
            for key in table.foreignKeys {
                let columnIndexes = key.columnIndexes.compactMap { $0 }
                guard key.parentExists, columnIndexes.count == key.parentColumns.count else { continue }
                if let before, columnIndexes.allSatisfy({ before[$0] == after[$0] }) { continue }
                let values = columnIndexes.map { after[$0] }
                if values.contains(.null) { continue }
                if try !exists(key.parentTable, key.parentColumns, values) {
                    return "\(key.parentTable) has no matching row for \(Self.name(key))"
                }
            }
        }
        guard let before else { return nil }
        for child in tables.entries.map(\.definition) {
            for key in child.foreignKeys where key.parentTable.isSameIdentifier(as: table.name) {
                let columnIndexes = key.parentColumns.compactMap { table.columnIndex(of: $0) }
                guard columnIndexes.count == key.columns.count else { continue }
                let values = columnIndexes.map { before[$0] }
                if values.contains(.null) || after.map({ after in columnIndexes.map { after[$0] } == values }) ?? false { continue }
                if isWritten, try exists(table.name, key.parentColumns, values) { continue }
                if !isWritten, after == nil, [.cascade, .setNull, .setDefault].contains(key.onDelete) { continue }
                if try exists(child.name, key.columns, values) { return "rows of \(child.name) refer to it by \(Self.name(key))" }
            }
        }
        return nil
    }

    private static func name(_ key: DeclaredTable.ForeignKey) -> String {
        "FOREIGN KEY (\(key.columns.joined(separator: ", ")))"
    }

    private func exists(_ table: String, _ columns: [String], _ values: [Value]) throws -> Bool {
        let condition = columns.enumerated().map { "\(SQL.quote($1)) = ?\($0 + 1)" }.joined(separator: " AND ")
        return try prepare("SELECT 1 FROM main.\(SQL.quote(table)) WHERE \(condition) LIMIT 1", values).step()
    }

    // MARK: Keys

    private var isKey: String { table.keyCondition("IS") }

    private func key(of row: [Value]) -> [Value] { table.primaryKey.map { row[$0] } }

    private func prepare(_ sql: String, _ values: [Value]) throws -> PreparedStatement {
        let statement = try PreparedStatement(db, sql)
        statement.bind(values)
        return statement
    }

    /// A key as text, for a message to the owner of the data.
    package static func text(_ key: [Value], _ names: [String]) -> String {
        zip(names, key).map { name, value in
            switch value {
            case .null: "\(name) = NULL"
            case .integer(let integer): "\(name) = \(integer)"
            case .real(let real): "\(name) = \(real)"
            case .text(let text): "\(name) = '\((text.string ?? "…").prefix(longestText))'"
            case .blob(let blob): "\(name) = (\(blob.bytes.count) bytes)"
            }
        }.joined(separator: ", ")
    }

    private static let longestText = 60
}
