/// The names of all tables that Annals creates in a file, besides `annals_changes_ID` of each tracked table and
/// `annals_notes_wN` of the tables with up to N columns.
///
/// `untrack` and `leave` drop the tables in these lists, and `verify` compares a file with them. So each table is in one list.
/// One other file has the SQL on a table. `Scripts/check-repository` refuses the name everywhere else.
package enum OwnTables {
    package static let meta = "annals_meta"
    package static let tables = "annals_tables"
    package static let transactions = "annals_transactions"
    package static let spans = "annals_spans"
    package static let consumers = "annals_consumers"
    package static let renumbered = "annals_renumbered"
    package static let references = "annals_references"
    package static let unsent = "annals_unsent"
    package static let contextMoments = "annals_context_moments"
    package static let contextMarks = "annals_context_marks"

    package static let outbox = "annals_outbox"
    package static let outboxParts = "annals_outbox_parts"
    package static let push = "annals_push"
    package static let ahead = "annals_ahead"
    package static let parts = "annals_parts"
    package static let highest = "annals_highest"
    package static let conflicts = "annals_conflicts"
    package static let policies = "annals_policies"
    package static let authors = "annals_authors"
    package static let logDigests = "annals_log_digests"
    package static let log = "annals_log"

    package static let unsettled = "annals_unsettled"
    package static let canonicalNames = "annals_canonical_names"
    package static let missingSchema = "annals_missing_schema"
    package static let kept = "annals_kept"
    package static let schemaOffers = "annals_schema_offers"
    package static let serializable = "annals_serializable"

    package static let snapshotDescription = "annals_snapshot"
    package static let snapshotConflicts = "annals_snapshot_conflicts"
    package static let snapshotPolicies = "annals_snapshot_policies"
    package static let snapshotAuthors = "annals_snapshot_authors"
    package static let snapshotReferences = "annals_snapshot_references"

    /// In every store with history.
    package static let history = [meta, tables, transactions, spans]

    /// In a store with history, created with the first row of the table, or when the store leaves a space (`unsent`).
    package static let historyOnDemand = [consumers, renumbered, references, unsent, contextMoments, contextMarks]

    /// In every replica.
    package static let replica = [
        outbox, outboxParts, push, ahead, parts, highest, conflicts, policies, authors, logDigests, log,
    ]

    /// In a replica, created when first needed.
    package static let replicaOnDemand = [unsettled, canonicalNames, missingSchema, kept, schemaOffers, serializable]

    /// In a snapshot.
    package static let snapshot = [snapshotDescription, snapshotConflicts, snapshotPolicies, snapshotAuthors, snapshotReferences]

    package static let all = Set(history + historyOnDemand + replica + replicaOnDemand + snapshot)

    /// Whether only a replica has this table.
    package static func isReplicas(_ table: String) -> Bool {
        replica.contains(table) || replicaOnDemand.contains(table)
    }
}
