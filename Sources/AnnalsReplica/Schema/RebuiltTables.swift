import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Tables that a migration of this store rebuilds, or takes columns from.
///
/// SQLite has other ways for few changes of a table: it is made anew under another name, filled, dropped, and renamed. The capture
/// triggers go with the old one, and they forbid `DROP COLUMN`. So before such a statement the rows are put aside and the triggers
/// removed; when the table is back under its name both return, and what differs is written down. History goes on through it, where
/// it begins anew after another program's rebuild, which nobody saw (`Drift`).
package final class RebuiltTables {
    private struct Aside {
        var list: TrackedTable
        var definition: DeclaredTable
        var copy: String
    }

    private let db: Database
    private var aside: [Aside] = []
    /// What was found when capture had to be brought in order on the way.
    package private(set) var drift = Drift.Report()

    package init(_ db: Database) {
        self.db = db
    }

    // MARK: Before

    /// Puts the rows of a tracked table aside, and takes the triggers from it. Of a table in which rows have or had a key with NULL in it
    /// nothing is put aside: its history begins anew as after any rebuild.
    ///
    /// - Parameters:
    ///   - name: what the table is called now, which a migration may have changed.
    ///   - isDropped: all of it goes. Where it was renamed before, that may be to make place for another under its name.
    package func putAside(_ name: String, isDropped: Bool = false) throws {
        guard try StoreSchema.exists(db), var list = try list(of: name), var definition = try SchemaReader(db).table(name) else { return }
        let isMoved = isDropped && !list.name.isSameIdentifier(as: name)
        if !isMoved, try Drift.isSuspected(db) {
            let found = try Drift.repairIfNeeded(db)
            drift.gaps += found.gaps + found.disordered
            guard let again = try self.list(of: name), let table = try SchemaReader(db).table(name) else { return }
            (list, definition) = (again, table)
        }
        if definition.columns.map(\.name) == list.columns, try !hasKeylessRows(definition, list) {
            try TableRepair.conclude(db, list, as: definition, .asHappened)
            aside.append(try copy(definition, list))
        }
        try CaptureTriggers.remove(db, id: list.id)
    }

    private func copy(_ definition: DeclaredTable, _ list: TrackedTable) throws -> Aside {
        let name = "annals_aside_\(list.id)"
        let key = zip(definition.primaryKey, definition.primaryKeyCollations).map { place, collation in
            "\(SQL.quote(definition.columns[place].name)) COLLATE \(SQL.quote(collation))"
        }
        try db.execute(
            sql: """
                CREATE TEMP TABLE \(name) AS SELECT \(Self.names(definition)) FROM main.\(SQL.quote(definition.name));
                CREATE INDEX temp.\(name)_key ON \(name)(\(key.joined(separator: ", ")))
                """)
        return Aside(list: list, definition: definition, copy: "temp.\(name)")
    }

    /// Whether a row has a key with NULL in it, or had one as far as history goes: it is told by its rowid, which a rebuild changes.
    private func hasKeylessRows(_ table: DeclaredTable, _ list: TrackedTable) throws -> Bool {
        guard table.keyMayBeNull else { return false }
        if try table.hasKeylessRows(db) { return true }
        func isNull(_ names: [String]) -> String { SQL.balanced(names.map { "\($0) IS NULL" }, operator: "OR") }
        let (old, new) = (list.key.places.map { "o\($0)" }, list.key.places.map { "n\($0)" })
        let (insert, delete) = (StoreSchema.Operation.insert.rawValue, StoreSchema.Operation.delete.rawValue)
        let sql = """
            SELECT EXISTS(
              SELECT 1 FROM main.\(StoreSchema.changesTable(list.id))
              WHERE (op <> \(delete) AND (\(isNull(new)))) OR (op <> \(insert) AND (\(isNull(old)))))
            """
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    /// The list whose triggers stand on the table: it may be called otherwise since Annals looked last.
    private func list(of name: String) throws -> TrackedTable? {
        let sql = "SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE"
        let triggers = Set(try String.fetchAll(db, sql: sql, arguments: [name]))
        return try TrackedTable.fetchTracked(db).first { triggers.contains(CaptureTriggers.names(id: $0.id)[0]) }
    }

    // MARK: After

    /// Takes up the history of one that is about to get another name.
    func takeUp(_ name: String) throws {
        guard let table = aside.first(where: { $0.list.name.isSameIdentifier(as: name) }) else { return }
        if try db.tableExists(table.list.name, in: "main") { try takeUp(table) }
    }

    /// Takes up the history of all that are there again; that of others ends.
    package func finish() throws {
        for table in aside { try takeUp(table) }
    }

    private func takeUp(_ table: Aside) throws {
        defer { aside.removeAll { $0.list.id == table.list.id } }
        var repair = TableRepair(db, table.list)
        if let definition = try SchemaReader(db).table(table.list.name), let list = try repair.goOn(as: definition, from: table.definition)
        {
            try compare(table, definition, list)
        }
        try db.execute(sql: "DROP TABLE \(table.copy)")
    }

    /// Writes down what the rows are otherwise than they were.
    private func compare(_ table: Aside, _ definition: DeclaredTable, _ list: TrackedTable) throws {
        let tables = try TrackedTables.load(db)
        guard let entry = tables.table(named: definition.name), let layouts = tables.layouts, let old = layouts[table.list.id] else {
            return
        }
        let translation = try LayoutTranslation(db, from: old, to: entry, through: layouts)
        let writer = try HistoryWriter(db, definition, layoutID: list.id)
        let rows = try RowReader(db, definition)
        let count = table.definition.columns.count
        let before = try PreparedStatement(db, "SELECT \(Self.names(table.definition)) FROM \(table.copy)")
        while try before.step() {
            let row = translation.translate(before.values(0..<count))
            guard let now = try rows.row(definition.primaryKey.map { row[$0] }) else {
                try writer.delete(row)
                continue
            }
            if now != row { try writer.update(row, to: now) }
        }
        let was = try PreparedStatement(db, "SELECT 1 FROM \(table.copy) WHERE \(table.definition.keyCondition())")
        while let row = try rows.next() {
            for (number, place) in definition.primaryKey.enumerated() { was.bind(number + 1, row[place]) }
            defer { was.reset() }
            if try !was.step() { try writer.insert(row) }
        }
    }

    private static func names(_ table: DeclaredTable) -> String {
        table.columns.map { SQL.quote($0.name) }.joined(separator: ", ")
    }
}

// MARK: Statements

extension RebuiltTables {
    /// Does what is to be done before a statement of a script.
    package func prepare(for sql: String) throws {
        var words = SQLToken.all(in: sql)[...]
        func take(_ keywords: String...) -> Bool {
            guard words.count >= keywords.count, zip(words, keywords).allSatisfy({ $0.isWord($1) }) else { return false }
            words = words.dropFirst(keywords.count)
            return true
        }
        let isDropped = take("DROP", "TABLE")
        guard isDropped || take("ALTER", "TABLE") else { return }
        if isDropped { _ = take("IF", "EXISTS") }
        guard var name = words.popFirst()?.name else { return }
        if words.first?.isSymbol(".") ?? false {
            guard name.isSameIdentifier(as: "main"), let second = words.dropFirst().first?.name else { return }
            name = second
            words = words.dropFirst(2)
        }
        if isDropped || take("DROP") { return try putAside(name, isDropped: isDropped) }
        if take("RENAME") { try takeUp(name) }
    }
}
