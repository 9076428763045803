/// The named limits of everything that travels. Both ends keep to them, so neither can be made to hold more.
public enum WireLimits {
    /// A batch's payload, unpacked, in bytes. A transaction beyond it travels in parts.
    public static let maximumPlainBytes = 64 << 20
    /// Parts of one transaction.
    public static let maximumParts = 65_536
    /// A body that travels in pieces, put together: its changes, each of which holds two values at most, have 1 GB per value.
    public static let maximumBodyBytes = 4 << 30
    /// A batch as it is sent, in bytes: an incompressible payload and its certificates.
    public static let maximumBatchBytes = 80 << 20
    /// Transactions in one batch.
    public static let maximumTransactions = 65_536
    /// Unpacked bytes after which an author starts another batch.
    public static let batchTargetBytes = 1 << 20
    /// Bytes of batches after which a relay ends a page, unless it has only one frame.
    public static let pageTargetBytes = 1 << 20
    /// The most that a reader may ask for with `limit`, in bytes.
    public static let maximumPageTargetBytes = 16 << 20
    /// A page as it is sent, in bytes: its target, and a last frame that went beyond.
    public static let maximumPageBytes = maximumPageTargetBytes + maximumBatchBytes + (1 << 20)
    /// Frames in one page.
    public static let maximumFrames = 65_536
    /// Bytes of log that a push's answer carries inline.
    public static let inlinePageBytes = 1 << 20
    /// Bytes of a snapshot that are sent at once, and so the most that a broken connection makes to be sent again.
    public static let snapshotPartBytes = 4 << 20
    /// The largest part of a snapshot that a relay takes.
    public static let maximumSnapshotPartBytes = 16 << 20
    /// Columns of one table; SQLite cannot be built for more.
    public static let maximumColumns = 32_767
    /// The longest time a pull waits at the relay, in seconds.
    public static let maximumWaitSeconds = 60
    /// The greatest position and counter: no count added to it can overflow.
    public static let maximumPosition: Int64 = 1 << 62
    /// The greatest distance of a time from 1970, in milliseconds: no lead added to it can overflow.
    public static let maximumMilliseconds: Int64 = 1 << 62
    /// Memory that unpacking may take for its window, as a power of two; RFC 8878 recommends 8 MiB.
    public static let maximumWindowLog = 23
}

/// What one reader of batches accepts; a relay may be stricter than `standard`.
public struct BatchLimits: Hashable, Sendable {
    /// Bytes of the batch as it came.
    public var batchBytes: Int
    /// Bytes of its payload when unpacked.
    public var plainBytes: Int
    public var transactions: Int

    public init(
        batchBytes: Int = WireLimits.maximumBatchBytes, plainBytes: Int = WireLimits.maximumPlainBytes,
        transactions: Int = WireLimits.maximumTransactions
    ) {
        self.batchBytes = batchBytes
        self.plainBytes = plainBytes
        self.transactions = transactions
    }

    public static let standard = BatchLimits()
}
