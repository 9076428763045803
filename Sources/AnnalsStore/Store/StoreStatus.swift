import AnnalsCore
public import AnnalsHistory
public import AnnalsReplica
public import AnnalsSchema
package import GRDB

/// How a store stands, as far as it can tell without asking anyone.
public struct StoreStatus: Sendable {
    /// Names of the tracked tables.
    public var tracked: [String] = []
    /// Foreign keys of tables without history to tracked ones. Rows of such a table stay on this machine, and can keep others' deletes
    /// from being applied.
    public var untrackedReferences: [UntrackedReference] = []
    /// How many transactions history holds.
    public var transactions: Int64 = 0
    /// nil when the database has no history.
    public var oldestToken: HistoryToken?
    public var latestToken: HistoryToken?
    /// Names of tracked tables whose capture triggers are not in place, so that changes may go unseen. They return at the
    /// next recording, and older tokens expire then.
    public var drift: [String] = []
    /// A join that makes a space was interrupted, or is under way: nothing is sent before it is done.
    public var isJoinUnfinished = false
    /// Another program may have written rows that no trigger saw; the next sync compares them with the space's.
    public var areRowsUnverified = false
    /// The place in a space; nil when the store is not joined.
    public var replica: ReplicaState?
    /// Local transactions that the space has not ordered yet.
    public var outbox = 0
    /// Of the space's schema, as far as the log is applied here.
    public var schemaVersion: Int64 = 1
    /// What the space's schema has and this store lacks: tables, and columns as `table.column`.
    public var missingSchema: [String] = []
    /// Work waits in the outbox until the store has migrated.
    public var isWaitingForMigration = false
    /// Entries of the conflict journal, and those of them that wait for a person.
    public var conflicts = 0
    public var unresolvedConflicts = 0
    /// How much history the store keeps by itself.
    public var retention = HistoryRetention.all
    /// History's share of the file, between 0 and 1, estimated from samples; nil when the database has no history.
    public var historyShare: Double?

    /// Reads the status in one access. Other programs' writes count once they are recorded. Costs the same at any size.
    package init(_ db: Database) throws {
        guard try db.tableExists(MetaTable.name) else { return }
        tracked = try TrackedTable.fetchTracked(db).map(\.name).sorted()
        untrackedReferences = try UntrackedReference.fetchAll(db, tracked: tracked)
        let bounds = try HistoryBounds(db)
        oldestToken = bounds.oldest
        latestToken = bounds.latest
        transactions = bounds.latest.number - bounds.oldest.number
        retention = try Retention.load(db)
        historyShare = try HistorySize(db).share()
        drift = try TriggerChecks(db: db).run().compactMap(\.table).sorted()
        guard let state = try ReplicaState.load(db) else { return }
        replica = state
        isJoinUnfinished = try CreationStage.load(db) != nil
        areRowsUnverified = try UnverifiedRows.isNoted(db)
        // What the space's key is missing for waits in history.
        outbox = try Outbox.count(db) + OutboxFiller.waiting(db)
        schemaVersion = try SpaceSchema.version(db)
        let missingSchema = try MissingSchema.load(db)
        if !missingSchema.isEmpty { self.missingSchema = try missingSchema.names(in: SpaceSchema.load(db)) }
        isWaitingForMigration = try MigrationBarrier(db).first() != nil
        conflicts = try ConflictJournal.count(db)
        unresolvedConflicts = try ConflictJournal.waitingCount(db)
    }
}
