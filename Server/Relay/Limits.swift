package import AnnalsWire
package import RelayLog

/// Limits of the relay's HTTP side.
package struct RelayLimits: Sendable, Hashable {
    /// The size of one push.
    package var batch = BatchLimits.standard
    /// Bytes of pushes being received or stored; above it a push gets 503.
    package var bodyBytesInFlight = 512 << 20
    /// The largest page that a pull can request, in bytes.
    package var pageBytes = WireLimits.maximumPageTargetBytes
    /// The longest wait of a pull, in seconds.
    package var waitSeconds = WireLimits.maximumWaitSeconds
    /// The longest time between two writes on an event stream, in seconds; a write detects a lost connection.
    package var heartbeatSeconds = 15
    /// Requests per second of one token in the long run, or of one address on a relay without tokens; above it they get
    /// 429.
    package var requestsPerSecond = 1000
    /// Requests that one token can send at once after a pause.
    package var requestBurst = 5000
    /// Requests without a valid token from one address per minute; above it they get 429.
    package var failedLoginsPerMinute = 60
    /// Spaces that one token can create per hour; above it they get 429.
    package var newSpacesPerHour = 64
    /// Spaces that one address can create per hour, with all its tokens; addresses of this machine are not counted.
    package var newSpacesPerHourOfAddress = 256
    /// Open event streams; one more gets 503.
    package var eventStreams = 10_000
    /// Open connections; further ones are accepted when others close.
    package var connections = 16_384
    /// File descriptors reserved for other files than connections, if the system's limit is too low for all
    /// connections.
    static let filesForOthers = 128
    static let leastConnections = 16
    /// A connection without progress of a request for this time, in seconds, is closed.
    package var idleSeconds = 75
    /// The interval over which the speed of a request's body is measured, in seconds.
    package var slowSeconds = 20
    /// The lowest speed of a request's body in bytes per second; a slower connection is closed.
    package var slowBytesPerSecond = 1024
    /// A connection with a client that reads almost nothing of its answer for this time, in seconds, is closed. The
    /// system reports read bytes only in large steps, so a client that reads less than about a mebibyte in this time
    /// may be disconnected too.
    package var stalledSeconds = 60
    /// Bytes of all headers of a request, which also limits its URL.
    package var headerBytes = 16 << 10
    /// The longest time that answers under way can take after a stop request, in seconds.
    package var shutdownSeconds = 20
    /// Bytes of a snapshot in one read of the file.
    package var snapshotChunkBytes = 256 << 10
    /// Bytes of a page in one write to the connection.
    static let pagePieceBytes = 64 << 10
    /// The interval of the cleanup of abandoned uploads and parts.
    static let upkeepSeconds = 60
    /// Connections that wait to be accepted.
    package var backlog = 1024

    /// The interval of purges, in seconds; the first one runs after a minute at most.
    package var purgeSeconds = 3600
    /// A snapshot is due if the log since the newest one has this many MiB, and at least the bytes of that snapshot.
    package var snapshotLogMebibytes: Int {
        get { Int(log.snapshotLogBytes >> 20) }
        set { log.snapshotLogBytes = Int64(min(newValue, 1 << 40)) << 20 }
    }
    /// A snapshot is also due after this many positions.
    package var snapshotLogPositions: Int {
        get { Int(log.snapshotLogPositions) }
        set { log.snapshotLogPositions = Int64(newValue) }
    }
    /// Bytes of one snapshot.
    package var snapshotBytes: Int {
        get { Int(log.snapshotBytes) }
        set { log.snapshotBytes = Int64(newValue) }
    }
    /// Spaces of this relay.
    package var spaces: Int {
        get { log.spaces }
        set { log.spaces = newValue }
    }
    /// Bytes of one space: kept log, buffered parts and snapshots.
    package var spaceBytes: Int {
        get { Int(log.spaceBytes) }
        set { log.spaceBytes = Int64(newValue) }
    }
    /// Bytes of buffered parts of one space, and of one token in it.
    package var spacePartBytes: Int {
        get { Int(log.spacePartBytes) }
        set { log.spacePartBytes = Int64(newValue) }
    }
    package var tokenPartBytes: Int {
        get { Int(log.tokenPartBytes) }
        set { log.tokenPartBytes = Int64(newValue) }
    }
    /// Buffered parts are dropped after this time without a new part, in seconds.
    package var partIdleSeconds: Int {
        get { Int(log.parkedPartMilliseconds / 1000) }
        set { log.parkedPartMilliseconds = Self.milliseconds(newValue) }
    }
    /// The same for a snapshot upload in parts.
    package var uploadIdleSeconds: Int {
        get { Int(log.parkedUploadMilliseconds / 1000) }
        set { log.parkedUploadMilliseconds = Self.milliseconds(newValue) }
    }
    /// A number that is too large is limited here and refused by a later check.
    private static func milliseconds(_ seconds: Int) -> Int64 { Int64(min(max(0, seconds), .max / 1000)) * 1000 }

    /// Bytes of the disk that pushes, new spaces and snapshots leave free; below it `/health/ready` answers 503.
    package var diskReserveBytes: Int {
        get { Int(log.diskReserveBytes) }
        set { log.diskReserveBytes = Int64(newValue) }
    }
    /// Bytes of one transaction, compressed.
    package var transactionBytes: Int {
        get { Int(log.pendingPartBytes) }
        set { log.pendingPartBytes = Int64(newValue) }
    }
    /// Concurrent snapshot uploads.
    package var snapshotUploads: Int {
        get { log.snapshotUploads }
        set { log.snapshotUploads = newValue }
    }
    /// Pushes that wait for the writer of the log.
    package var pendingPushes: Int {
        get { log.pendingPushes }
        set { log.pendingPushes = newValue }
    }
    /// Bytes of pushes that wait for the writer.
    package var pendingBytes: Int {
        get { log.pendingBytes }
        set { log.pendingBytes = newValue }
    }
    /// Waiting pulls and event streams together.
    package var waiters: Int {
        get { log.waiters }
        set { log.waiters = newValue }
    }

    /// The limits of the log.
    package var log = RelayLogLimits()

    package init() {}
}

/// One limit: its name in the configuration, and its effect.
package struct RelayLimit: Sendable {
    /// The key under `limits:` in the configuration file. The environment variable is ANNALS_RELAY_LIMITS_ and the name
    /// in capitals.
    package let name: String
    /// The effect of the limit.
    package let beyond: String
    let value: any WritableKeyPath<RelayLimits, Int> & Sendable

    /// The highest valid value: 100 percent, a month, the largest 32-bit number, or for bytes any number.
    var most: Int {
        if name.hasSuffix("-percent") { return 100 }
        return name.hasSuffix("-seconds") ? 2_592_000 : name.contains("bytes") ? .max : Int(Int32.max)
    }

    init(_ name: String, _ value: any WritableKeyPath<RelayLimits, Int> & Sendable, _ beyond: String) {
        self.name = name
        self.beyond = beyond
        self.value = value
    }
}

extension RelayLimits {
    /// All configurable limits, in the order of the documentation. The keys of the configuration, their checks and the
    /// table in Documentation/relay.md come from this table.
    package static let named: [RelayLimit] = [
        RelayLimit("batch-bytes", \.batch.batchBytes, "413: bytes of one push"),
        RelayLimit("batch-plain-bytes", \.batch.plainBytes, "413: bytes of one push before compression"),
        RelayLimit("batch-transactions", \.batch.transactions, "413: transactions in one push"),
        RelayLimit("transaction-bytes", \.transactionBytes, "413: bytes of one transaction, with all its parts"),
        RelayLimit("body-bytes-in-flight", \.bodyBytesInFlight, "503: bytes of all pushes that are received or stored at the same time"),
        RelayLimit("pending-pushes", \.pendingPushes, "503: pushes that wait for the writer"),
        RelayLimit("pending-bytes", \.pendingBytes, "503: bytes of pushes that wait for the writer"),
        RelayLimit("header-bytes", \.headerBytes, "the connection is closed: bytes of a request's headers"),
        RelayLimit("page-bytes", \.pageBytes, "a pull gets a smaller page than requested"),
        RelayLimit("wait-seconds", \.waitSeconds, "a waiting pull is answered earlier than requested"),
        RelayLimit("requests-per-second", \.requestsPerSecond, "429: requests per second of one token, or of one address with --no-auth"),
        RelayLimit("request-burst", \.requestBurst, "429: requests at once after a pause"),
        RelayLimit("failed-logins-per-minute", \.failedLoginsPerMinute, "429: requests of one address without a valid token"),
        RelayLimit(
            "token-share-percent", \.log.shares.token,
            "503: the share of one token in bytes in flight, event streams, waits and snapshot uploads"),
        RelayLimit("space-share-percent", \.log.shares.space, "503: the share of one space in the same, and in pushes that wait"),
        RelayLimit("address-share-percent", \.log.shares.address, "503: the share of one address in the same, without pushes that wait"),
        RelayLimit("connections", \.connections, "further connections wait to be accepted"),
        RelayLimit("backlog", \.backlog, "the system refuses connections: connections that wait to be accepted"),
        RelayLimit("event-streams", \.eventStreams, "503: open event streams"),
        RelayLimit("waiters", \.waiters, "503: event streams and waiting pulls together"),
        RelayLimit("heartbeat-seconds", \.heartbeatSeconds, "an event stream without news sends a heartbeat"),
        RelayLimit("idle-seconds", \.idleSeconds, "the connection is closed: time without a request"),
        RelayLimit("slow-seconds", \.slowSeconds, "the connection is closed: time in which a body is slower than slow-bytes-per-second"),
        RelayLimit("slow-bytes-per-second", \.slowBytesPerSecond, "the lowest speed of a body, see slow-seconds"),
        RelayLimit(
            "stalled-seconds", \.stalledSeconds,
            "the connection is closed: time in which a client reads nothing of its answer, or less than about a mebibyte"),
        RelayLimit("shutdown-seconds", \.shutdownSeconds, "answers under way are aborted when the relay stops"),
        RelayLimit("spaces", \.spaces, "507: spaces of the relay"),
        RelayLimit("spaces-per-token", \.log.spacesPerToken, "507: spaces of one token"),
        RelayLimit("new-spaces-per-hour", \.newSpacesPerHour, "429: new spaces of one token"),
        RelayLimit("new-spaces-per-hour-of-address", \.newSpacesPerHourOfAddress, "429: new spaces of one address"),
        RelayLimit("replicas-per-token", \.log.replicasPerToken, "507: replicas of one token in a space"),
        RelayLimit(
            "sighted-replicas", \.log.sightedReplicas,
            "dropped: the replicas of one token in a space that never pushed and were seen longest ago"),
        RelayLimit(
            "readers-per-space", \.log.readersPerSpace,
            "dropped: the replicas of a space that only read-only tokens named and that were seen longest ago"),
        RelayLimit("token-part-bytes", \.tokenPartBytes, "503: bytes of the buffered parts of one token in a space"),
        RelayLimit("space-part-bytes", \.spacePartBytes, "503: bytes of the buffered parts of a space"),
        RelayLimit("part-idle-seconds", \.partIdleSeconds, "dropped: parts of a transaction without a new part; its author sends it again"),
        RelayLimit(
            "space-bytes", \.spaceBytes, "507: pushes and snapshots that a space has no room for; reads still work, a purge makes room"),
        RelayLimit(
            "disk-reserve-bytes", \.diskReserveBytes, "507: pushes, spaces and snapshots that would leave less free; reads still work"),
        RelayLimit("snapshot-bytes", \.snapshotBytes, "413: bytes of one snapshot"),
        RelayLimit("snapshot-uploads", \.snapshotUploads, "503: concurrent snapshot uploads"),
        RelayLimit("upload-idle-seconds", \.uploadIdleSeconds, "dropped: a snapshot upload in parts without a new part"),
        RelayLimit("snapshot-chunk-bytes", \.snapshotChunkBytes, "snapshots are read in pieces of this size"),
        RelayLimit("snapshot-log-mebibytes", \.snapshotLogMebibytes, "a replica is asked for a snapshot: MiB of log since the newest"),
        RelayLimit("snapshot-log-positions", \.snapshotLogPositions, "a replica is asked for a snapshot: positions since the newest"),
        RelayLimit("purge-seconds", \.purgeSeconds, "the interval between two purges"),
    ]
}
