package import AnnalsCore
import AnnalsHistory
import AnnalsRows
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
package import GRDB

/// The rows that only this store has or has changed since it left its space: its unsent work at that time, and later writes.
///
/// When the store joins a space again, these rows are merged as the work of this store, with their old values. All other rows may be
/// known in the space (merge rule 40). The table exists from `leave` until the next join.
package final class UnsentRows {
    private static let schema = """
        CREATE TABLE annals_unsent (
            name TEXT NOT NULL,
            is_deleted INTEGER NOT NULL,
            key BLOB NOT NULL,
            column_name TEXT NOT NULL,
            value,
            PRIMARY KEY (name, is_deleted, key, column_name)
        ) WITHOUT ROWID;
        """

    /// A row that the store has.
    package enum Present {
        case inserted
        /// The old values of changed columns, by folded name.
        case changed([String: Value])
    }

    private let db: Database
    private let select: PreparedStatement
    private let insert: PreparedStatement
    private let remove: PreparedStatement

    private init(_ db: Database) throws {
        self.db = db
        let condition = "name = ?1 AND is_deleted = ?2 AND key = ?3"
        select = try PreparedStatement(db, "SELECT column_name, value FROM annals_unsent WHERE \(condition)")
        insert = try PreparedStatement(
            db, "INSERT OR REPLACE INTO annals_unsent (name, is_deleted, key, column_name, value) VALUES (?1, ?2, ?3, ?4, ?5)")
        remove = try PreparedStatement(db, "DELETE FROM annals_unsent WHERE \(condition)")
    }

    // MARK: From leaving to joining

    /// Notes the rows of the outbox. A push under way is left out, because the space may have it.
    ///
    /// The tables may have been migrated since the outbox was filled. Rows of tables with another key are left out, and so are
    /// transactions that cannot be read, so that a store with a damaged outbox can leave.
    package static func begin(_ db: Database, _ tables: TrackedTables) throws {
        try end(db)
        try db.execute(sql: schema)
        let meta = Meta(db)
        try meta.set(.left, meta.integer(.outboxed) ?? 0)
        let rows = try UnsentRows(db)
        let pushed = try Push.load(db)?.lastSequence ?? .min
        let layouts = try LayoutNames(db).all
        for row in try Outbox.rows(db) where row.sequence > pushed {
            do {
                try Outbox.content(db, of: row, layouts: layouts).forEachChange { layout, change in
                    guard let table = tables.table(first: layout.name) else { return }
                    let columns = layout.columns.map(table.first.columnIndex(of:))
                    guard layout.key.map({ columns[$0] }) == table.first.primaryKey else { return }
                    let known = columns.compactMap { $0 }
                    let others = table.first.columns.indices.filter { !known.contains($0) }
                    let inUse = LayoutInUse(all: columns, missing: others.map { ($0, .null) })
                    try rows.note(table.definition, inUse.translated(change.change), of: Set(known))
                }
            } catch is WireError {
                continue
            } catch is MergeError {
                continue
            }
        }
    }

    /// The noted rows with those that the store has written since; nil if the store has not left a space.
    package static func load(_ db: Database, _ tables: TrackedTables) throws -> UnsentRows? {
        guard try db.tableExists("annals_unsent"), let last = try Meta(db).integer(.left) else { return nil }
        let rows = try UnsentRows(db)
        let changes = try NetChanges(db, tables: tables)
        let transactions = try TransactionTable(db).rows(after: last)
        while let row = try transactions.next() {
            guard let origin = try TransactionOrigin(rawValue: row.value("origin")), TransactionOrigin.own.contains(origin) else {
                continue
            }
            try changes.forEach(in: row.number("number")) { entry, change in
                guard let changed = change.rowChange(key: entry.definition.primaryKey) else { return }
                try rows.note(entry.definition, changed, of: Set(entry.definition.columns.indices).subtracting(change.leftOut))
            }
        }
        return rows
    }

    package static func end(_ db: Database) throws {
        try Meta(db).set(.left, nil)
        guard try db.tableExists("annals_unsent") else { return }
        try db.execute(sql: "DROP TABLE annals_unsent")
    }

    // MARK: Reading

    /// What the store did to a row that it has; nil if nothing is unsent.
    package func present(_ table: DeclaredTable, _ key: [Value]) throws -> Present? {
        try cells(table, false, Self.encode(key)).map { $0[""] == nil ? .changed($0) : .inserted }
    }

    /// Visits the rows that the store has deleted or given another key, with their old values by folded column name.
    package func forEachDeleted(_ table: DeclaredTable, _ visit: (_ key: [Value], _ cells: [String: Value]) throws -> Void) throws {
        let keys = try PreparedStatement(db, "SELECT DISTINCT key FROM annals_unsent WHERE name = ?1 AND is_deleted = 1")
        keys.bind(1, Self.text(table.name))
        defer { keys.reset() }
        while try keys.step() {
            let key = keys.value(0)
            guard case .blob(let bytes) = key else { continue }
            var reader = ByteReader(bytes.bytes, range: nil)
            try visit(reader.readValues(), cells(table, true, key) ?? [:])
        }
    }

    // MARK: Writing

    /// Adds a change to the changes that were noted before.
    ///
    /// - Parameter known: The indexes of the columns whose values are known.
    private func note(_ table: DeclaredTable, _ change: RowChange, of known: Set<Int>) throws {
        func key(_ row: [Value]) -> [Value] { table.primaryKey.map { row[$0] } }
        switch change {
        case .insert(let row):
            // A row that takes the key of a deleted one is a change of that row.
            try put(table, false, key(row), take(table, true, key(row)) ?? ["": .null])
        case .delete(var row):
            let before = try take(table, false, key(row)) ?? [:]
            guard before[""] == nil else { return }
            var cells: [String: Value] = [:]
            for (columnIndex, column) in table.columns.enumerated() {
                let name = column.name.foldedIdentifier
                if let old = before[name] { row[columnIndex] = old }
                if before[name] != nil || known.contains(columnIndex) { cells[name] = row[columnIndex] }
            }
            try put(table, true, key(row), cells)
        case .update(let old, let columns):
            var (new, before) = (old, try take(table, false, old) ?? [:])
            for column in columns {
                if let part = table.primaryKey.firstIndex(of: column.column) { new[part] = column.new }
                let name = table.columns[column.column].name.foldedIdentifier
                if before[""] == nil, before[name] == nil { before[name] = column.old }
            }
            try put(table, false, new, before)
        }
    }

    private func put(_ table: DeclaredTable, _ isDeleted: Bool, _ key: [Value], _ cells: [String: Value]) throws {
        for (name, value) in cells {
            bind(insert, table, isDeleted, Self.encode(key))
            insert.bind(4, Self.text(name))
            insert.bind(5, value)
            try insert.run()
        }
    }

    private func take(_ table: DeclaredTable, _ isDeleted: Bool, _ key: [Value]) throws -> [String: Value]? {
        let key = Self.encode(key)
        guard let cells = try cells(table, isDeleted, key) else { return nil }
        bind(remove, table, isDeleted, key)
        try remove.run()
        return cells
    }

    private func cells(_ table: DeclaredTable, _ isDeleted: Bool, _ key: Value) throws -> [String: Value]? {
        bind(select, table, isDeleted, key)
        defer { select.reset() }
        var cells: [String: Value] = [:]
        while try select.step() {
            if case .text(let name) = select.value(0), let name = name.string { cells[name] = select.value(1) }
        }
        return cells.isEmpty ? nil : cells
    }

    private func bind(_ statement: PreparedStatement, _ table: DeclaredTable, _ isDeleted: Bool, _ key: Value) {
        statement.bind(1, Self.text(table.name))
        statement.bind(2, isDeleted ? 1 : 0)
        statement.bind(3, key)
    }

    private static func text(_ name: String) -> Value { .text(ByteString(Array(name.foldedIdentifier.utf8))) }

    private static func encode(_ key: [Value]) -> Value {
        var writer = ByteWriter()
        writer.values(key)
        return .blob(ByteString(writer.bytes))
    }
}
