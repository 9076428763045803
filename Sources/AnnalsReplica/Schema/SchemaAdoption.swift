import AnnalsCore
package import AnnalsHistory
package import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// Creates the log's schema additions in a store without a program that migrates it. Tables and columns get the space's current
/// names.
package enum SchemaAdoption {
    /// Creates the additions of an entry that the store lacks: columns with ALTER TABLE, tables with their statements. New tables are
    /// tracked at once.
    ///
    /// - Throws: `AnnalsError` with code `schemaRefused` if a table cannot be created or tracked here.
    package static func take(_ entry: SchemaEntry, _ db: Database, _ environment: CaptureEnvironment) throws {
        var space = try SpaceSchema.load(db) ?? SpaceSchema(TrackedTables.load(db))
        let additions = try SchemaAdditions(entry, to: space)
        space.add(additions)
        try space.save(db)
        try make(additions, space, db, environment)
    }

    /// - Parameter space: The space's schema, including the additions.
    package static func make(_ additions: SchemaAdditions, _ space: SpaceSchema, _ db: Database, _ environment: CaptureEnvironment) throws {
        let names = try LocalNames(db, space, additions)
        for table in additions.tables where try !db.tableExists(names.map.table(table.name)) {
            let renamed = RenamedStatements(tables: space.tables, names: names.map)
            for sql in try renamed.rename(additions.statements[table.name] ?? [], of: table.name) { try execute(sql, db) }
        }
        let reader = SchemaReader(db)
        for change in additions.columns {
            var own = names.change(change)
            let table = try reader.table(own.table)
            own.columns.removeAll { table?.columnIndex(of: $0.name) != nil }
            for sql in SchemaAdditions.statements(own) { try execute(sql, db) }
        }
        let report = try Tracking.track(db, .tables(additions.tables.map { names.map.table($0.name) }), environment)
        if let refused = report.tables.first(where: { !$0.isTracked }) {
            throw AnnalsError(
                .schemaRefused, operation: "sync", "the space's new table \(refused.name) cannot be tracked here",
                hint: "track(.all, options: .init(isDryRun: true)) reports the reason", commandHint: "annals track prints the reason")
        }
        try names.save(additions, db)
    }

    /// Drops tables and columns that the space has removed. Those that an index, a view, a trigger or a foreign key of this store uses
    /// stay.
    ///
    /// - Returns: Whether anything was dropped.
    package static func drop(_ removals: [SpaceRemoval], _ db: Database, _ step: StoreStep) throws -> Bool {
        var isDropped = try dropTables(removals.filter { $0.column == nil }.map(\.table), db)
        for removal in removals {
            guard let column = removal.column else { continue }
            let tables = try TrackedTables.load(db)
            guard let table = tables.table(first: removal.table), let index = table.first.columnIndex(of: column) else { continue }
            let name = table.definition.name
            let sql = "ALTER TABLE main.\(SQL.quote(name)) DROP COLUMN \(SQL.quote(table.definition.columns[index].name))"
            do {
                try db.inSavepoint {
                    let tables = RebuiltTables(db)
                    try tables.putAside(name)
                    try db.execute(sql: sql)
                    try tables.finish()
                    return .commit
                }
                isDropped = true
            } catch is DatabaseError {
                continue
            }
        }
        if isDropped {
            step.forgetComparison()
            try step.recordExternal()
        }
        return isDropped
    }

    /// Repeats until nothing changes, because dropping one table can remove the last reference to another one.
    private static func dropTables(_ removed: [String], _ db: Database) throws -> Bool {
        var isDropped = false
        while true {
            let leftover = try TrackedTables.load(db).leftover.filter { table in
                try removed.contains { table.first.isSameIdentifier(as: $0) } && !isUsed(table.name, db)
            }
            guard !leftover.isEmpty else { return isDropped }
            for table in leftover { try db.execute(sql: "DROP TABLE main.\(SQL.quote(table.name))") }
            isDropped = true
        }
    }

    /// Whether a view or trigger names the table, or another table refers to it.
    private static func isUsed(_ table: String, _ db: Database) throws -> Bool {
        let sql = """
            SELECT sql FROM main.sqlite_master
            WHERE type IN ('trigger', 'view') AND tbl_name <> ?1 COLLATE NOCASE AND name NOT LIKE 'annals\\_%' ESCAPE '\\'
            """
        let isNamed = try String.fetchAll(db, sql: sql, arguments: [table]).contains { text in
            SQLToken.all(in: text).contains { $0.name?.isSameIdentifier(as: table) ?? false }
        }
        return try isNamed
            || SchemaReader(db).tables().contains { other in
                !other.name.isSameIdentifier(as: table) && other.foreignKeys.contains { $0.parentTable.isSameIdentifier(as: table) }
            }
    }

    private static func execute(_ sql: String, _ db: Database) throws {
        do {
            try db.makeStatement(sql: sql).execute()
        } catch {
            throw AnnalsError(
                .schemaRefused, operation: "sync",
                "the space's schema change cannot be applied here: \(sql): \((error as? DatabaseError)?.message ?? "SQLite refused it")",
                hint: "Make the change manually, then sync again", underlying: error)
        }
    }
}
