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

    /// Drops columns that the space has removed. Columns that an index, a view or a trigger of this store uses stay.
    ///
    /// - Returns: Whether a column was dropped.
    package static func drop(_ columns: [ColumnRemoval], _ db: Database, _ step: StoreStep) throws -> Bool {
        var isDropped = false
        for removal in columns {
            guard let table = try TrackedTables.load(db).table(first: removal.table),
                let index = table.first.columnIndex(of: removal.column)
            else { continue }
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

    private static func execute(_ sql: String, _ db: Database) throws {
        do {
            try db.makeStatement(sql: sql).execute()
        } catch {
            throw AnnalsError(
                .schemaRefused, operation: "sync",
                "the space's schema change cannot be applied here: \((error as? DatabaseError)?.message ?? "SQLite refused it")",
                hint: "Make the change manually, then sync again", underlying: error)
        }
    }
}
