package import AnnalsCore
import AnnalsSQLite
package import GRDB

/// The tables of Annals in a store. All their names begin with `annals_`, and `untrack` drops them all.
///
/// | table | content |
/// |---|---|
/// | annals_meta | values about the store, by name |
/// | annals_tables | every column list with which a table was tracked; its `id` identifies it in changes and on the wire |
/// | annals_changes_ID | the raw changes of that list, as the triggers wrote them |
/// | annals_notes_wN | rows that had the key or a unique value of an inserted row or of a changed key, of all tables with up to N columns |
/// | annals_transactions | author, time and origin; `number` is the local order |
/// | annals_spans | which raw changes of which table belong to which transaction |
/// | annals_consumers | the readers of history and their positions |
/// | annals_context_moments, annals_context_marks | where the work of a writer that gave its name begins and ends, until it is recorded |
///
/// Columns of raw changes have no declared types, so values are stored unchanged. `id` and `number` rise without AUTOINCREMENT,
/// because the table sqlite_sequence could not be dropped again (law 11). So a purge of history leaves the newest row of
/// annals_transactions and of every annals_changes_ID; otherwise the numbers would start again: see `Purge`.
package enum StoreSchema {
    /// The format of these tables. A newer version of Annals created a store with a higher format.
    ///
    /// Stores of earlier formats were made before the first release, and are refused.
    package static let format = 5

    package static let prefix = "annals_"

    /// Whether a table, index or trigger belongs to Annals.
    package static func isOwnName(_ name: String) -> Bool {
        name.foldedIdentifier.hasPrefix(prefix)
    }

    package static func changesTable(_ id: Int64) -> String { "annals_changes_\(id)" }

    /// Names in annals_meta.
    package enum Meta: String, Sendable {
        case format
        case storeID = "store_id"
        /// PRAGMA schema_version at the last check that found the triggers correct.
        case schemaVersion = "schema_version"
        /// The latest hybrid time that the store used or saw: milliseconds and counter, separated by a point.
        case clock
        /// The last transaction that was purged.
        case purged
        /// Nothing is known about the rows before this time, in milliseconds since 1970; see `HistoryBounds`.
        case began
        /// How long the store keeps history, as JSON; see `HistoryRetention`.
        case retention
        /// When the retention was last applied, in milliseconds since 1970.
        case retentionApplied = "retention_applied"
        /// Column lists of tables that a program's own triggers write to; see `TriggerRewriteCheck`.
        case writtenByTriggers = "written_by_triggers"
        /// Present if new tables are tracked automatically; see `TrackingRule`.
        case tracksAll = "tracks_all"
        /// PRAGMA schema_version at the last search for new tables.
        case tablesLooked = "tables_looked"
        /// The names and root pages of the tables that the last search did not track, as JSON; see `TrackingRule`.
        case tablesLeft = "tables_left"
        /// The newest transaction before the first change of the schema since the last search; see `TrackingRule`.
        case schemaChanged = "schema_changed"
        /// The points of history at which the rows of some tables are not known, as JSON; see `UnknownRows`.
        case unknownRows = "unknown_rows"
        /// A value that replaces `SchemaLimits.largeValue`, the length above which updates leave out unchanged values.
        case largeValue = "large_value"
    }

    /// The length above which updates leave out a value that they do not change; see `SchemaLimits.largeValue`.
    package static func largeValue(_ db: Database) throws -> Int {
        try integer(.largeValue, db).map(Int.init) ?? SchemaLimits.largeValue
    }

    /// The meaning of `op` in a raw change.
    package enum Operation: Int64, Sendable {
        case insert = 1
        case update = 2
        case delete = 3
    }

    /// Whether the store has history.
    package static func exists(_ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS(SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = '\(OwnTables.meta)')"
        return try Bool.fetchOne(db.cachedStatement(sql: sql)) ?? false
    }

    /// Whether the store has a replica's tables: it has joined a space, or is about to.
    package static func isReplica(_ db: Database) throws -> Bool {
        try db.tableExists(OwnTables.outbox)
    }

    /// Throws `AnnalsError` of code newerFormat if another version of Annals created this store's tables.
    package static func checkFormat(_ db: Database) throws {
        // A missing or unreadable format is not an error here: `verify` reports it, and opens the store to do so.
        guard try exists(db), case .int64(let found) = try MetaTable(db).anything(Meta.format.rawValue)?.storage, found != format
        else { return }
        let hint =
            found > format
            ? "Use a newer version of Annals."
            : "A build from before the first release made it. Untrack the file with that build, and track it again."
        throw AnnalsError(
            .newerFormat, operation: "open", "the store's history has format \(found), and this version reads format \(format)", hint: hint)
    }

    package static var notTracked: AnnalsError { noHistory(operation: "") }

    package static func noHistory(operation: String) -> AnnalsError {
        AnnalsError(
            .notTracked, operation: operation, "the database has no history", hint: "Call track(_:) first",
            commandHint: "Run annals track first")
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
            throw Corruption("\(OwnTables.meta).\(name)")
        }
        return integer
    }

    /// Writes nothing if the value is stored already.
    package static func set(_ name: Meta, to value: (any DatabaseValueConvertible)?, _ db: Database) throws {
        try MetaTable(db).set(name.rawValue, value)
    }

    package static func remove(_ name: Meta, _ db: Database) throws {
        try MetaTable(db).remove(name.rawValue)
    }

    /// How many columns one mask of a raw change covers.
    package static let columnsPerMask = 62

    /// In each mask of an update whose trigger marks unchanged values; see `changesColumns`.
    package static let unchangedAreMarked: Int64 = 1 << Int64(columnsPerMask)

    /// Whether the bit of the column at an index is set in an update's masks.
    package static func isMarked(_ columnIndex: Int, mask: (Int) -> Int64) -> Bool {
        mask(columnIndex / columnsPerMask) >> Int64(columnIndex % columnsPerMask) & 1 == 1
    }

    package static func maskCount(_ columns: Int) -> Int {
        (columns + columnsPerMask - 1) / columnsPerMask
    }

    /// The columns of annals_changes_ID in their order.
    ///
    /// An insert has all n… columns, and a delete all o… columns. An update has all o… columns, and of the n… columns at least the key
    /// and the changed values. So it takes less space than two whole rows. There are two forms:
    ///
    /// - With `unchangedAreMarked` in m…, as triggers write it: n… is the new value, except where the column's bit in m… is set and n…
    ///   is 1 or 2. 1 means that the value did not change. 2 means that a large value did not change and is left out: o… is NULL.
    /// - Without, as Annals writes it: the bits are those of changed columns. All other n… are NULL. If a large value is left out, o… is
    ///   NULL and n… is 1.
    ///
    /// A delete that was added later has in m0 the id of the change that it precedes.
    package static func changesColumns(_ count: Int, byRowid: Bool) -> [String] {
        ["id", "at", "op"] + (0..<maskCount(count)).map { "m\($0)" } + (byRowid ? ["ro", "rn"] : [])
            + (0..<count).map { "o\($0)" } + (0..<count).map { "n\($0)" }
    }

    /// Creates the table of raw changes for a table with that many stored columns.
    ///
    /// `byRowid`: rows can have a key that holds NULL, so raw changes also have the old and the new rowid.
    package static func createChangesTable(_ db: Database, id: Int64, columns count: Int, byRowid: Bool) throws {
        let definitions = ["id": "id INTEGER PRIMARY KEY", "at": "at DEFAULT (julianday())"]
        let columns = changesColumns(count, byRowid: byRowid).map { definitions[$0] ?? $0 }
        try db.execute(sql: "CREATE TABLE main.\(changesTable(id))(\(columns.joined(separator: ", ")))")
    }

    // MARK: SQLite's schema version

    /// Stores the current schema version as checked. Call it after Annals itself changed the schema.
    package static func noteSchemaVersion(_ db: Database) throws {
        try StoreSchema.set(.schemaVersion, to: schemaVersion(db), db)
    }

    package static func schemaVersion(_ db: Database) throws -> Int64? {
        try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA main.schema_version"))
    }
}
