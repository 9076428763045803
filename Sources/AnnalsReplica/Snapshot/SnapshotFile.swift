package import AnnalsCore
import AnnalsRows
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import Foundation
package import GRDB

/// A space's rows at one position, as a SQLite file that any program can open. It holds the tracked tables with their rows, the
/// rest of the schema without rows, and the table `annals_snapshot` with the description of the snapshot.
package enum SnapshotFile {
    package static let table = OwnTables.snapshotDescription
    static let currentFormat: Int64 = 5
    private static let conflicts = OwnTables.snapshotConflicts
    private static let policies = OwnTables.snapshotPolicies
    private static let authors = OwnTables.snapshotAuthors
    private static let references = OwnTables.snapshotReferences

    /// The description of a snapshot.
    package struct Contents: Sendable {
        package var position: Position
        package var lineage: Lineage
        /// The names of the tracked tables in the file.
        package var tracked: [String]
        /// The canonical names of tables and of their columns in order, by the names in the file. Only tables with other names in the log.
        package var canonicalNames: [String: CanonicalNames.Names] = [:]
        /// The space's current names; see `SpaceSchema`.
        package var presentNames: [String: SpaceSchema.CurrentNames]?
        /// The latest time in the log up to the position. The clock of a clone starts after it.
        package var time: HybridTime
        /// By canonical table names.
        package var highestKeys: [String: Int64]
        /// The version of the space's schema, and the columns that were added after the first version; see `SpaceSchema`.
        package var schemaVersion: Int64 = 1
        package var added: [String: [String]] = [:]
        /// The values of rows that are older than an added column, as SQL, where the file's tables declare no default for it.
        package var fills: [String: [String: String]] = [:]
        /// The columns and tables that replicas removed; see `SpaceSchema`.
        package var removed: [String: Set<String>] = [:]
        package var removedTables: Set<String> = []
        /// Each author's newest entry up to the position.
        package var authors: [ReplicaID: AuthorChains.Link?] = [:]
        /// The digest of the rows; see `StoreDigest`.
        package var rows = Digest.zero
        /// The log's running digest at the position; nil if the maker does not know it.
        package var logDigest: Digest?

        package init(
            position: Position, lineage: Lineage, tracked: [String], canonicalNames: [String: CanonicalNames.Names] = [:],
            presentNames: [String: SpaceSchema.CurrentNames]? = nil, time: HybridTime, highestKeys: [String: Int64],
            schemaVersion: Int64 = 1, added: [String: [String]] = [:], fills: [String: [String: String]] = [:],
            removed: [String: Set<String>] = [:], removedTables: Set<String> = [], authors: [ReplicaID: AuthorChains.Link?] = [:],
            rows: Digest = Digest.zero, logDigest: Digest? = nil
        ) {
            self.position = position
            self.lineage = lineage
            self.tracked = tracked
            self.canonicalNames = canonicalNames
            self.presentNames = presentNames
            self.time = time
            self.highestKeys = highestKeys
            self.schemaVersion = schemaVersion
            self.added = added
            self.fills = fills
            self.removed = removed
            self.removedTables = removedTables
            self.authors = authors
            self.rows = rows
            self.logDigest = logDigest
        }
    }

    /// Writes the rows to a new file at `path`, as the transaction that this function begins sees them.
    ///
    /// Must be called outside a transaction, since a database is attached. `describe` runs inside the transaction and returns the
    /// description of the rows.
    ///
    /// - Parameter rows: The digest of the rows, if the file exists and holds them. Then only the description is written.
    /// - Returns: The digest of the rows.
    @discardableResult
    package static func write(
        _ db: Database, to path: String, tables: [DeclaredTable], kind: Database.TransactionKind, rows: Digest? = nil,
        describe: () throws -> Contents
    ) throws -> Digest {
        try db.execute(sql: "ATTACH DATABASE ? AS \(SchemaCopy.target)", arguments: [path])
        defer { SQLiteStatements.putBack("DETACH DATABASE \(SchemaCopy.target)", on: db) }
        let enforcesForeignKeys = try Bool.fetchOne(db, sql: "PRAGMA foreign_keys") ?? false
        // The rows are complete. A check of each table would refuse children that are copied before their parents.
        try db.execute(sql: "PRAGMA foreign_keys = OFF")
        defer { SQLiteStatements.putBack("PRAGMA foreign_keys = \(enforcesForeignKeys ? "ON" : "OFF")", on: db) }
        try db.execute(sql: "PRAGMA \(SchemaCopy.target).journal_mode = OFF; PRAGMA \(SchemaCopy.target).synchronous = OFF")
        var digest = rows
        try db.inTransaction(kind) {
            var contents = try describe()
            if rows == nil {
                let copy = SchemaCopy(db: db, tables: tables)
                try copy.makeTables()
                try copy.dropLocalRows()
                try copy.makeRest { throw $0 }
                try copy.copyHeader()
            }
            contents.rows = try rows ?? StoreDigest.rows(db, schema: SchemaCopy.target, tables: tables)
            digest = contents.rows
            try writeContents(db, contents)
            return .commit
        }
        return digest ?? .zero
    }

    package static func writeContents(_ db: Database, _ contents: Contents) throws {
        let name = "\(SchemaCopy.target).\(table)"
        try db.execute(sql: "DROP TABLE IF EXISTS \(name)")
        try db.execute(sql: "CREATE TABLE \(name) (name TEXT PRIMARY KEY, value) WITHOUT ROWID")
        var facts: [(String, any DatabaseValueConvertible)] = [
            ("format", currentFormat), ("position", contents.position.rawValue),
            ("lineage", contents.lineage.description),
            ("time", contents.time.milliseconds), ("time_counter", Int64(contents.time.counter)),
            ("rows", Data(contents.rows.bytes)),
        ]
        if let digest = contents.logDigest { facts.append(("log", Data(digest.bytes))) }
        if contents.schemaVersion > 1 {
            facts.append(("schema_version", contents.schemaVersion))
            facts.append(("added", try JSONEncoder().encode(contents.added)))
            if !contents.fills.isEmpty { facts.append(("fills", try JSONEncoder().encode(contents.fills))) }
            if !contents.removed.isEmpty { facts.append(("removed", try JSONEncoder().encode(contents.removed))) }
            if !contents.removedTables.isEmpty { facts.append(("removed_tables", try JSONEncoder().encode(contents.removedTables))) }
        }
        if let names = contents.presentNames { facts.append(("names", try JSONEncoder().encode(names))) }
        for name in contents.tracked {
            let first = contents.canonicalNames[name]
            facts.append(("table:\(name)", contents.highestKeys[first?.table ?? name] ?? 0))
            if let first { facts.append(("first:\(name)", try JSONEncoder().encode(first))) }
        }
        for (fact, value) in facts {
            try db.execute(sql: "INSERT INTO \(name) (name, value) VALUES (?, ?)", arguments: [fact, value])
        }
        try writeAuthors(db, contents.authors)
        try ReferenceTable.copy(db, to: "\(SchemaCopy.target).\(references)")
        for table in [conflicts, policies] { try db.execute(sql: "DROP TABLE IF EXISTS \(SchemaCopy.target).\(table)") }
        guard try StoreSchema.isReplica(db) else { return }
        try ConflictJournal.copy(db, to: "\(SchemaCopy.target).\(conflicts)")
        try PolicyTable.copyShared(db, to: "\(SchemaCopy.target).\(policies)")
    }

    private static func writeAuthors(_ db: Database, _ links: [ReplicaID: AuthorChains.Link?]) throws {
        let name = "\(SchemaCopy.target).\(authors)"
        try db.execute(sql: "DROP TABLE IF EXISTS \(name)")
        try db.execute(
            sql: "CREATE TABLE \(name) (replica BLOB PRIMARY KEY, counter INTEGER NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID")
        for (replica, link) in links.sorted(by: { $0.key < $1.key }) {
            try db.execute(
                sql: "INSERT INTO \(name) (replica, counter, digest) VALUES (?, ?, ?)",
                arguments: [Data(replica.bytes), (link?.counter ?? .zero).rawValue, Data((link?.digest ?? .zero).bytes)])
        }
    }

    /// Moves the journal, the policies, the references and the authors to the tables of the replica that the file becomes.
    package static func unpack(_ db: Database) throws {
        if try db.tableExists(conflicts) { try ConflictJournal.takeIn(from: db, table: conflicts, order: "rowid", to: db) }
        if try db.tableExists(policies) { try PolicyTable.readShared(from: policies, db) }
        do {
            try AuthorChains.replaceAll(db, with: AuthorChains.all(db, table: authors))
            if try db.tableExists(references) { try ReferenceTable.take(from: references, db) }
        } catch  where StoreError.isCorruption(error) {
            throw notASnapshot
        }
        for table in OwnTables.snapshot { try db.execute(sql: "DROP TABLE IF EXISTS \(table)") }
    }

    /// Checks a file of unknown origin with SQLite's own rules before anything in it is used. Its digest proves only that it is the file
    /// that a replica sent, and not that it is intact.
    ///
    /// To be called outside a transaction, because SQLite then reads through a memory map instead of page by page. No other process may
    /// be able to truncate the file meanwhile.
    ///
    /// - Throws: `AnnalsError` with code `corruptBatch`.
    package static func check(_ db: Database) throws {
        let mapped = try Int64.fetchOne(db, sql: "PRAGMA mmap_size") ?? 0
        try db.execute(sql: "PRAGMA mmap_size = \(ReplicaLimits.mappedBytes)")
        defer { SQLiteStatements.putBack("PRAGMA mmap_size = \(mapped)", on: db) }
        let found = try String.fetchOne(db, sql: "PRAGMA quick_check(1)")
        guard found != "ok" else { return }
        throw AnnalsError(
            .corruptBatch, operation: "clone", "the relay's snapshot is corrupt: \(found ?? "it cannot be read")",
            hint: "Ask the relay's operator to drop it; another replica uploads a new one")
    }

    /// Reads the description of a snapshot file.
    ///
    /// - Throws: `AnnalsError` if it is not a snapshot, or if its format is newer.
    package static func read(_ db: Database) throws -> Contents {
        do {
            return try contents(db)
        } catch is Corruption {
            throw notASnapshot
        } catch is DecodingError {
            throw notASnapshot
        }
    }

    private static func contents(_ db: Database) throws -> Contents {
        var facts: [String: DatabaseValue] = [:]
        var highest: [String: Int64] = [:]
        var tracked: [String] = []
        var first: [String: CanonicalNames.Names] = [:]
        guard try db.tableExists(table) else { throw notASnapshot }
        for row in try GRDB.Row.fetchAll(db, sql: "SELECT name, value FROM \(table) ORDER BY name") {
            let name: String = try row.value("name")
            if name.hasPrefix("first:") {
                first[String(name.dropFirst("first:".count))] = try row.json("value")
            } else if name.hasPrefix("table:") {
                let tableName = String(name.dropFirst("table:".count))
                tracked.append(tableName)
                highest[tableName] = try row.value("value")
            } else {
                facts[name] = try row.value("value")
            }
        }
        guard let format = facts["format"].flatMap(Int64.fromDatabaseValue) else { throw notASnapshot }
        guard format <= currentFormat else {
            throw AnnalsError(
                .newerFormat, operation: "clone", "the space's snapshot has a newer format (\(format))",
                hint: "Use a newer version of Annals", commandHint: "Update annals")
        }
        guard format == currentFormat, try db.tableExists(authors) else { throw olderFormat(format) }
        guard let position = facts["position"].flatMap(Int64.fromDatabaseValue), SchemaLimits.positions.contains(position),
            let lineage = facts["lineage"].flatMap(String.fromDatabaseValue).flatMap({ Lineage($0) }),
            let time = facts["time"].flatMap(Int64.fromDatabaseValue), let counter = facts["time_counter"].flatMap(Int64.fromDatabaseValue),
            let rows = facts["rows"].flatMap(digest)
        else { throw notASnapshot }
        let added = facts["added"].flatMap(Data.fromDatabaseValue)
        highest = Dictionary(highest.map { (first[$0]?.table ?? $0, $1) }, uniquingKeysWith: max)
        return Contents(
            position: Position(position), lineage: lineage, tracked: tracked, canonicalNames: first,
            presentNames: try facts["names"].flatMap(Data.fromDatabaseValue).map {
                try JSONDecoder().decode([String: SpaceSchema.CurrentNames].self, from: $0)
            },
            time: HybridTime(milliseconds: time, counter: UInt32(truncatingIfNeeded: counter)), highestKeys: highest,
            schemaVersion: try schemaVersion(facts),
            added: try added.map { try JSONDecoder().decode([String: [String]].self, from: $0) } ?? [:],
            fills: try facts["fills"].flatMap(Data.fromDatabaseValue).map {
                try JSONDecoder().decode([String: [String: String]].self, from: $0)
            } ?? [:],
            removed: try facts["removed"].flatMap(Data.fromDatabaseValue).map {
                try JSONDecoder().decode([String: Set<String>].self, from: $0)
            } ?? [:],
            removedTables: try facts["removed_tables"].flatMap(Data.fromDatabaseValue).map {
                try JSONDecoder().decode(Set<String>.self, from: $0)
            } ?? [], rows: rows,
            logDigest: facts["log"].flatMap(digest))
    }

    private static func digest(_ value: DatabaseValue) -> Digest? {
        Data.fromDatabaseValue(value).flatMap { Digest(bytes: [UInt8]($0)) }
    }

    private static func schemaVersion(_ facts: [String: DatabaseValue]) throws -> Int64 {
        guard let value = facts["schema_version"] else { return 1 }
        guard let version = Int64.fromDatabaseValue(value), CountedNumbers.range.contains(version), version > 0 else { throw notASnapshot }
        return version
    }

    private static func olderFormat(_ format: Int64) -> AnnalsError {
        AnnalsError(
            .corruptBatch, operation: "clone", "the space's snapshot has the format \(format), which this program no longer supports",
            hint: "Create the space again with this version of Annals: join it with a store that has its rows",
            commandHint: "Create the space again with this version of annals: run annals join with a store that has its rows")
    }

    package static var otherRows: AnnalsError {
        AnnalsError(.corruptBatch, operation: "clone", "the relay's snapshot has other rows than it states")
    }

    package static var otherLog: AnnalsError {
        AnnalsError(.corruptBatch, operation: "clone", "the relay's snapshot belongs to another log than the one that the relay serves")
    }

    /// An SQLite error that the file causes. Its maker can put anything into it, so this is not a defect of this program.
    package static func unusable(_ error: AnnalsError) -> AnnalsError {
        AnnalsError(
            .corruptBatch, operation: "clone", "the relay's snapshot is corrupt: \(error.message)",
            hint: "Ask the relay's operator to drop it; another replica uploads a new one", underlying: error)
    }

    package static var notASnapshot: AnnalsError {
        AnnalsError(.corruptBatch, operation: "clone", "the relay's snapshot is not a snapshot of a space")
    }
}
