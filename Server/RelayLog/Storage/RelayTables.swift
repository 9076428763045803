internal import AnnalsCore

/// The tables of a relay's database, with the columns that SQLite and PostgreSQL share: for copies between them.
struct RelayTable: Sendable {
    let name: String
    let columns: [String]
    /// The column that the database numbers.
    var number: String? { ["id", "number"].first { columns.first == $0 } }

    /// Rows come before the rows that refer to them.
    static let all = [
        RelayTable(
            name: "annals_spaces",
            columns: [
                "id", "name", "lineage", "head", "horizon", "floor", "created", "horizon_digest", "log_bytes", "part_changes",
                "dropped_bytes", "owner_changes", "creator",
            ]),
        RelayTable(
            name: "annals_replicas",
            columns: [
                "id", "space", "replica", "name", "counter", "digest", "position", "seen", "last_position", "retired", "program", "owner",
                "sighted_by", "holds",
            ]),
        RelayTable(name: "annals_tokens", columns: ["id", "hash", "label", "space", "scope", "created", "expires", "revoked", "holder"]),
        RelayTable(name: "annals_days", columns: ["space", "day", "bytes", "positions"]),
        RelayTable(name: "annals_audit", columns: ["number", "id", "time", "actor", "action", "space", "subject", "outcome"]),
        RelayTable(name: "annals_reports", columns: ["space", "position", "owner", "digest", "rule", "table_name", "time"]),
        RelayTable(name: "annals_snapshot_checks", columns: ["space", "position", "owner", "digest", "good", "time"]),
        RelayTable(name: "annals_quarantines", columns: ["space", "owner", "since"]),
        runs,
        parts,
        snapshots,
    ]

    /// The log. A row can have megabytes, so these rows, and those of `parts`, are read a few at a time.
    static let runs = RelayTable(
        name: "annals_runs",
        columns: ["space", "position", "count", "first_index", "replica", "counter", "received", "log_digest", "batch"])
    static let parts = RelayTable(
        name: "annals_parts", columns: ["space", "replica", "part", "counter", "digest", "received", "batch"])

    static let snapshots = RelayTable(
        name: "annals_snapshots", columns: ["space", "position", "bytes", "digest", "file", "created", "log_bytes", "owner"])

    var insertion: String {
        let values = columns.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        return "INSERT INTO \(name)(\(columns.joined(separator: ", "))) VALUES (\(values))"
    }

    var selection: String { "SELECT \(columns.joined(separator: ", ")) FROM \(name)" }
}
