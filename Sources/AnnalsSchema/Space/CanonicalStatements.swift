import AnnalsCore
import AnnalsSQLite
package import GRDB

/// Translates CREATE statements to other names. SQLite does the renaming, so every reference to a renamed table or column follows.
package struct RenamedStatements {
    /// Tables that the statements may refer to, under the names that are replaced.
    package let tables: [DeclaredTable]
    package let names: NameMap

    package init(tables: [DeclaredTable], names: NameMap) {
        self.tables = tables
        self.names = names
    }

    /// - Parameters:
    ///   - statements: the statements that create a table and its indexes.
    ///   - table: the table's name in them.
    /// - Throws: `AnnalsError` of code `schemaRefused` if the statements fail in an empty database.
    package func rename(_ statements: [String], of table: String) throws -> [String] {
        guard !names.isEmpty, !statements.isEmpty else { return statements }
        var configuration = Configuration()
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA trusted_schema = OFF") }
        let queue = try DatabaseQueue(configuration: configuration)
        defer { try? queue.close() }
        do {
            return try queue.writeWithoutTransaction { db in
                for other in tables where !other.name.isSameIdentifier(as: table) {
                    try db.execute(sql: SchemaAdditions.outline(other))
                }
                for sql in statements { try db.execute(sql: sql) }
                try Renaming(db, names).run()
                return try SchemaAdditions.statements(of: names.table(table), db)
            }
        } catch {
            throw AnnalsError(
                .schemaRefused, operation: "sync",
                "the table \(table) cannot be sent to the space: \((error as? DatabaseError)?.message ?? "SQLite refused it")",
                hint: "Declare it with SQLite's built-in functions and collations only", underlying: error)
        }
    }
}

/// The statements that create this store's tables, under canonical names.
package struct CanonicalStatements {
    private let db: Database
    private let tables: TrackedTables

    package init(_ db: Database, _ tables: TrackedTables) {
        self.db = db
        self.tables = tables
    }

    /// - Parameter name: the table's canonical name.
    package func statements(of name: String) throws -> [String] {
        let own = tables.table(first: name)?.definition.name ?? name
        let statements = try SchemaAdditions.statements(of: own, db)
        return try RenamedStatements(tables: tables.entries.map(\.definition), names: tables.canonicalNames).rename(statements, of: own)
    }
}

/// Renames tables and columns of a database, also if they swap names.
package struct Renaming {
    private let db: Database
    private let names: NameMap

    package init(_ db: Database, _ names: NameMap) {
        self.db = db
        self.names = names
    }

    /// Renames everything to a temporary name first, then to the final name. Tables that do not exist are skipped.
    package func run() throws {
        let reader = SchemaReader(db)
        var tables: [(from: String, to: String)] = []
        for (name, other) in names.tables.sorted(by: { $0.key < $1.key }) {
            guard let table = try reader.table(name), table.kind == .table else { continue }
            try renameColumns(of: table, other.columns)
            if table.name != other.name { tables.append((table.name, other.name)) }
        }
        for (number, table) in tables.enumerated() {
            try Self.execute("ALTER TABLE main.\(SQL.quote(table.from)) RENAME TO \(SQL.quote(Self.temporary(number)))", db)
        }
        for (number, table) in tables.enumerated() {
            try Self.execute("ALTER TABLE main.\(SQL.quote(Self.temporary(number))) RENAME TO \(SQL.quote(table.to))", db)
        }
    }

    private func renameColumns(of table: DeclaredTable, _ columns: [String: String]) throws {
        let renamed = table.columns.compactMap { column in
            columns[column.name.foldedIdentifier].flatMap { $0 == column.name ? nil : (from: column.name, to: $0) }
        }
        let name = "main.\(SQL.quote(table.name))"
        // Rename directly if no new name is in use.
        let isStraight = !renamed.contains { rename in table.columnIndex(of: rename.to) != nil }
        for (number, column) in renamed.enumerated() {
            let to = isStraight ? column.to : Self.temporary(number)
            try Self.execute("ALTER TABLE \(name) RENAME COLUMN \(SQL.quote(column.from)) TO \(SQL.quote(to))", db)
        }
        guard !isStraight else { return }
        for (number, column) in renamed.enumerated() {
            try Self.execute("ALTER TABLE \(name) RENAME COLUMN \(SQL.quote(Self.temporary(number))) TO \(SQL.quote(column.to))", db)
        }
    }

    /// Runs a rename with `legacy_alter_table` off, so that all references to the renamed object follow.
    package static func execute(_ statement: String, _ db: Database) throws {
        let isLegacy = try Bool.fetchOne(db, sql: "PRAGMA legacy_alter_table") ?? false
        if isLegacy { try db.execute(sql: "PRAGMA legacy_alter_table = OFF") }
        defer { if isLegacy { SQLiteStatements.putBack("PRAGMA legacy_alter_table = ON", on: db) } }
        try db.execute(sql: statement)
    }

    private static func temporary(_ number: Int) -> String { "renamed to another \(number)" }
}
