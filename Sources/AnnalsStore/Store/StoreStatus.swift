import AnnalsCore
public import AnnalsHistory
public import AnnalsReplica
public import AnnalsSchema
package import GRDB

/// The status of a store, without any network access.
public struct StoreStatus: Sendable {
    /// Names of the tracked tables.
    public var tracked: [String] = []
    /// Foreign keys from tables without history to tracked tables. Rows of these tables are not synced, and they can prevent
    /// deletes of other replicas from being applied.
    public var untrackedReferences: [UntrackedReference] = []
    /// Tables without history that can be tracked: their rows are neither recorded nor synced. Tables of migration tools, and tables
    /// that the space removed, are left out.
    public var untracked: [String] = []
    /// Tables whose history ended because another program replaced them by tables that cannot be tracked.
    public var endedTables: [EndedTable] = []
    /// The number of transactions in history.
    public var transactions: Int64 = 0
    /// nil if the database has no history.
    public var oldestToken: HistoryToken?
    /// The tables whose history lacks changes.
    public var incomplete: [IncompleteTable] = []
    public var latestToken: HistoryToken?
    /// How coarse history is because other programs' commits are grouped; nil if the database has no history.
    public var external: ExternalHistory?
    /// Names of tracked tables whose capture triggers are missing or altered, so that changes may be missed. The next recording
    /// restores the triggers, and older tokens expire.
    public var drift: [String] = []
    /// A join that creates a space was interrupted or is under way. Nothing is sent before it is done.
    public var isJoinUnfinished = false
    /// Another program may have written rows without capture. The next sync compares them with the space's rows.
    public var areRowsUnverified = false
    /// The state in a space; nil if the store is not joined.
    public var replica: ReplicaState?
    /// The number of local transactions that the space has not ordered yet.
    public var outbox = 0
    /// The version of the space's schema at this replica's position.
    public var schemaVersion: Int64 = 1
    /// What the space's schema has and this store lacks: tables, and columns as `table.column`.
    public var missingSchema: [String] = []
    /// Columns among `missingSchema` that the store has by now. The next sync writes the log's values to them.
    public var waitingSchema: [String] = []
    /// Columns that the space has removed and this store still has, as `table.column`. Only replicas that have them too get their values.
    public var removedColumns: [String] = []
    /// Tables that the space has removed and that are still in the file. They are not tracked any more.
    public var removedTables: [String] = []
    /// Transactions wait in the outbox until the store has migrated.
    public var isWaitingForMigration = false
    /// The error that ended the last sync; nil if it succeeded.
    public var syncProblem: SyncProblem?
    /// The number of conflicts in the conflict journal.
    public var conflicts = 0
    /// The number of rows in the conflict journal that got another integer key. They are no conflicts.
    public var renumbered = 0
    /// Settled conflicts of transactions in the outbox. They get into the journal when the relay accepts the transactions.
    public var unsentConflicts = 0
    /// Conflicts in which a constraint refused the incoming values, and which nobody has decided since. They wait for nobody.
    public var refusedConflicts = 0
    /// The conflicts that wait for a person.
    public var unresolvedConflicts = 0
    /// How much history the store keeps by itself.
    public var retention = HistoryRetention.all
    /// What tracking takes of the file without any history: tables, indexes, triggers and their declarations. Estimated.
    public var trackingBytes: Int64 = 0
    /// History's share of the file, between 0 and 1, estimated from samples; nil if the database has no history.
    public var historyShare: Double?

    /// Reads the status in one access. Writes of other programs count after they are recorded. The cost does not depend on the size
    /// of the store.
    package init(_ db: Database) throws {
        guard try db.tableExists(OwnTables.meta) else { return }
        tracked = try TrackedTable.fetchTracked(db).map(\.name).sorted()
        untrackedReferences = try UntrackedReference.fetchAll(db, tracked: tracked)
        endedTables = try EndedTable.fetchAll(db)
        untracked = try Self.untracked(db, known: tracked + endedTables.map(\.table))
        let bounds = try HistoryBounds(db)
        oldestToken = bounds.oldest
        latestToken = bounds.latest
        incomplete = try UnknownRows.incomplete(db, after: bounds.oldest.number).map(IncompleteTable.init)
        transactions = bounds.latest.number - bounds.oldest.number
        external = try ExternalHistory(db, bounds)
        retention = try Retention.load(db)
        historyShare = try HistorySize(db).share()
        trackingBytes = try HistorySize.tracking(db)
        drift = try TriggerChecks(db: db).run().compactMap(\.table).sorted()
        guard let state = try ReplicaState.load(db) else { return }
        replica = state
        isJoinUnfinished = try CreationStage.load(db) != nil
        areRowsUnverified = try UnverifiedRows.isNoted(db)
        // Transactions wait in history if the space's key is missing.
        outbox = try Outbox.count(db) + OutboxFiller.waiting(db)
        schemaVersion = try SpaceSchema.version(db)
        let missingSchema = try MissingSchema.load(db)
        if !missingSchema.isEmpty {
            let space = try SpaceSchema.load(db)
            self.missingSchema = missingSchema.names(in: space)
            waitingSchema = try missingSchema.columns(in: TrackedTables.load(db)).names(in: space)
        }
        if schemaVersion > 1, let space = try SpaceSchema.load(db) {
            let tables = try TrackedTables.load(db)
            removedColumns = space.leftover(in: tables)
            removedTables = tables.leftover.map(\.name).sorted()
        }
        syncProblem = try SyncProblem.load(db)
        isWaitingForMigration = try MigrationBarrier(db).first() != nil
        (conflicts, renumbered) = try ConflictJournal.count(db)
        refusedConflicts = try ConflictJournal.refusedCount(db)
        unsentConflicts = try Outbox.conflicts(db)
        unresolvedConflicts = try ConflictJournal.waitingCount(db)
    }
}

extension StoreStatus {
    /// Reads the declarations of unknown tables only.
    private static func untracked(_ db: Database, known: [String]) throws -> [String] {
        let known = Set(known.map(\.foldedIdentifier))
        let others = try SchemaReader(db).tableNames().filter { !known.contains($0.foldedIdentifier) && !Bookkeeping.isOfTool($0) }
        guard !others.isEmpty else { return [] }
        let leftover = try Set(TrackedTable.fetchAll(db).filter { $0.state == .leftover }.map(\.name.foldedIdentifier))
        return try SchemaReader(db).tables(named: others).filter { Refusal.ofTable($0) == nil }.map(\.name)
            .filter { !leftover.contains($0.foldedIdentifier) }
    }
}

/// A table to which another program wrote without capture, for example because a migration tool rebuilt it.
public struct IncompleteTable: Hashable, Sendable {
    public var table: String
    /// The changes were made before this transaction. The rows at earlier points are not known.
    public var before: Int64

    init(table: String, before: Int64) {
        (self.table, self.before) = (table, before)
    }
}
