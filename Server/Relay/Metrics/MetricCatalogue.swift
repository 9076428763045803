/// The metrics of a relay: one list for the exporter, the documentation and the tests that compare both.
///
/// The number of label values is bounded. Routes, methods, statuses, outcomes and problem codes come from the program.
/// Spaces and replicas are limited by `MetricLimits`.
enum MetricCatalogue {
    enum Kind: String {
        case counter
        case gauge
        case histogram
    }

    struct Metric {
        var name: String
        var kind: Kind
        var labels: [String] = []
        /// One line of help text.
        var help: String
    }

    static let all: [Metric] = [
        Metric(
            name: Name.requests, kind: .counter, labels: ["route", "method", "status"], help: "Answered requests."),
        Metric(
            name: Name.requestSeconds, kind: .histogram, labels: ["route"],
            help: "Time until the answer was ready to send; pulls that may wait have a separate route that ends with ?wait."),
        Metric(name: Name.problems, kind: .counter, labels: ["code"], help: "Requests answered with a problem."),
        Metric(
            name: Name.quotaRefusals, kind: .counter, labels: ["quota", "bound"],
            help: "Requests refused because a quota was used up, by quota and by its bound: relay, token, space or address."),
        Metric(name: Name.broken, kind: .counter, help: "Requests with a client that disconnected before the end of the body."),
        Metric(
            name: Name.contradictions, kind: .counter, help: "Requests refused because their replica has seen another log."),
        Metric(
            name: Name.pushes, kind: .counter, labels: ["outcome"],
            help: "Pushes by outcome; all outcomes except accepted and wait are refusals."),
        Metric(name: Name.pushedTransactions, kind: .counter, help: "Transactions appended to a log."),
        Metric(
            name: Name.commitSeconds, kind: .histogram,
            help: "Time from the arrival of a whole push until its accepted transactions were durable."),
        Metric(
            name: Name.deliverySeconds, kind: .histogram,
            help: "Time from the receipt of a transaction until the answer to a pull that waited for it was ready to send."),
        Metric(name: Name.pulledPages, kind: .counter, help: "Pages of a log that were sent, without empty ones."),
        Metric(name: Name.snapshotsReceived, kind: .counter, help: "Snapshots that were received completely and recorded."),
        Metric(
            name: Name.snapshotsRefuted, kind: .counter, help: "Checks in which a replica of another owner had different rows."),
        Metric(name: Name.snapshotsSent, kind: .counter, help: "Snapshots, or parts of them, that were sent."),
        Metric(name: Name.purges, kind: .counter, help: "Purges that dropped a part of a log."),
        Metric(name: Name.purgedBytes, kind: .counter, help: "Bytes of log that purges dropped."),
        Metric(name: Name.purgeFailures, kind: .counter, help: "Purges that failed."),
        Metric(name: Name.backupFailures, kind: .counter, help: "Backups by the relay's own schedule that failed."),
        Metric(name: Name.receivedBytes, kind: .counter, help: "Bytes of request bodies."),
        Metric(name: Name.sentBytes, kind: .counter, help: "Bytes of answer bodies."),
        Metric(name: Name.connections, kind: .gauge, help: "Open connections."),
        Metric(name: Name.eventStreams, kind: .gauge, help: "Open event streams."),
        Metric(name: Name.watchers, kind: .gauge, help: "Pulls and event streams that wait for a head to move."),
        Metric(name: Name.ready, kind: .gauge, help: "1 if /health/ready would answer ready, otherwise 0."),
        Metric(name: Name.spaces, kind: .gauge, help: "Spaces."),
        Metric(name: Name.spaceHead, kind: .gauge, labels: ["space"], help: "Head of the space's log."),
        Metric(name: Name.spaceHorizon, kind: .gauge, labels: ["space"], help: "Position after which the space's log begins."),
        Metric(
            name: Name.spaceWrittenBytes, kind: .counter, labels: ["space"],
            help: "Bytes of all batches since the space was created, including purged ones."),
        Metric(name: Name.spaceSnapshotPosition, kind: .gauge, labels: ["space"], help: "Position of the space's newest snapshot."),
        Metric(
            name: Name.spaceReported, kind: .gauge, labels: ["space"],
            help: "Entries that receivers reported because they cannot apply them, and that are not void."),
        Metric(
            name: Name.replicaLag, kind: .gauge, labels: ["space", "replica"],
            help: "Positions that a live replica has not applied, as far as the relay knows."),
        Metric(
            name: Name.replicaSeen, kind: .gauge, labels: ["space", "replica"],
            help: "When a live replica was last seen, in seconds since 1970."),
        Metric(name: Name.replicas, kind: .gauge, help: "Live replicas in all spaces."),
        Metric(
            name: Name.storageBytes, kind: .gauge, labels: ["part"],
            help: "Bytes of storage: the database with the logs, and the snapshots."),
        Metric(
            name: Name.backup, kind: .gauge,
            help: "The moment of the newest backup by annals relay backup, in seconds since 1970; 0 without one."),
        Metric(name: Name.diskFree, kind: .gauge, help: "Free bytes of the disk with the data; not with PostgreSQL."),
        Metric(name: Name.certificateExpiry, kind: .gauge, help: "When the current certificate expires, in seconds since 1970."),
        Metric(name: Name.certificateFailures, kind: .counter, help: "Reloads of the certificate that failed."),
        Metric(name: Name.residentBytes, kind: .gauge, help: "Resident memory of the process, in bytes."),
        Metric(name: Name.openFiles, kind: .gauge, help: "Open file descriptors of the process."),
        Metric(name: Name.started, kind: .gauge, help: "When the process started, in seconds since 1970."),
    ]

    static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

    /// The bounds of a histogram's buckets, in seconds. A durable push takes a few milliseconds, a snapshot minutes.
    static let bounds: [Double] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

    enum Name {
        static let requests = "annals_relay_requests_total"
        static let requestSeconds = "annals_relay_request_seconds"
        static let problems = "annals_relay_problems_total"
        static let quotaRefusals = "annals_relay_quota_refusals_total"
        static let broken = "annals_relay_broken_requests_total"
        static let contradictions = "annals_relay_contradictions_total"
        static let pushes = "annals_relay_pushes_total"
        static let pushedTransactions = "annals_relay_pushed_transactions_total"
        static let commitSeconds = "annals_relay_commit_seconds"
        static let deliverySeconds = "annals_relay_delivery_seconds"
        static let pulledPages = "annals_relay_pulled_pages_total"
        static let snapshotsReceived = "annals_relay_snapshots_received_total"
        static let snapshotsRefuted = "annals_relay_snapshots_refuted_total"
        static let snapshotsSent = "annals_relay_snapshots_sent_total"
        static let purges = "annals_relay_purges_total"
        static let purgedBytes = "annals_relay_purged_bytes_total"
        static let purgeFailures = "annals_relay_purge_failures_total"
        static let backupFailures = "annals_relay_backup_failures_total"
        static let receivedBytes = "annals_relay_received_bytes_total"
        static let sentBytes = "annals_relay_sent_bytes_total"
        static let connections = "annals_relay_connections"
        static let eventStreams = "annals_relay_event_streams"
        static let watchers = "annals_relay_watchers"
        static let ready = "annals_relay_ready"
        static let spaces = "annals_relay_spaces"
        static let spaceHead = "annals_relay_space_head"
        static let spaceHorizon = "annals_relay_space_horizon"
        static let spaceWrittenBytes = "annals_relay_space_written_bytes_total"
        static let spaceSnapshotPosition = "annals_relay_space_snapshot_position"
        static let spaceReported = "annals_relay_space_reported_entries"
        static let replicaLag = "annals_relay_replica_lag"
        static let replicaSeen = "annals_relay_replica_seen_seconds"
        static let replicas = "annals_relay_replicas"
        static let storageBytes = "annals_relay_storage_bytes"
        static let backup = "annals_relay_backup_seconds"
        static let diskFree = "annals_relay_disk_free_bytes"
        static let certificateExpiry = "annals_relay_certificate_expiry_seconds"
        static let certificateFailures = "annals_relay_certificate_failures_total"
        static let residentBytes = "process_resident_memory_bytes"
        static let openFiles = "process_open_fds"
        static let started = "process_start_time_seconds"
    }
}

/// Limits of a scrape.
enum MetricLimits {
    /// Series of one metric that the program counts; further ones are dropped.
    static let series = 1000
    /// Spaces with their own series, the first by name.
    static let spaces = 1000
    /// Live replicas with their own series, those with the largest lag.
    static let replicas = 2000
    /// How long readings of the storage are cached between scrapes, in seconds.
    static let readingSeconds = 5
}
