import AnnalsCore
import AnnalsSQLite
package import Foundation
package import GRDB

/// How the space's tables are declared, as of this replica's position and its own entries ahead of that.
///
/// It begins with the tables of the store that made the space, and grows by what schema entries add. Tables and columns go by
/// their first names, for ever.
package struct SpaceSchema: Codable, Hashable, Sendable {
    /// Of the newest schema entry; 1 from the beginning.
    package var version: Int64 = 1
    package var tables: [DeclaredTable]
    /// Per table the columns that came later. Entries of before leave them out, so their defaults must be alike everywhere.
    package var added: [String: [String]] = [:]
    /// What makes the tables that came later, and their indexes, by the tables' names.
    package var statements: [String: [String]] = [:]
    /// What tables and columns are called by now, where that is otherwise; nil where nothing is.
    package private(set) var names: [String: CurrentNames]?

    /// Of one table, by its folded first name.
    package struct CurrentNames: Codable, Hashable, Sendable {
        package var name: String?
        /// By folded first names.
        package var columns: [String: String] = [:]
    }

    package init(_ tables: TrackedTables) {
        self.tables = tables.entries.map(\.first)
    }

    /// - Parameter names: what a snapshot says that they are called by now.
    package init(_ tables: TrackedTables, names: [String: CurrentNames]?) {
        self.init(tables)
        self.names = names
    }

    // MARK: Present names

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

    /// Gives a table a name, and another that has it by now its first one again: two replicas may have chosen the same at once.
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

    /// Renames that would change what something is called.
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

    /// Adds what an entry adds. Versions move by one with each entry of the log, whatever number its author gave it.
    package mutating func add(_ additions: SchemaAdditions) {
        version = min(version, CountedNumbers.range.upperBound - 1) + 1
        tables += additions.tables
        statements.merge(additions.statements) { $1 }
        for change in additions.columns {
            guard let place = tables.firstIndex(where: { $0.name.isSameIdentifier(as: change.table) }) else { continue }
            tables[place].columns += change.columns
            added[change.table.foldedIdentifier, default: []] += change.columns.map(\.name)
            for var key in change.foreignKeys {
                key.places = key.columns.map(tables[place].place(of:))
                tables[place].foreignKeys.append(key)
            }
        }
        // What is new has its name, and takes it from what was called so meanwhile.
        if names != nil {
            for table in additions.tables { call(table, table.name) }
            for change in additions.columns {
                guard let table = self.table(named: change.table) else { continue }
                for column in change.columns { call(column.name, of: table, column.name) }
            }
        }
        for rename in additions.renames { call(rename) }
    }

    /// What a store has to make that lacks something of it.
    package func additions(_ missingSchema: MissingSchema) -> SchemaAdditions {
        var additions = SchemaAdditions()
        additions.statements = statements
        for table in tables where missingSchema.touches(table.name) {
            if missingSchema.has(table: table.name) {
                additions.tables.append(table)
                // Its statements are those of when it came.
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
        return SchemaAdditions.Columns(table: table.name, columns: columns, foreignKeys: keys)
    }

    // MARK: In the store

    /// nil in a store that was joined before schemas were kept.
    package static func load(_ db: Database) throws -> SpaceSchema? {
        guard let bytes = try Meta(db).bytes(.spaceSchema) else { return nil }
        return try decode(Data(bytes))
    }

    package static func decode(_ bytes: Data) throws -> SpaceSchema {
        if let schema = try? JSONDecoder().decode(SpaceSchema.self, from: bytes) { return schema }
        // The form of version 1 alone.
        guard let tables = try? JSONDecoder().decode([DeclaredTable].self, from: bytes) else {
            throw Corruption("annals_meta.space_schema")
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

    /// The version alone.
    package static func version(_ db: Database) throws -> Int64 {
        try Meta(db).integer(.spaceVersion) ?? 1
    }
}
