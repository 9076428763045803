package import AnnalsCore
import AnnalsSQLite
package import GRDB

/// The tables Annals keeps inside a store. All their names begin with `annals_`, and untracking drops them all.
///
/// | table | holds |
/// |---|---|
/// | annals_meta | facts about the store by name |
/// | annals_tables | every column list a table was tracked with; its `id` is what changes and the wire call it |
/// | annals_changes_ID | the raw changes of that table, as the triggers wrote them |
/// | annals_notes_ID | rows that an insert or a change of key met under the same key or unique value |
/// | annals_transactions | who wrote, when, from where; `number` is the local order |
/// | annals_spans | which raw changes of which table belong to which transaction |
/// | annals_consumers | who reads history, and how far |
///
/// Raw changes have no declared types, so a value is kept exactly as it was. `id` and `number` rise without
/// AUTOINCREMENT, whose sqlite_sequence could not be dropped again (law 11); so the newest row of
/// annals_transactions and of every annals_changes_ID stays when history is purged, or numbers would start anew: see
/// `Purge`.
package enum StoreSchema {
    /// The format of these tables. A store with a higher one was made by a newer Annals.
    ///
    /// 2: an update may leave large values out that it did not change.
    package static let format = 2

    package static let prefix = "annals_"

    /// Whether a table, index or trigger is one of ours.
    package static func isOwnName(_ name: String) -> Bool {
        name.foldedIdentifier.hasPrefix(prefix)
    }

    package static func changesTable(_ id: Int64) -> String { "annals_changes_\(id)" }
    package static func notesTable(_ id: Int64) -> String { "annals_notes_\(id)" }

    /// Facts in annals_meta.
    package enum Meta: String, Sendable {
        case format
        case storeID = "store_id"
        /// PRAGMA schema_version when the triggers were last found right.
        case schemaVersion = "schema_version"
        /// The latest hybrid time given out or seen: milliseconds and counter with a point between.
        case clock
        /// The last transaction that was purged.
        case purged
        /// How much history the store keeps, as JSON; see `HistoryRetention`.
        case retention
        /// When that was last applied, in milliseconds since 1970.
        case retentionApplied = "retention_applied"
        /// Column lists whose tables a program's own triggers write; see `TriggerRewriteCheck`.
        case writtenByTriggers = "written_by_triggers"
        /// Present where new tables are tracked, too; see `TrackingRule`.
        case tracksAll = "tracks_all"
        /// PRAGMA schema_version when new tables were last looked for.
        case tablesLooked = "tables_looked"
        /// Another length than `SchemaLimits.largeValue`, from which updates leave out what they did not change.
        case largeValue = "large_value"
    }

    /// The length beyond which updates leave out a value that they do not change; see `SchemaLimits.largeValue`.
    ///
    /// - Parameter format: of the store's history, where that is about to change. In one of format 1 nothing is left out.
    package static func largeValue(_ db: Database, format: Int? = nil) throws -> Int {
        guard try format ?? integer(.format, db).map(Int.init) ?? 1 > 1 else { return .max }
        return try integer(.largeValue, db).map(Int.init) ?? SchemaLimits.largeValue
    }

    /// What `op` of a raw change means.
    package enum Operation: Int64, Sendable {
        case insert = 1
        case update = 2
        case delete = 3
    }

    /// Whether the store has history at all.
    package static func exists(_ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS(SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = '\(MetaTable.name)')"
        return try Bool.fetchOne(db.cachedStatement(sql: sql)) ?? false
    }

    /// Whether the store has a replica's tables: it is joined to a space, or about to be.
    package static func isReplica(_ db: Database) throws -> Bool {
        try db.tableExists("annals_outbox")
    }

    /// Throws `AnnalsError` of code newerFormat when a newer Annals made this store's tables.
    package static func checkFormat(_ db: Database) throws {
        // What says nothing is for `verify` to find, which opens the store for it.
        guard try exists(db),
            case .int64(let found) = try MetaTable(db).anything(Meta.format.rawValue)?.storage, found > format
        else { return }
        throw AnnalsError(
            .newerFormat, operation: "open", "the store's history has format \(found), and this version reads up to \(format)",
            hint: "Use a newer version of Annals.")
    }

    package static var notTracked: AnnalsError {
        AnnalsError(.notTracked, "the database has no history", hint: "Run annals track first")
    }

    package static func text(_ name: Meta, _ db: Database) throws -> String? {
        try MetaTable(db).text(name.rawValue)
    }

    package static func integer(_ name: Meta, _ db: Database) throws -> Int64? {
        try integer(name.rawValue, db)
    }

    /// Throws `Corruption`.
    package static func integer(_ name: String, _ db: Database) throws -> Int64? {
        guard let value = try MetaTable(db).anything(name), !value.isNull else { return nil }
        guard case .int64(let integer) = value.storage, SchemaLimits.facts.contains(integer) else {
            throw Corruption("annals_meta.\(name)")
        }
        return integer
    }

    /// Writes nothing where the value is there already.
    package static func set(_ name: Meta, to value: (any DatabaseValueConvertible)?, _ db: Database) throws {
        try MetaTable(db).set(name.rawValue, value)
    }

    package static func remove(_ name: Meta, _ db: Database) throws {
        try MetaTable(db).remove(name.rawValue)
    }

    /// How many columns one mask of a raw change covers.
    package static let columnsPerMask = 62

    /// Whether an update's masks say that the column at a place changed.
    package static func isMarked(_ place: Int, mask: (Int) -> Int64) -> Bool {
        mask(place / columnsPerMask) >> Int64(place % columnsPerMask) & 1 == 1
    }

    package static func maskCount(_ columns: Int) -> Int {
        (columns + columnsPerMask - 1) / columnsPerMask
    }

    /// The columns of annals_changes_ID in their order.
    ///
    /// An insert has all n…, a delete all o…. An update has all o…, and of the n… those that changed, which are the bits
    /// set in m…, and those of the key: measured against the whole new row it takes a quarter less room and less time, and
    /// the whole row can still be told. A large value that it did not change is in neither: o… is NULL and n… is 1, which for a
    /// column without its bit means nothing else. A delete that was concluded later has in m0 the change it precedes.
    package static func changesColumns(_ count: Int, byRowid: Bool) -> [String] {
        ["id", "at", "op"] + (0..<maskCount(count)).map { "m\($0)" } + (byRowid ? ["ro", "rn"] : [])
            + (0..<count).map { "o\($0)" } + (0..<count).map { "n\($0)" }
    }

    /// Creates the raw changes' table for a table of that many stored columns.
    ///
    /// `byRowid`: rows can exist whose key holds NULL, so raw changes also carry the old and new rowid.
    package static func createChangesTable(_ db: Database, id: Int64, columns count: Int, byRowid: Bool) throws {
        let columns = changesColumns(count, byRowid: byRowid).map { $0 == "id" ? "id INTEGER PRIMARY KEY" : $0 }
        try db.execute(sql: "CREATE TABLE main.\(changesTable(id))(\(columns.joined(separator: ", ")))")
    }

    /// The columns of annals_notes_ID in their order; `mark` is the newest raw change's id at the time of the note.
    package static func notesColumns(_ count: Int, byRowid: Bool) -> [String] {
        ["id", "mark"] + (byRowid ? ["ro"] : []) + (0..<count).map { "o\($0)" }
    }

    /// Creates the notes' table, with an index by which a key is noted once.
    package static func createNotesTable(_ db: Database, id: Int64, columns count: Int, key: [Int], byRowid: Bool) throws {
        let columns = notesColumns(count, byRowid: byRowid).map { $0 == "id" ? "id INTEGER PRIMARY KEY" : $0 }
        let name = notesTable(id)
        try db.execute(
            sql: """
                CREATE TABLE main.\(name)(\(columns.joined(separator: ", ")));
                CREATE INDEX main.\(name)_key ON \(name)(\(key.map { "o\($0)" }.joined(separator: ", ")));
                """)
    }

    // MARK: SQLite's schema version

    /// Takes the schema as it is for the one that was looked at; after Annals' own changes of it.
    package static func noteSchemaVersion(_ db: Database) throws {
        try StoreSchema.set(.schemaVersion, to: schemaVersion(db), db)
    }

    package static func schemaVersion(_ db: Database) throws -> Int64? {
        try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA main.schema_version"))
    }
}
