import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
package import GRDB

// MARK: To an entry of the log

extension SchemaAdditions {
    /// The entry with the statements that make the additions and the tables that they touch. For a table with new columns these are its
    /// key and the new columns.
    package func entry(version: Int64, _ db: Database, in own: TrackedTables) throws -> SchemaEntry {
        var statements: [String] = []
        var tracked: [TableLayout] = []
        for table in tables {
            statements += try CanonicalStatements(db, own).statements(of: table.name)
            tracked.append(table.layout)
        }
        for change in columns {
            statements += Self.statements(change)
            let table = own.table(first: change.table)?.first
            let key = table.map { table in table.primaryKey.map { table.columns[$0].name } } ?? []
            tracked.append(TableLayout(name: change.table, columns: key + change.columns.map(\.name), key: Array(key.indices)))
        }
        statements += removals.filter { $0.column != nil }.map(\.statement)
        for table in redeclared {
            statements.append(SpaceRemoval(table: table.name).statement)
            statements += try CanonicalStatements(db, own).statements(of: table.name)
        }
        statements += removals.filter { $0.column == nil }.map(\.statement) + renames.map(\.statement)
        let entry = SchemaEntry(version: version, statements: statements, tracked: tracked, isBreaking: !tightened.isEmpty)
        try Self.checkForReceivers(entry.declarations)
        return entry
    }
}

// MARK: From an entry

extension SchemaAdditions {
    /// The additions of a log entry to the space's schema.
    ///
    /// The statements of the entry run on an empty database that has the space's tables with their columns and keys. So only the
    /// declarations count.
    ///
    /// - Parameter tried: The results of earlier trials. An entry that is not among them is tried here.
    /// - Throws: `AnnalsError` with code `schemaRefused` if this program cannot use the statements.
    package init(_ entry: SchemaEntry, to space: SpaceSchema, tried: SchemaTrialResults = SchemaTrialResults()) throws {
        if let refusal = try tried.verdict(on: entry) { throw Self.refused("\(refusal.statement): \(refusal.reason)", nil) }
        let queue = try DatabaseQueue()
        self = try queue.writeWithoutTransaction { db in try SchemaAdditions(entry, to: space, tryingOn: db) }
        try queue.close()
    }

    private init(_ entry: SchemaEntry, to space: SpaceSchema, tryingOn db: Database) throws {
        self.init()
        for table in space.tables { try db.execute(sql: Self.outline(table)) }
        let reader = SchemaReader(db)
        // A new declaration shows no values of older rows. So new columns are read before it.
        var extended: [String: DeclaredTable] = [:]
        renames = entry.renames.filter { rename in Self.isKnown(rename, space, entry) }
        removals = space.possible(entry.removals.filter { $0.column != nil })
        for sql in entry.statements where SpaceRename(statement: sql) == nil {
            if let removal = SpaceRemoval(statement: sql) {
                // The statements that create it again come next.
                if removal.column == nil, entry.redeclares(removal.table) {
                    extended[removal.table.foldedIdentifier] = try reader.table(removal.table)
                    try db.execute(sql: "DROP TABLE IF EXISTS \(SQL.quote(removal.table))")
                }
                continue
            }
            do {
                let statement = try db.makeStatement(sql: sql)
                try statement.execute()
            } catch let error as DatabaseError where Self.isRepeated(error) {
                // The space has the column or the table already.
                continue
            } catch let error as DatabaseError where sql.uppercased().hasPrefix("CREATE INDEX") {
                _ = error  // An index does not reject rows.
            } catch {
                throw Self.refused((error as? DatabaseError)?.message ?? "SQLite refused it", error)
            }
        }
        for layout in entry.tracked {
            let read = try extended[layout.name.foldedIdentifier] ?? reader.table(layout.name)
            guard let table = read, layout.columns.allSatisfy({ table.columnIndex(of: $0) != nil }) else {
                throw Self.refused("its statements do not create the table \(layout.name) as described", nil)
            }
            guard let known = space.table(named: layout.name) else {
                guard !StoreSchema.isOwnName(table.name) else { throw Self.refused("a table has a name that is reserved for Annals", nil) }
                tables.append(table)
                statements[table.name] = try Self.statements(of: table.name, db)
                continue
            }
            // In the outline, generated columns are normal columns.
            let columns = table.columns.filter { column in
                known.columnIndex(of: column.name) == nil && !known.generatedColumns.contains { $0.name.isSameIdentifier(as: column.name) }
            }
            guard !columns.isEmpty else { continue }
            guard columns.allSatisfy(Self.isOptional) else { throw Self.refused("a new column of \(layout.name) needs a value", nil) }
            let keys = table.foreignKeys.filter { key in key.columns.contains { known.columnIndex(of: $0) == nil } }
            // A constraint on other columns is no addition: rows of older replicas may violate it. It is left out.
            let checks = table.checks.filter { check in
                let names = table.names(in: check)
                return !names.isEmpty && names.allSatisfy { name in columns.contains { $0.name.isSameIdentifier(as: name) } }
            }
            self.columns.append(Columns(table: known.name, columns: columns, foreignKeys: keys, checks: checks))
        }
        var later = space
        later.add(self)
        try checkReferences(later)
        later = space
        later.add(self)
        for known in later.tables where entry.redeclares(known.name) {
            guard let table = try reader.table(known.name), table.columns.allSatisfy({ known.columnIndex(of: $0.name) != nil })
            else { continue }
            if later.isRelaxed(table) {
                relaxed.append(table)
            } else if entry.isBreaking, later.isTightened(table) {
                tightened.append(table)
            } else {
                continue
            }
            statements[known.name] = try Self.statements(of: table.name, db)
        }
        removals += later.with(redeclared).possible(entry.removals.filter { $0.column == nil })
    }

    /// SQLite refuses every write to a table with a reference to no table or to no key, and to its parent. So such references of new
    /// columns are left out, and new tables with one are refused.
    ///
    /// - Parameter later: the space with the additions.
    private mutating func checkReferences(_ later: SpaceSchema) throws {
        if let table = tables.first(where: { !$0.foreignKeys.allSatisfy(later.isPossible) }) {
            throw Self.refused("the new table \(table.name) has a foreign key to something that is no key of the space", nil)
        }
        for index in columns.indices { columns[index].foreignKeys.removeAll { !later.isPossible($0) } }
    }

    /// Renames of unknown tables and columns are ignored.
    private static func isKnown(_ rename: SpaceRename, _ space: SpaceSchema, _ entry: SchemaEntry) -> Bool {
        let new = entry.tracked.filter { $0.name.isSameIdentifier(as: rename.table) }
        guard let column = rename.column else { return space.table(named: rename.table) != nil || !new.isEmpty }
        return space.table(named: rename.table)?.columnIndex(of: column) != nil
            || new.contains { $0.columns.contains { $0.isSameIdentifier(as: column) } }
    }

    /// Refuses at the author what every receiver would refuse.
    ///
    /// - Throws: `AnnalsError` with code `schemaRefused`, with the name of the table.
    static func checkForReceivers(_ statements: [String]) throws {
        guard let refusal = try SchemaTrial.refusal(of: statements) else { return }
        throw refusedByOthers("(\(refusal.statement)): \(refusal.reason)", nil)
    }

    /// Reads the entry as receivers will.
    ///
    /// - Parameter space: the schema after all earlier entries of the outbox.
    static func checkForReceivers(_ entry: SchemaEntry, of space: SpaceSchema) throws {
        do {
            _ = try SchemaAdditions(entry, to: space)
        } catch let error as AnnalsError where error.code == .schemaRefused {
            throw refusedByOthers(": \(error.message)", error)
        }
    }

    private static func refusedByOthers(_ reason: String, _ underlying: (any Error)?) -> AnnalsError {
        AnnalsError(
            .schemaRefused, operation: "sync", "the other replicas would refuse this schema change \(reason)",
            hint: "Declare the table without it, or stop tracking the table; nothing was sent, and local work can continue",
            underlying: underlying)
    }

    private static func isRepeated(_ error: DatabaseError) -> Bool {
        let message = error.message ?? ""
        return message.hasPrefix("duplicate column name") || message.hasSuffix("already exists")
    }

    private static func refused(_ reason: String, _ underlying: (any Error)?) -> AnnalsError {
        AnnalsError(
            .schemaRefused, operation: "sync", "the log has a schema change that this program cannot apply: \(reason)",
            hint: "Use a program that provides what it needs; nothing was changed", underlying: underlying)
    }
}
