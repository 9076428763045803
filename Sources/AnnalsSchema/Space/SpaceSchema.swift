package import AnnalsCore
import AnnalsSQLite
package import Foundation
package import GRDB

/// The declarations of the space's tables at this replica's position, including its own entries ahead of that position.
///
/// The schema begins with the tables of the store that created the space, and schema entries extend it. It uses only the canonical
/// names of tables and columns.
package struct SpaceSchema: Codable, Hashable, Sendable {
    /// The version of the newest schema entry; 1 at the start.
    package var version: Int64 = 1
    package var tables: [DeclaredTable]
    /// For each table the columns that were added later. Older entries leave these columns out, so their defaults must be equal on
    /// all replicas.
    package var added: [String: [String]] = [:]
    /// The statements that create the tables that were added later, and their indexes, by table name.
    package var statements: [String: [String]] = [:]
    /// The current names of tables and columns, where they differ from the canonical names; nil if none differs.
    package private(set) var names: [String: CurrentNames]?
    /// For each table, by folded canonical name, the folded canonical names of the columns that replicas removed; nil if there are none.
    package var removed: [String: Set<String>]?
    /// The folded canonical names of the tables that replicas removed; nil if there are none.
    package var removedTables: Set<String>?

    /// The current names of one table, which is identified by its folded canonical name.
    package struct CurrentNames: Codable, Hashable, Sendable {
        package var name: String?
        /// By folded canonical names.
        package var columns: [String: String] = [:]
    }

    package init(_ tables: TrackedTables) {
        self.tables = tables.entries.map { entry in
            var table = entry.first
            for columnIndex in table.columns.indices { table.columns[columnIndex].fillSQL = nil }
            return table
        }
    }

    /// - Parameter names: the current names that a snapshot has.
    package init(_ tables: TrackedTables, names: [String: CurrentNames]?) {
        self.init(tables)
        self.names = names
    }

    // MARK: Current names

    package func present(_ table: String) -> String {
        names?[table.foldedIdentifier]?.name ?? table
    }

    package func present(_ column: String, of table: String) -> String {
        names?[table.foldedIdentifier]?.columns[column.foldedIdentifier] ?? column
    }

    private mutating func call(_ rename: SpaceRename) {
        guard let table = self.table(named: rename.table) else { return }
        if let column = rename.column {
            call(column, of: table, rename.name)
        } else {
            call(table, rename.name)
        }
    }

    /// Gives a table a current name. If another table has this current name, that table gets its canonical name again: two replicas
    /// may choose the same name at the same time.
    private mutating func call(_ table: DeclaredTable, _ name: String) {
        set(table) { $0.name = name.isSameIdentifier(as: table.name) ? nil : name }
        for other in tables where other.name != table.name && present(other.name).isSameIdentifier(as: name) {
            let free = NewNames.free(other.name) { free in
                !tables.contains { $0.name != other.name && present($0.name).isSameIdentifier(as: free) }
            }
            set(other) { $0.name = free.isSameIdentifier(as: other.name) ? nil : free }
        }
    }

    private mutating func call(_ column: String, of table: DeclaredTable, _ name: String) {
        func set(_ column: String, _ name: String) {
            self.set(table) { $0.columns[column.foldedIdentifier] = name.isSameIdentifier(as: column) ? nil : name }
        }
        set(column, name)
        let columns = table.columns.map(\.name)
        for other in columns where !other.isSameIdentifier(as: column) && present(other, of: table.name).isSameIdentifier(as: name) {
            let free = NewNames.free(other) { free in
                !columns.contains { $0 != other && present($0, of: table.name).isSameIdentifier(as: free) }
            }
            set(other, free)
        }
    }

    private mutating func set(_ table: DeclaredTable, _ change: (inout CurrentNames) -> Void) {
        var present = names?[table.name.foldedIdentifier] ?? CurrentNames()
        change(&present)
        names = (names ?? [:]).merging([table.name.foldedIdentifier: present]) { $1 }
    }

    /// The renames that would change a current name.
    package func news(_ renames: [SpaceRename]) -> [SpaceRename] {
        renames.filter { rename in
            let present = rename.column.map { self.present($0, of: rename.table) } ?? self.present(rename.table)
            return !present.isSameIdentifier(as: rename.name)
        }
    }

    package func table(named name: String) -> DeclaredTable? {
        tables.first { $0.name.isSameIdentifier(as: name) }
    }

    package func isAdded(_ column: String, of table: String) -> Bool {
        added[table.foldedIdentifier]?.contains { $0.isSameIdentifier(as: column) } ?? false
    }

    // MARK: Values of rows that are older than a column

    /// The values of older rows in added columns that a store's tables declare with another default, by folded canonical names.
    package func fills(besides tables: TrackedTables) -> [String: [String: String]] {
        var fills: [String: [String: String]] = [:]
        for (table, column) in addedColumns {
            guard let own = tables.table(first: table)?.first, let columnIndex = own.columnIndex(of: column.name),
                own.columns[columnIndex].defaultSQL != column.defaultSQL
            else { continue }
            fills[table.foldedIdentifier, default: [:]][column.name.foldedIdentifier] = column.defaultSQL ?? "NULL"
        }
        return fills
    }

    /// Adds the values that a snapshot names. Returns false if one of them is no constant.
    package mutating func take(fills: [String: [String: String]]) -> Bool {
        for index in tables.indices {
            guard let values = fills[tables[index].name.foldedIdentifier] else { continue }
            for columnIndex in tables[index].columns.indices {
                var column = tables[index].columns[columnIndex]
                guard let sql = values[column.name.foldedIdentifier] else { continue }
                (column.defaultSQL, column.hasDefault) = (sql, true)
                // A column can get NOT NULL later than older rows got NULL.
                guard SchemaAdditions.isLiteral(sql), (try? AddedColumn.value(of: column)) != nil else { return false }
                tables[index].columns[columnIndex] = column
            }
        }
        return true
    }

    /// The values of older rows in added columns. All replicas must have the same.
    package var defaults: [String: Value?] {
        let values = addedColumns.map { table, column in
            ("\(table.foldedIdentifier).\(column.name.foldedIdentifier)", try? AddedColumn.value(of: column))
        }
        return Dictionary(values, uniquingKeysWith: { $1 })
    }

    private var addedColumns: [(table: String, column: DeclaredTable.Column)] {
        tables.flatMap { table in table.columns.filter { isAdded($0.name, of: table.name) }.map { (table.name, $0) } }
    }

    /// Adds an entry's additions. Each entry of the log raises the version by one. The number that its author gave is ignored.
    package mutating func add(_ additions: SchemaAdditions) {
        version = min(version, CountedNumbers.range.upperBound - 1) + 1
        for removal in additions.removals where removal.column != nil { remove(removal) }
        tables += additions.tables
        statements.merge(additions.statements) { $1 }
        for change in additions.columns {
            guard let index = tables.firstIndex(where: { $0.name.isSameIdentifier(as: change.table) }) else { continue }
            tables[index].columns += change.columns
            tables[index].checks += change.checks
            added[change.table.foldedIdentifier, default: []] += change.columns.map(\.name)
            for var key in change.foreignKeys {
                key.columnIndexes = key.columns.map(tables[index].columnIndex(of:))
                tables[index].foreignKeys.append(key)
            }
        }
        self = with(additions.redeclared)
        for removal in additions.removals where removal.column == nil { remove(removal) }
        // A new table or column has its canonical name as its current name. If another one uses that name, it loses it.
        if names != nil {
            for table in additions.tables { call(table, table.name) }
            for change in additions.columns {
                guard let table = self.table(named: change.table) else { continue }
                for column in change.columns { call(column.name, of: table, column.name) }
            }
        }
        for rename in additions.renames { call(rename) }
    }

    private mutating func remove(_ removal: SpaceRemoval) {
        guard let index = tables.firstIndex(where: { $0.name.isSameIdentifier(as: removal.table) }) else { return }
        let name = tables[index].name.foldedIdentifier
        guard let column = removal.column else {
            statements[tables[index].name] = nil
            tables.remove(at: index)
            added[name] = nil
            names?[name] = nil
            removed?[name] = nil
            removedTables = (removedTables ?? []).union([name])
            return
        }
        tables[index] = tables[index].arranged(tables[index].columns.map(\.name).filter { !$0.isSameIdentifier(as: column) })
        added[name]?.removeAll { $0.isSameIdentifier(as: column) }
        if added[name]?.isEmpty ?? false { added[name] = nil }
        names?[name]?.columns[column.foldedIdentifier] = nil
        removed = (removed ?? [:]).merging([name: [column.foldedIdentifier]]) { $0.union($1) }
    }

    /// Whether a declaration has fewer constraints than the space's, and can replace it.
    package func isRelaxed(_ table: DeclaredTable) -> Bool {
        guard let known = self.table(named: table.name), !breaksReferences(table) else { return false }
        let removed = known.columns.filter { table.columnIndex(of: $0.name) == nil }
        let common = known.columns.map(\.name).filter { table.columnIndex(of: $0) != nil }
        let (new, old) = (table.arranged(common), known.arranged(common))
        return removed.allSatisfy { reasonToKeep($0.name, of: known) == nil } && SchemaAgreement.isRelaxed(new, from: old)
            && (!removed.isEmpty || SchemaAgreement.difference(new, old) != nil)
    }

    /// Whether a declaration has more constraints than the space's, and can replace it.
    package func isTightened(_ table: DeclaredTable) -> Bool {
        guard let known = self.table(named: table.name), known.columns.count == table.columns.count else { return false }
        let names = known.columns.map(\.name)
        return names.allSatisfy { table.columnIndex(of: $0) != nil } && !breaksReferences(table)
            && SchemaAgreement.isTightened(table.arranged(names), from: known)
    }

    /// The schema with other declarations of tables; see `SchemaAdditions.redeclared`.
    package func with(_ redeclared: [DeclaredTable]) -> SpaceSchema {
        var schema = self
        for table in redeclared { schema.declare(table) }
        return schema
    }

    private mutating func declare(_ table: DeclaredTable) {
        guard isRelaxed(table) || isTightened(table), let known = self.table(named: table.name) else { return }
        for column in known.columns where table.columnIndex(of: column.name) == nil {
            remove(SpaceRemoval(table: known.name, column: column.name))
        }
        guard let index = tables.firstIndex(where: { $0.name == known.name }) else { return }
        let columns = tables[index].columns
        let new = table.arranged(columns.map(\.name))
        for columnIndex in columns.indices { tables[index].columns[columnIndex].isNotNull = new.columns[columnIndex].isNotNull }
        tables[index].uniqueIndexes = new.uniqueIndexes
        tables[index].checks = new.checks
        tables[index].foreignKeys = new.foreignKeys
    }

    /// The additions that a store must make to have what it lacks.
    package func additions(_ missingSchema: MissingSchema) -> SchemaAdditions {
        var additions = SchemaAdditions()
        additions.statements = statements
        for table in tables where missingSchema.touches(table.name) {
            if missingSchema.has(table: table.name) {
                additions.tables.append(table)
                // Its statements are from the time when the table was added.
                let later = table.columns.filter { isAdded($0.name, of: table.name) }
                if !later.isEmpty { additions.columns.append(self.additions(of: table, later)) }
            } else {
                additions.columns.append(self.additions(of: table, table.columns.filter { missingSchema.has($0.name, of: table.name) }))
            }
        }
        return additions
    }

    private func additions(of table: DeclaredTable, _ columns: [DeclaredTable.Column]) -> SchemaAdditions.Columns {
        let keys = table.foreignKeys.filter { key in
            columns.contains { column in key.columns.contains { $0.isSameIdentifier(as: column.name) } }
        }
        return SchemaAdditions.Columns(
            table: table.name, columns: columns, foreignKeys: keys, checks: table.checks(naming: columns.map(\.name)))
    }

    // MARK: In the store

    /// nil in a store that joined with a version of Annals that did not store the schema.
    package static func load(_ db: Database) throws -> SpaceSchema? {
        guard let bytes = try Meta(db).bytes(.spaceSchema) else { return nil }
        return try decode(Data(bytes))
    }

    package static func decode(_ bytes: Data) throws -> SpaceSchema {
        if let schema = try? JSONDecoder().decode(SpaceSchema.self, from: bytes) { return schema }
        // The older form, which holds only version 1.
        guard let tables = try? JSONDecoder().decode([DeclaredTable].self, from: bytes) else {
            throw Corruption(Meta.Name.spaceSchema)
        }
        return SpaceSchema(TrackedTables(tables.map { (0, $0) }))
    }

    package func save(_ db: Database) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        try Meta(db).set(.spaceSchema, try encoder.encode(self))
        try Meta(db).set(.spaceVersion, version)
    }

    package static func copy(from other: Database, to db: Database) throws {
        try Meta(db).set(.spaceSchema, try Meta(other).bytes(.spaceSchema).map { Data($0) })
        try Meta(db).set(.spaceVersion, try Meta(other).integer(.spaceVersion))
    }

    /// Reads only the version.
    package static func version(_ db: Database) throws -> Int64 {
        try Meta(db).integer(.spaceVersion) ?? 1
    }
}
