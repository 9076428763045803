import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// What one version of a schema declares, read from a database that its definition created.
struct SchemaOutline: Sendable {
    struct Item: Hashable, Sendable {
        /// `table`, `index`, `view` or `trigger`.
        var type: String
        var name: String
        /// The table of an index or a trigger.
        var table: String
        var sql: String
    }

    let version: SchemaVersion
    /// Tables with rows, without virtual tables.
    let tables: [DeclaredTable]
    /// All objects in the order of their creation.
    let items: [Item]

    init(_ schema: any VersionedSchema.Type) throws {
        let queue = try DatabaseQueue()
        version = schema.versionIdentifier
        (tables, items) = try queue.writeWithoutTransaction { db in
            try ClosureError.passing { try schema.define(db) }
            return (try Self.tables(db), try Self.items(db))
        }
        try queue.close()
    }

    /// What a file declares of a version's objects and of the next version's, some of which it may have already.
    init(_ db: Database, of version: SchemaOutline, and next: SchemaOutline) throws {
        func isMeant(_ item: Item) -> Bool {
            (version.items + next.items).contains { $0.type == item.type && $0.name.isSameIdentifier(as: item.name) }
        }
        self.version = version.version
        tables = try Self.tables(db).filter { version.table(named: $0.name) != nil || next.table(named: $0.name) != nil }
        items = try Self.items(db).filter(isMeant)
    }

    /// The same under other names.
    ///
    /// - Throws: `AnnalsError` of code usage if a rename is impossible.
    func renamed(_ renames: [Rename]) throws -> SchemaOutline {
        guard !renames.isEmpty else { return self }
        let queue = try DatabaseQueue()
        let outline = try queue.writeWithoutTransaction { db in
            for sql in statements { try db.execute(sql: sql) }
            for rename in renames {
                do {
                    try db.execute(sql: rename.statement)
                } catch let error as DatabaseError {
                    throw AnnalsError(
                        .usage, operation: "migrate", "version \(version) cannot be renamed: \(error.message ?? "SQLite refused it")")
                }
            }
            return SchemaOutline(version: version, tables: try Self.tables(db), items: try Self.items(db))
        }
        try queue.close()
        return outline
    }

    private init(version: SchemaVersion, tables: [DeclaredTable], items: [Item]) {
        (self.version, self.tables, self.items) = (version, tables, items)
    }

    private static func tables(_ db: Database) throws -> [DeclaredTable] {
        try SchemaReader(db).tables().filter { $0.kind == .table }
    }

    private static func items(_ db: Database) throws -> [Item] {
        let shadows = Set(try SchemaReader(db).tables().filter { $0.kind == .shadow }.map(\.name))
        return try Row.fetchAll(db, sql: "SELECT type, name, tbl_name, sql FROM main.sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
            .map { try Item(type: $0.value("type"), name: $0.value("name"), table: $0.value("tbl_name"), sql: $0.value("sql")) }
            .filter { !shadows.contains($0.name) && !$0.name.foldedIdentifier.hasPrefix("sqlite_") && !StoreSchema.isOwnName($0.name) }
    }

    func table(named name: String) -> DeclaredTable? {
        tables.first { $0.name.isSameIdentifier(as: name) }
    }

    /// Tables that another version also has, with more differences than additional columns.
    func rebuilt(in next: SchemaOutline) -> [String] {
        tables.filter { table in
            guard let other = next.table(named: table.name) else { return false }
            let columns = table.columns.map(\.name)
            return columns.contains { other.columnIndex(of: $0) == nil }
                || SchemaAgreement.difference(table, other.arranged(columns)) != nil
        }.map(\.name)
    }

    // MARK: Comparison with a database

    /// How a table of the database differs from its declaration here, in a few words; nil if none does. Other tables are ignored.
    func difference(from db: Database) throws -> String? {
        let reader = SchemaReader(db)
        for table in tables {
            guard let other = try reader.table(table.name) else { return "there is no table \(table.name)" }
            if let difference = Self.difference(table, other) { return "the declaration of the table \(table.name) differs: \(difference)" }
        }
        return nil
    }

    /// Objects whose names do not exist in the database, in the order of their creation.
    func missing(in db: Database) throws -> [Item] {
        let present = Set(try Self.items(db).map { "\($0.type) \($0.name.foldedIdentifier)" })
        return items.filter { !present.contains("\($0.type) \($0.name.foldedIdentifier)") }
    }

    /// Whether the database has a table with any name from here.
    func isAny(in db: Database) throws -> Bool {
        let reader = SchemaReader(db)
        return try tables.contains { try reader.table($0.name) != nil }
    }

    /// Also compares defaults, which `SchemaAgreement` does not. The order of columns does not matter.
    private static func difference(_ one: DeclaredTable, _ other: DeclaredTable) -> String? {
        let sorted = one.columns.map(\.name)
        let arranged =
            other.columns.count == sorted.count && sorted.allSatisfy { other.columnIndex(of: $0) != nil } ? other.arranged(sorted) : other
        if let difference = SchemaAgreement.difference(one, arranged) { return difference }
        let unlike = zip(one.columns, arranged.columns).first { $0.defaultSQL != $1.defaultSQL }
        return unlike.map { "the default of the column \($0.0.name)" }
    }

    // MARK: Migration to another version

    /// The statements that turn this version into the next one.
    ///
    /// - Parameters:
    ///   - removals: the tables, and columns as `table.column`, that may be dropped.
    ///   - requirements: the columns, as `table.column`, that may become required.
    ///   - areAllPresent: whether all of them must be there.
    /// - Returns: the statements, and the tables that they rebuild.
    /// - Throws: `AnnalsError` of code usage if additions are not sufficient: the next version lacks something else, or its rows must
    ///   satisfy more.
    func additions(
        of next: SchemaOutline, removing removals: [String], requiring requirements: [String], areAllPresent: Bool = false
    ) throws -> (statements: [String], rebuilt: [String]) {
        func refused(_ what: String) -> AnnalsError {
            AnnalsError(
                .usage, operation: "migrate", "from \(version) to \(next.version), \(what)",
                hint:
                    "A stage without code can add tables, and columns that may be NULL or have a constant default, drop what it names in "
                    + "removing:, and require what it names in requiring:. Write a custom stage")
        }
        func isNamed(_ name: String) -> Bool { removals.contains { $0.isSameIdentifier(as: name) } }
        let gone = tables.filter { next.table(named: $0.name) == nil }
        if let other = gone.first(where: { !isNamed($0.name) }) { throw refused("the table \(other.name) is dropped") }
        var used = Set(gone.map(\.name.foldedIdentifier))
        var (dropped, statements): ([String], [String]) = ([], [])
        var rebuilt: [TableRebuild] = []
        for table in next.tables {
            guard let own = self.table(named: table.name) else { continue }
            let more = table.columns.filter { own.columnIndex(of: $0.name) == nil }
            let lost = own.columns.filter { table.columnIndex(of: $0.name) == nil }
            if let other = lost.first(where: { !isNamed("\(table.name).\($0.name)") }) {
                throw refused("the table \(table.name) drops the column \(other.name)")
            }
            if let key = lost.first(where: { column in own.primaryKey.contains { own.columns[$0].name == column.name } }) {
                throw refused("the primary key of \(table.name) loses the column \(key.name)")
            }
            let kept = own.columns.map(\.name).filter { table.columnIndex(of: $0) != nil }
            dropped += lost.map { "ALTER TABLE \(SQL.quote(table.name)) DROP COLUMN \(SQL.quote($0.name))" }
            used.formUnion(lost.map { "\(table.name).\($0.name)".foldedIdentifier })
            if let column = more.first(where: { !SchemaAdditions.isOptional($0) }) {
                throw refused("the column \(column.name) of \(table.name) needs a value in every row")
            }
            let keys = table.foreignKeys.filter { key in key.columns.contains { own.columnIndex(of: $0) == nil } }
            let required = table.columns.filter { column in
                column.isNotNull && own.columnIndex(of: column.name).map { !own.columns[$0].isNotNull } ?? false
                    && requirements.contains { $0.isSameIdentifier(as: "\(table.name).\(column.name)") }
            }
            if let column = required.first(where: { !SchemaAdditions.isOptional($0) }) {
                throw refused("the column \(column.name) of \(table.name) becomes required without a constant default")
            }
            used.formUnion(required.map { "\(table.name).\($0.name)".foldedIdentifier })
            if let difference = Self.difference(own.requiring(required).arranged(kept), table.arranged(kept)) {
                throw refused("the table \(table.name) changes: \(difference)")
            }
            if !required.isEmpty, let item = next.items.first(where: { $0.type == "table" && $0.name.isSameIdentifier(as: table.name) }) {
                rebuilt.append(TableRebuild(own, as: table, filling: required, by: item.sql))
                dropped.removeLast(lost.count)
                continue
            }
            statements += SchemaAdditions.statements(.init(table: table.name, columns: more, foreignKeys: keys))
        }
        if areAllPresent, let other = removals.first(where: { !used.contains($0.foldedIdentifier) }) {
            throw refused("nothing with the name \(other) is dropped")
        }
        if areAllPresent, let other = requirements.first(where: { !used.contains($0.foldedIdentifier) }) {
            throw refused("no column with the name \(other) becomes required")
        }
        let objects = objects(of: next, rebuilding: rebuilt.map(\.table.name))
        // A column cannot be dropped while an index, a view or a trigger names it.
        let all =
            rebuilt.flatMap(\.fills) + objects.gone + dropped + statements + rebuilt.flatMap(\.statements)
            + gone.map { "DROP TABLE \(SQL.quote($0.name))" }
            + objects.new
        return (all, rebuilt.map(\.table.name))
    }

    /// Runs the statements on an empty database of this version.
    ///
    /// - Throws: `AnnalsError` of code usage if SQLite refuses one, or if the next version is not the result.
    func check(_ statements: [String], leadTo next: SchemaOutline) throws {
        let queue = try DatabaseQueue(configuration: Self.withoutForeignKeys)
        try queue.writeWithoutTransaction { db in
            do {
                for sql in self.statements + statements { try db.execute(sql: sql) }
            } catch let error as DatabaseError {
                throw AnnalsError(
                    .usage, operation: "migrate",
                    "from \(version) to \(next.version), a table cannot be rebuilt: \(error.message ?? "SQLite refused a statement")",
                    hint: "Write a custom stage")
            }
            if let difference = try next.difference(from: db) {
                throw AnnalsError(
                    .usage, operation: "migrate", "from \(version) to \(next.version), \(difference)", hint: "Write a custom stage")
            }
        }
        try queue.close()
    }

    private static var withoutForeignKeys: GRDB.Configuration {
        var configuration = GRDB.Configuration()
        configuration.foreignKeysEnabled = false
        return configuration
    }

    /// All changed objects that are no tables, and new tables, in the order in which the next version creates them.
    ///
    /// - Parameter rebuilt: the tables whose indexes and triggers must be created again.
    private func objects(of next: SchemaOutline, rebuilding rebuilt: [String]) -> (gone: [String], new: [String]) {
        func isKept(_ item: Item, in outline: SchemaOutline) -> Bool {
            if item.type != "table", rebuilt.contains(where: { $0.isSameIdentifier(as: item.table) }) { return false }
            return outline.items.contains {
                $0.type == item.type && $0.name.isSameIdentifier(as: item.name) && (item.isRowTable(in: self) || $0.sql == item.sql)
            }
        }
        let gone = items.filter { !$0.isRowTable(in: self) && !isKept($0, in: next) }
        let new = next.items.filter { !isKept($0, in: self) }
        // The indexes and triggers of a dropped table go with it.
        return (gone.reversed().map { "DROP \($0.type.uppercased()) IF EXISTS \(SQL.quote($0.name))" }, new.map(\.sql))
    }

    /// The statements for an empty database.
    var statements: [String] { items.map(\.sql) }

    // MARK: The checksum

    /// The prefix of checksums by the current rule.
    static let checksumRule = "2:"

    /// A digest of the tables' declarations and of the indexes, views and triggers, which identifies the version's definition: 64
    /// hexadecimal digits after the rule's number.
    var checksum: String {
        var hasher = Digest.Hasher()
        func add(_ parts: String...) {
            for part in parts { hasher.update(Array("\(part.utf8.count):\(part)".utf8)[...]) }
        }
        for table in tables.sorted(by: { $0.name.foldedIdentifier < $1.name.foldedIdentifier }) {
            add("table", table.name.foldedIdentifier, "\(table.isStrict)", "\(table.isWithoutRowid)", "\(table.rowidAlias != nil)")
            for columnIndex in table.primaryKey { add("key", table.columns[columnIndex].name.foldedIdentifier) }
            for column in table.columns.sorted(by: { $0.name.foldedIdentifier < $1.name.foldedIdentifier }) {
                add("column", column.name.foldedIdentifier, column.declaredType.uppercased(), column.collation.uppercased())
                add("\(column.isNotNull)", column.defaultSQL ?? "-")
            }
            for index in table.uniqueIndexes.map({ $0.columns.map { $0.name?.foldedIdentifier ?? "?" }.joined(separator: ",") }).sorted() {
                add("unique", index)
            }
            for key in table.foreignKeys.map({ "\($0.columns) \($0.parentTable) \($0.onDelete.rawValue) \($0.onUpdate.rawValue)" }).sorted()
            {
                add("reference", key)
            }
            for check in table.checks.sorted() { add("check", check) }
        }
        for item in items where !item.isRowTable(in: self) {
            add(item.type, item.name.foldedIdentifier, SQLText(item.sql).comparable)
        }
        return "\(Self.checksumRule)\(hasher.finish())"
    }
}

extension DeclaredTable {
    /// The same with some columns required, and with their defaults.
    fileprivate func requiring(_ columns: [Column]) -> DeclaredTable {
        var table = self
        for column in columns {
            guard let index = table.columnIndex(of: column.name) else { continue }
            table.columns[index].isNotNull = true
            (table.columns[index].hasDefault, table.columns[index].defaultSQL) = (column.hasDefault, column.defaultSQL)
        }
        return table
    }
}

extension SchemaOutline.Item {
    /// A table that ALTER TABLE changes and that is not created again.
    fileprivate func isRowTable(in outline: SchemaOutline) -> Bool {
        type == "table" && outline.table(named: name) != nil
    }
}
