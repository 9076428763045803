/// The names of all tables that Annals makes in a file, beside `annals_changes_N` and `annals_notes_N` of each tracked table.
///
/// `untrack` and `leave` drop by these lists, and `verify` compares a file with them, so each table is in one of them.
package enum OwnTables {
    /// Of every store with history.
    package static let history = ["annals_meta", "annals_tables", "annals_transactions", "annals_spans"]

    /// Of a store with history, made when the first of its rows is written.
    package static let historyOnDemand = ["annals_consumers", "annals_renumbered"]

    /// Of every replica.
    package static let replica = [
        "annals_outbox", "annals_outbox_parts", "annals_push", "annals_ahead", "annals_parts", "annals_highest", "annals_conflicts",
        "annals_policies", "annals_authors", "annals_log_digests", "annals_log",
    ]

    /// Of a replica, made when it first needs them.
    package static let replicaOnDemand = [
        "annals_unsettled", "annals_first_names", "annals_lacking", "annals_kept", "annals_schema_offers",
    ]

    /// Of a snapshot.
    package static let snapshot = ["annals_snapshot", "annals_snapshot_conflicts", "annals_snapshot_policies", "annals_snapshot_authors"]

    package static let all = Set(history + historyOnDemand + replica + replicaOnDemand + snapshot)

    /// Whether a table is one that only a replica has.
    package static func isReplicas(_ table: String) -> Bool {
        replica.contains(table) || replicaOnDemand.contains(table)
    }
}
