public import AnnalsWire
package import RelayLog

/// What the relay's HTTP side refuses to exceed, by name.
public struct RelayLimits: Sendable, Hashable {
    /// What one push may bring.
    public var batch = BatchLimits.standard
    /// Bytes of pushes being received or stored at once; beyond it a push is answered with 503.
    public var bodyBytesInFlight = 512 << 20
    /// The most that a pull may ask for in one page, in bytes.
    public var pageBytes = WireLimits.maximumPageTargetBytes
    /// The longest time a pull waits for something new, in seconds.
    public var waitSeconds = WireLimits.maximumWaitSeconds
    /// An event stream says something at least this often, in seconds; a lost connection is noticed by it.
    public var heartbeatSeconds = 15
    /// Connections open at once; further ones are not accepted until one closes.
    public var connections = 16_384
    /// A connection on which no request has begun or gone on for this long, in seconds, is closed.
    public var idleSeconds = 75
    /// Bytes of a request's headers together, and so of its address.
    public var headerBytes = 16 << 10
    /// How long answers under way may take after the relay was told to stop, in seconds.
    public var shutdownSeconds = 20
    /// Bytes of a snapshot read from the file at once.
    public var snapshotChunkBytes = 256 << 10
    /// Bytes of a page handed to the connection at once.
    static let pagePieceBytes = 256 << 10
    /// Bytes that stay free on the disk: with less `/health/ready` says 503.
    public var diskReserveBytes = 256 << 20
    /// Connections that may wait to be accepted.
    public var backlog = 1024

    /// How often the logs are purged, in seconds; for the first time after a minute at most.
    public var purgeSeconds = 3600
    /// A snapshot is due when the log since the newest has so many MiB, and as many bytes as that snapshot.
    public var snapshotLogMebibytes: Int {
        get { Int(log.snapshotLogBytes >> 20) }
        set { log.snapshotLogBytes = Int64(newValue) << 20 }
    }
    /// Or so many positions.
    public var snapshotLogPositions: Int {
        get { Int(log.snapshotLogPositions) }
        set { log.snapshotLogPositions = Int64(newValue) }
    }

    /// Those of the log itself.
    package var log = RelayLogLimits()

    public init() {}
}
