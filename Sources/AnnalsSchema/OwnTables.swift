/// The names of all tables that Annals creates in a file, besides `annals_changes_N` and `annals_notes_N` of each tracked table.
///
/// `untrack` and `leave` drop the tables in these lists, and `verify` compares a file with them. So each table is in one list.
package enum OwnTables {
    /// In every store with history.
    package static let history = ["annals_meta", "annals_tables", "annals_transactions", "annals_spans"]

    /// In a store with history, created with the first row of the table.
    package static let historyOnDemand = ["annals_consumers", "annals_renumbered", "annals_references"]

    /// In every replica.
    package static let replica = [
        "annals_outbox", "annals_outbox_parts", "annals_push", "annals_ahead", "annals_parts", "annals_highest", "annals_conflicts",
        "annals_policies", "annals_authors", "annals_log_digests", "annals_log",
    ]

    /// In a replica, created when first needed.
    package static let replicaOnDemand = [
        "annals_unsettled", "annals_canonical_names", "annals_missing_schema", "annals_kept", "annals_schema_offers",
    ]

    /// In a snapshot.
    package static let snapshot = [
        "annals_snapshot", "annals_snapshot_conflicts", "annals_snapshot_policies", "annals_snapshot_authors",
        "annals_snapshot_references",
    ]

    package static let all = Set(history + historyOnDemand + replica + replicaOnDemand + snapshot)

    /// Whether only a replica has this table.
    package static func isReplicas(_ table: String) -> Bool {
        replica.contains(table) || replicaOnDemand.contains(table)
    }
}
