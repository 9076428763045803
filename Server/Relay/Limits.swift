package import AnnalsWire
package import RelayLog

/// What the relay's HTTP side refuses to exceed, by name.
package struct RelayLimits: Sendable, Hashable {
    /// What one push may bring.
    package var batch = BatchLimits.standard
    /// Bytes of pushes being received or stored at once; beyond it a push is answered with 503.
    package var bodyBytesInFlight = 512 << 20
    /// The most that a pull may ask for in one page, in bytes.
    package var pageBytes = WireLimits.maximumPageTargetBytes
    /// The longest time a pull waits for something new, in seconds.
    package var waitSeconds = WireLimits.maximumWaitSeconds
    /// An event stream says something at least this often, in seconds; a lost connection is noticed by it.
    package var heartbeatSeconds = 15
    /// Requests a second that one token may make for long, or one address where there are no tokens; beyond it they are answered
    /// with 429.
    package var requestsPerSecond = 1000
    /// Requests that one token may make at once after a pause.
    package var requestBurst = 5000
    /// Requests without a valid token that one address may send in a minute; beyond it they are answered with 429.
    package var failedLoginsPerMinute = 60
    /// Spaces that one token may make in an hour; beyond it they are answered with 429.
    package var newSpacesPerHour = 64
    /// Spaces that one address may make in an hour, with all its tokens; this machine's own is not counted.
    package var newSpacesPerHourOfAddress = 256
    /// Event streams open at once; one more is answered with 503.
    package var eventStreams = 10_000
    /// Connections open at once; further ones are not accepted until one closes.
    package var connections = 16_384
    /// Files that are left to all else than connections, where the system allows fewer than there may be connections.
    static let filesForOthers = 128
    static let leastConnections = 16
    /// A connection on which no request has begun or gone on for this long, in seconds, is closed.
    package var idleSeconds = 75
    /// Over how long it is measured whether a request's body comes in fast enough, in seconds.
    package var slowSeconds = 20
    /// Bytes a second of a request's body that must come meanwhile; the connection of a slower one is closed.
    package var slowBytesPerSecond = 1024
    /// A connection whose reader takes next to nothing of its answer for this long, in seconds, is closed. The system tells only
    /// in steps that bytes were taken, so one that takes less than about a mebibyte meanwhile may be closed as well.
    package var stalledSeconds = 60
    /// Bytes of a request's headers together, and so of its address.
    package var headerBytes = 16 << 10
    /// How long answers under way may take after the relay was told to stop, in seconds.
    package var shutdownSeconds = 20
    /// Bytes of a snapshot read from the file at once.
    package var snapshotChunkBytes = 256 << 10
    /// Bytes of a page handed to the connection at once.
    static let pagePieceBytes = 64 << 10
    /// How often it is looked for what did not go on and may be dropped.
    static let upkeepSeconds = 60
    /// Connections that may wait to be accepted.
    package var backlog = 1024

    /// How often the logs are purged, in seconds; for the first time after a minute at most.
    package var purgeSeconds = 3600
    /// A snapshot is due when the log since the newest has so many MiB, and as many bytes as that snapshot.
    package var snapshotLogMebibytes: Int {
        get { Int(log.snapshotLogBytes >> 20) }
        set { log.snapshotLogBytes = Int64(min(newValue, 1 << 40)) << 20 }
    }
    /// Or so many positions.
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
    /// Bytes of one space: its log as far as it is kept, parts that wait, and snapshots.
    package var spaceBytes: Int {
        get { Int(log.spaceBytes) }
        set { log.spaceBytes = Int64(newValue) }
    }
    /// Bytes of unfinished transactions' parts that one space may have, and that one token may have there.
    package var spacePartBytes: Int {
        get { Int(log.spacePartBytes) }
        set { log.spacePartBytes = Int64(newValue) }
    }
    package var tokenPartBytes: Int {
        get { Int(log.tokenPartBytes) }
        set { log.tokenPartBytes = Int64(newValue) }
    }
    /// After how long without a new one parts of an unfinished transaction are dropped, in seconds.
    package var partIdleSeconds: Int {
        get { Int(log.parkedPartMilliseconds / 1000) }
        set { log.parkedPartMilliseconds = Self.milliseconds(newValue) }
    }
    /// The same of a snapshot that comes in parts.
    package var uploadIdleSeconds: Int {
        get { Int(log.parkedUploadMilliseconds / 1000) }
        set { log.parkedUploadMilliseconds = Self.milliseconds(newValue) }
    }
    /// A number that is too large for that is refused later, as what it is.
    private static func milliseconds(_ seconds: Int) -> Int64 { Int64(min(max(0, seconds), .max / 1000)) * 1000 }

    /// Bytes of the disk that pushes, new spaces and snapshots leave free; with less `/health/ready` says 503.
    package var diskReserveBytes: Int {
        get { Int(log.diskReserveBytes) }
        set { log.diskReserveBytes = Int64(newValue) }
    }
    /// Bytes of one transaction, packed.
    package var transactionBytes: Int {
        get { Int(log.pendingPartBytes) }
        set { log.pendingPartBytes = Int64(newValue) }
    }
    /// Snapshots that are being received at once.
    package var snapshotUploads: Int {
        get { log.snapshotUploads }
        set { log.snapshotUploads = newValue }
    }
    /// Pushes that wait for the log's writer.
    package var pendingPushes: Int {
        get { log.pendingPushes }
        set { log.pendingPushes = newValue }
    }
    /// Bytes of pushes that wait for it.
    package var pendingBytes: Int {
        get { log.pendingBytes }
        set { log.pendingBytes = newValue }
    }
    /// Pulls and event streams that wait at once.
    package var waiters: Int {
        get { log.waiters }
        set { log.waiters = newValue }
    }

    /// Those of the log itself.
    package var log = RelayLogLimits()

    package init() {}
}

/// One limit: its name in the configuration, and what it is about.
package struct RelayLimit: Sendable {
    /// Under `limits:` in the configuration file, and in the environment as ANNALS_RELAY_LIMITS_ and this in capitals.
    package let name: String
    /// What becomes of whatever is beyond it.
    package let beyond: String
    let value: any WritableKeyPath<RelayLimits, Int> & Sendable

    /// What can be meant: all of it, a month, as many as there can be of anything, or any number of bytes.
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
    /// All that can be set, in the order in which the documents have them. From this table come the configuration's keys, its checks
    /// and the table in Documentation/relay.md.
    package static let named: [RelayLimit] = [
        RelayLimit("batch-bytes", \.batch.batchBytes, "413: the bytes of one push"),
        RelayLimit("batch-plain-bytes", \.batch.plainBytes, "413: the same before compression"),
        RelayLimit("batch-transactions", \.batch.transactions, "413: transactions in one push"),
        RelayLimit("transaction-bytes", \.transactionBytes, "413: the bytes of one transaction, in however many parts"),
        RelayLimit("body-bytes-in-flight", \.bodyBytesInFlight, "503: bytes of all pushes being received or stored"),
        RelayLimit("pending-pushes", \.pendingPushes, "503: pushes that wait to be stored"),
        RelayLimit("pending-bytes", \.pendingBytes, "503: bytes of pushes that wait to be stored"),
        RelayLimit("header-bytes", \.headerBytes, "the connection is closed: bytes of a request's headers"),
        RelayLimit("page-bytes", \.pageBytes, "the page is smaller than asked for"),
        RelayLimit("wait-seconds", \.waitSeconds, "a waiting pull is answered earlier than asked for"),
        RelayLimit("requests-per-second", \.requestsPerSecond, "429: requests of one token, or of one address with --no-auth"),
        RelayLimit("request-burst", \.requestBurst, "429: the same after a pause"),
        RelayLimit("failed-logins-per-minute", \.failedLoginsPerMinute, "429: requests of one address without a valid token"),
        RelayLimit(
            "token-share-percent", \.log.shares.token,
            "503: of bytes in flight, event streams, waits and snapshots being received, one token's share"),
        RelayLimit("space-share-percent", \.log.shares.space, "503: one space's share of the same, and of pushes that wait to be stored"),
        RelayLimit("address-share-percent", \.log.shares.address, "503: one address's share of the same, but for pushes that wait"),
        RelayLimit("connections", \.connections, "further ones wait to be accepted"),
        RelayLimit("backlog", \.backlog, "the system refuses connections: those that wait to be accepted"),
        RelayLimit("event-streams", \.eventStreams, "503: event streams that are open"),
        RelayLimit("waiters", \.waiters, "503: event streams and waiting pulls together"),
        RelayLimit("heartbeat-seconds", \.heartbeatSeconds, "a quiet event stream says so"),
        RelayLimit("idle-seconds", \.idleSeconds, "the connection is closed: without a request"),
        RelayLimit("slow-seconds", \.slowSeconds, "the connection is closed: a body that for so long comes slower than the next says"),
        RelayLimit("slow-bytes-per-second", \.slowBytesPerSecond, "the least of a body that must come"),
        RelayLimit(
            "stalled-seconds", \.stalledSeconds,
            "the connection is closed: a reader that takes nothing of its answer, or less than about a mebibyte"),
        RelayLimit("shutdown-seconds", \.shutdownSeconds, "answers under way are broken off when the relay stops"),
        RelayLimit("spaces", \.spaces, "507: a new space"),
        RelayLimit("spaces-per-token", \.log.spacesPerToken, "507: a new space of one token"),
        RelayLimit("new-spaces-per-hour", \.newSpacesPerHour, "429: new spaces of one token"),
        RelayLimit("new-spaces-per-hour-of-address", \.newSpacesPerHourOfAddress, "429: new spaces of one address"),
        RelayLimit("replicas-per-token", \.log.replicasPerToken, "507: a push as one more replica of one token in a space"),
        RelayLimit(
            "sighted-replicas", \.log.sightedReplicas,
            "forgotten: those replicas of one token in a space that never pushed and were seen longest ago"),
        RelayLimit(
            "readers-per-space", \.log.readersPerSpace,
            "forgotten: those replicas of a space that only tokens for reading named and were seen longest ago"),
        RelayLimit("token-part-bytes", \.tokenPartBytes, "503: parts of one token's unfinished transactions in a space"),
        RelayLimit("space-part-bytes", \.spacePartBytes, "503: parts of a space's unfinished transactions"),
        RelayLimit("part-idle-seconds", \.partIdleSeconds, "dropped: parts of a transaction that did not go on; its author sends it again"),
        RelayLimit("space-bytes", \.spaceBytes, "507: pushes to a space, and snapshots beyond it; reads go on, and a purge makes room"),
        RelayLimit("disk-reserve-bytes", \.diskReserveBytes, "507: pushes, spaces and snapshots that would leave less free; reads go on"),
        RelayLimit("snapshot-bytes", \.snapshotBytes, "413: bytes of one snapshot"),
        RelayLimit("snapshot-uploads", \.snapshotUploads, "503: snapshots being received"),
        RelayLimit("upload-idle-seconds", \.uploadIdleSeconds, "dropped: a snapshot that comes in parts and did not go on"),
        RelayLimit("snapshot-chunk-bytes", \.snapshotChunkBytes, "snapshots are read in pieces of it"),
        RelayLimit("snapshot-log-mebibytes", \.snapshotLogMebibytes, "a new snapshot is asked for: MiB of log since the newest"),
        RelayLimit("snapshot-log-positions", \.snapshotLogPositions, "a new snapshot is asked for: positions since the newest"),
        RelayLimit("purge-seconds", \.purgeSeconds, "the logs are purged"),
    ]
}
