import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Decides which tables can be tracked.
package struct TrackingPlan {
    package enum Verdict {
        case accepted(DeclaredTable)
        case alreadyTracked(TrackedTable, DeclaredTable)
        case refused(Refusal)
    }

    package struct Entry {
        package var name: String
        package var verdict: Verdict
    }

    package private(set) var entries: [Entry]

    package init(_ db: Database, _ selection: Tracking.Selection) throws {
        let reader = SchemaReader(db)
        let tracked = try TrackedTable.fetchTracked(db)
        let isReplica = try StoreSchema.isReplica(db)
        switch selection {
        case .all:
            let tables = try reader.tables()
            let isCoreData = tables.contains { $0.name == "Z_PRIMARYKEY" } && tables.contains { $0.name == "Z_METADATA" }
            let leftover = try TrackedTable.fetchAll(db).filter { $0.state == .leftover }.map(\.name.foldedIdentifier)
            entries = try tables.map { table in
                let owner = Bookkeeping.owner(of: table.name, isCoreData: isCoreData)
                let reason: Refusal? = leftover.contains(table.name.foldedIdentifier) ? .removedFromSpace : nil
                return Self.entry(table, tracked, try reason ?? owner.map(Refusal.bookkeeping(of:)) ?? Self.ownNames(table, isReplica, db))
            }
        case .tables(let names):
            entries = []
            for name in names where !entries.contains(where: { $0.name.isSameIdentifier(as: name) }) {
                if let table = try reader.table(name) {
                    entries.append(Self.entry(table, tracked, try Self.ownNames(table, isReplica, db)))
                } else {
                    entries.append(Entry(name: name, verdict: .refused(.missing)))
                }
            }
        }
        refuseChildrenOfUntracked(tracked)
    }

    /// Refuses tables because of functions and collations of a program. SQLite cannot read a table whose rows are sorted by an unknown
    /// collation. A schema entry with the names would be refused by the other replicas, and would stop this one. A table that the space
    /// already has needs no entry.
    private static func ownNames(_ table: DeclaredTable, _ isReplica: Bool, _ db: Database) throws -> Refusal? {
        if let unknown = table.primaryKeyCollations.first(where: { !Collation.isKnown($0, db) }) { return .unknownCollation(unknown) }
        guard isReplica, table.kind == .table, try SpaceSchema.load(db)?.table(named: table.name) == nil else { return nil }
        let own = UnusableTable(
            table: table.name, isTracked: false, missing: try UnusableTable.missing(for: table, db, onlyEverywhere: true))
        return own.isOnlyInTriggers ? nil : .notEverywhere(own.message)
    }

    private static func entry(_ table: DeclaredTable, _ tracked: [TrackedTable], _ reason: Refusal?) -> Entry {
        if let known = tracked.first(where: { $0.name.isSameIdentifier(as: table.name) }) {
            return Entry(name: table.name, verdict: .alreadyTracked(known, table))
        }
        let refusal = reason ?? Refusal.ofTable(table)
        return Entry(name: table.name, verdict: refusal.map(Verdict.refused) ?? .accepted(table))
    }

    /// Whether a column on either side of the key is generated, in the tables that the plan includes.
    private func isGenerated(_ key: DeclaredTable.ForeignKey) -> Bool {
        let parents = entries.compactMap { entry -> DeclaredTable? in
            switch entry.verdict {
            case .accepted(let table), .alreadyTracked(_, let table): table.name.isSameIdentifier(as: key.parentTable) ? table : nil
            case .refused: nil
            }
        }
        let names = parents.flatMap(\.generatedColumns).map(\.name)
        return key.columnIndexes.contains(nil)
            || key.parentColumns.contains { column in names.contains { $0.isSameIdentifier(as: column) } }
    }

    /// Repeats until nothing changes, because refusing one table can leave another table's foreign key without a tracked parent.
    private mutating func refuseChildrenOfUntracked(_ tracked: [TrackedTable]) {
        var isSettled = false
        while !isSettled {
            isSettled = true
            let names = Set(
                tracked.map(\.name.foldedIdentifier)
                    + entries.compactMap { entry in
                        if case .accepted(let table) = entry.verdict { table.name.foldedIdentifier } else { nil }
                    })
            for index in entries.indices {
                guard case .accepted(let table) = entries[index].verdict else { continue }
                if let key = table.foreignKeys.first(where: { !names.contains($0.parentTable.foldedIdentifier) }) {
                    entries[index].verdict = .refused(.untrackedParent(key.parentTable, exists: key.parentExists))
                } else if let key = table.foreignKeys.first(where: isGenerated) {
                    entries[index].verdict = .refused(.generatedReference(parent: key.parentTable))
                } else {
                    continue
                }
                isSettled = false
            }
        }
    }
}

/// Tables with internal data of tools and frameworks, by name.
package enum Bookkeeping {
    private static let owners: [String: String] = [
        "grdb_migrations": "GRDB", "staged_schema_versions": "Annals", "room_master_table": "Room", "android_metadata": "Android",
        "schema_migrations": "a migration tool", "schema_migrations_lock": "a migration tool", "ar_internal_metadata": "Rails",
        "alembic_version": "Alembic", "django_migrations": "Django", "south_migrationhistory": "South",
        "flyway_schema_history": "Flyway", "schema_version": "Flyway", "databasechangelog": "Liquibase",
        "databasechangeloglock": "Liquibase", "knex_migrations": "Knex", "knex_migrations_lock": "Knex",
        "sequelizemeta": "Sequelize", "_prisma_migrations": "Prisma", "__drizzle_migrations": "Drizzle",
        "__efmigrationshistory": "Entity Framework", "__efmigrationslock": "Entity Framework", "_sqlx_migrations": "sqlx",
        "__diesel_schema_migrations": "Diesel", "refinery_schema_history": "Refinery", "seaql_migrations": "SeaORM",
        "_fluent_migrations": "Fluent", "goose_db_version": "goose", "gorp_migrations": "sql-migrate", "d1_migrations": "D1",
        "migratehistory": "peewee", "_yoyo_migration": "yoyo", "_yoyo_version": "yoyo", "yoyo_lock": "yoyo",
        "phinxlog": "Phinx", "doctrine_migration_versions": "Doctrine",
    ]

    /// Prefixes of temporary table names while a tool rebuilds a table: Alembic, Django, Knex, peewee, SQLiteStudio, DB Browser.
    private static let unfinished = [
        "_alembic_tmp_", "new__", "_knex_temp_alter", "__tmp__", "sqlitestudio_temp_table", "sqlb_temp_table_",
    ]

    /// Whether a migration tool or a framework keeps its own data in the table.
    package static func isOfTool(_ table: String) -> Bool { owners[table.foldedIdentifier] != nil }

    /// nil for a table of the program itself.
    static func owner(of table: String, isCoreData: Bool) -> String? {
        if isCoreData && (table.hasPrefix("Z_") || ["ACHANGE", "ATRANSACTION", "ATRANSACTIONSTRING"].contains(table)) {
            return "Core Data"
        }
        let name = table.foldedIdentifier
        return owners[name] ?? (unfinished.contains { name.hasPrefix($0) } ? "a migration tool" : nil)
    }
}
