package import AnnalsCore
import AnnalsHistory
import AnnalsRows
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
package import GRDB

/// The rows that only this store has or has changed: its unsent work when it left its space, and the rows that it inserted or changed
/// since.
///
/// When the store joins a space again, these rows are merged as the work of this store, with their old values. All other rows may be
/// known in the space (merge rule 40). The table exists from `leave` until the next join.
package final class UnsentRows {
    private static let schema = """
        CREATE TABLE annals_unsent (
            name TEXT NOT NULL,
            state INTEGER NOT NULL,
            key BLOB NOT NULL,
            column_name TEXT NOT NULL,
            value,
            PRIMARY KEY (name, state, key, column_name)
        ) WITHOUT ROWID;
        """

    private enum State: Int64 {
        case present = 0
        /// The deletion was unsent when the store left.
        case deleted = 1
        /// Deleted after the store left. A program may empty a store that has left, so this is no work for others.
        case removed = 2
    }

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
        let condition = "name = ?1 AND state = ?2 AND key = ?3"
        select = try PreparedStatement(db, "SELECT column_name, value FROM annals_unsent WHERE \(condition)")
        insert = try PreparedStatement(
            db, "INSERT OR REPLACE INTO annals_unsent (name, state, key, column_name, value) VALUES (?1, ?2, ?3, ?4, ?5)")
        remove = try PreparedStatement(db, "DELETE FROM annals_unsent WHERE \(condition)")
    }

    // MARK: From leaving to joining

    /// Notes the rows of the outbox, and of transactions that are not in it yet. A push under way is left out, because the space may have
    /// it.
    ///
    /// The tables may have been migrated since the outbox was filled. Rows of tables with another key are left out. A store with a
    /// damaged outbox must be able to leave, so what cannot be read is left out too.
    package static func begin(_ db: Database, _ tables: TrackedTables) throws {
        try end(db)
        try db.execute(sql: schema)
        let rows = try UnsentRows(db)
        do {
            try rows.noteOutbox(tables)
        } catch is Corruption {}
        try Meta(db).set(.left, rows.noteHistory(tables, after: Meta(db).integer(.outboxed) ?? 0, deleting: .deleted))
    }

    private func noteOutbox(_ tables: TrackedTables) throws {
        let pushed = try Push.load(db)?.lastSequence ?? .min
        let layouts = try LayoutNames(db).all
        var last: (layout: TableLayout, table: (definition: DeclaredTable, inUse: LayoutInUse, unknown: Set<Int>)?)?
        for row in try Outbox.rows(db) where row.sequence > pushed {
            do {
                try Outbox.content(db, of: row, layouts: layouts).forEachChange { layout, change in
                    if last?.layout != layout { last = (layout, Self.inUse(layout, tables)) }
                    guard let table = last?.table else { return }
                    try note(table.definition, table.inUse.translated(change.change), without: table.unknown, deleting: .deleted)
                }
            } catch is WireError {
                continue
            } catch is MergeError {
                continue
            }
        }
    }

    /// The columns of the outbox in the present table, and the table's columns that the outbox does not have. nil if the table is not
    /// tracked or has another key.
    private static func inUse(
        _ layout: TableLayout, _ tables: TrackedTables
    ) -> (definition: DeclaredTable, inUse: LayoutInUse, unknown: Set<Int>)? {
        guard let table = tables.table(first: layout.name) else { return nil }
        let columns = layout.columns.map(table.first.columnIndex(of:))
        guard layout.key.map({ columns[$0] }) == table.first.primaryKey else { return nil }
        let unknown = table.first.columns.indices.filter { !columns.contains($0) }
        return (table.definition, LayoutInUse(all: columns, missing: unknown.map { ($0, .null) }), Set(unknown))
    }

    /// The noted rows with those that the store has written since; nil if the store has not left a space.
    package static func load(_ db: Database, _ tables: TrackedTables) throws -> UnsentRows? {
        guard try db.tableExists("annals_unsent"), let last = try Meta(db).integer(.left) else { return nil }
        let rows = try UnsentRows(db)
        try Meta(db).set(.left, rows.noteHistory(tables, after: last, deleting: .removed))
        return rows
    }

    /// Notes the changes of this store's own transactions. Returns the number of the last transaction.
    private func noteHistory(_ tables: TrackedTables, after first: Int64, deleting: State) throws -> Int64 {
        let changes = try NetChanges(db, tables: tables)
        let transactions = try TransactionTable(db).rows(after: first)
        var last = first
        while let row = try transactions.next() {
            last = try row.number("number")
            guard let origin = try TransactionOrigin(rawValue: row.value("origin")), TransactionOrigin.own.contains(origin) else {
                continue
            }
            try changes.forEach(in: last) { entry, change in
                guard let changed = change.rowChange(key: entry.definition.primaryKey) else { return }
                try note(entry.definition, changed, without: Set(change.leftOut), deleting: deleting)
            }
        }
        return last
    }

    package static func end(_ db: Database) throws {
        try Meta(db).set(.left, nil)
        guard try db.tableExists("annals_unsent") else { return }
        try db.execute(sql: "DROP TABLE annals_unsent")
    }

    // MARK: Reading

    /// What the store did to a row that it has; nil if nothing is unsent.
    package func present(_ table: DeclaredTable, _ key: [Value]) throws -> Present? {
        try cells(table, .present, Value(storing: key)).map { $0[""] == nil ? .changed($0) : .inserted }
    }

    /// Visits the rows whose deletion was unsent when the store left, with their old values by folded column name.
    package func forEachDeleted(_ table: DeclaredTable, _ visit: (_ key: [Value], _ cells: [String: Value]) throws -> Void) throws {
        let keys = try PreparedStatement(
            db, "SELECT DISTINCT key FROM annals_unsent WHERE name = ?1 AND state = \(State.deleted.rawValue)")
        keys.bind(1, Value(folding: table.name))
        defer { keys.reset() }
        while try keys.step() {
            let key = keys.value(0)
            if let stored = try key.storedKey() { try visit(stored, cells(table, .deleted, key) ?? [:]) }
        }
    }

    // MARK: Writing

    /// Adds a change to the changes that were noted before.
    ///
    /// - Parameters:
    ///   - unknown: The indexes of columns whose values the change does not have.
    ///   - deleting: The state of a row that the change deletes.
    private func note(_ table: DeclaredTable, _ change: RowChange, without unknown: Set<Int>, deleting: State) throws {
        func key(_ row: [Value]) -> [Value] { table.primaryKey.map { row[$0] } }
        switch change {
        case .insert(let row):
            // Under the key of a removed row it may be the space's row again.
            guard try take(table, .removed, key(row)) == nil else { return }
            // A row that takes the key of a deleted one is a change of that row.
            try put(table, .present, key(row), take(table, .deleted, key(row)) ?? ["": .null])
        case .delete(var row):
            let before = try take(table, .present, key(row)) ?? [:]
            guard before[""] == nil else { return }
            var cells: [String: Value] = [:]
            for (columnIndex, column) in table.columns.enumerated() {
                let name = column.name.foldedIdentifier
                if let old = before[name] { row[columnIndex] = old }
                if before[name] != nil || !unknown.contains(columnIndex) { cells[name] = row[columnIndex] }
            }
            try put(table, deleting, key(row), cells)
        case .update(let old, let columns):
            var (new, before) = (old, try take(table, .present, old) ?? [:])
            for column in columns {
                if let part = table.primaryKey.firstIndex(of: column.column) { new[part] = column.new }
                let name = table.columns[column.column].name.foldedIdentifier
                if before[""] == nil, before[name] == nil { before[name] = column.old }
            }
            try put(table, .present, new, before)
        }
    }

    private func put(_ table: DeclaredTable, _ state: State, _ key: [Value], _ cells: [String: Value]) throws {
        for (name, value) in cells {
            bind(insert, table, state, Value(storing: key))
            insert.bind(4, Value(folding: name))
            insert.bind(5, value)
            try insert.run()
        }
    }

    private func take(_ table: DeclaredTable, _ state: State, _ key: [Value]) throws -> [String: Value]? {
        let key = Value(storing: key)
        guard let cells = try cells(table, state, key) else { return nil }
        bind(remove, table, state, key)
        try remove.run()
        return cells
    }

    private func cells(_ table: DeclaredTable, _ state: State, _ key: Value) throws -> [String: Value]? {
        bind(select, table, state, key)
        defer { select.reset() }
        var cells: [String: Value] = [:]
        while try select.step() {
            if case .text(let name) = select.value(0), let name = name.string { cells[name] = select.value(1) }
        }
        return cells.isEmpty ? nil : cells
    }

    private func bind(_ statement: PreparedStatement, _ table: DeclaredTable, _ state: State, _ key: Value) {
        statement.bind(1, Value(folding: table.name))
        statement.bind(2, state.rawValue)
        statement.bind(3, key)
    }
}
