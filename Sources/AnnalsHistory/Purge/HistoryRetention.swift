import AnnalsCore

/// How much history a store keeps. A purge never deletes what a live consumer has not read, or what the agent has not pushed.
///
///     try await store.setRetention(.days(90))
///     try await store.purge(.untilConsumed.keepingAtLeast(.seconds(7 * 86_400)))
///
/// Each additional restriction keeps more history.
public struct HistoryRetention: Hashable, Codable, Sendable {
    /// Only transactions older than this are deleted; nil: no limit by age.
    public private(set) var minimumAge: Duration?
    /// A purge deletes only until history's share of the file is at most this, between 0 and 1.
    public private(set) var fraction: Double?
    /// Nothing is deleted.
    public private(set) var keepsAll = false

    private init() {}

    /// Deletes everything that all consumers have read.
    public static let untilConsumed = HistoryRetention()

    /// Keeps history forever. This is the default of a store that is not joined.
    public static let all: HistoryRetention = {
        var retention = HistoryRetention()
        retention.keepsAll = true
        return retention
    }()

    /// Deletes what is older than this number of days. The default of a joined store is 30 days.
    public static func days(_ count: Int) -> HistoryRetention {
        let (seconds, overflow) = Int64(count).multipliedReportingOverflow(by: 86_400)
        return untilConsumed.keepingAtLeast(.seconds(overflow ? (count < 0 ? 0 : .max) : seconds))
    }

    /// Deletes only transactions older than this.
    public func keepingAtLeast(_ age: Duration) -> Self {
        var copy = self
        copy.minimumAge = max(minimumAge ?? .zero, age)
        return copy
    }

    /// Deletes only if history takes more than this share of the file, between 0 and 1, and only until the share is reached. The
    /// share is estimated from samples of the raw changes. Any other number is refused (`usage`) when the retention is used.
    public func whenHistoryFraction(ofStoreExceeds fraction: Double) -> Self {
        var copy = self
        copy.fraction = fraction
        return copy
    }

    /// - Throws: `AnnalsError` with code `usage` if the share is not between 0 and 1.
    package func check() throws {
        guard let fraction, !(0...1).contains(fraction) else { return }
        throw AnnalsError(
            .usage, operation: "purge", "history's share of the file must be between 0 and 1, and is \(fraction)",
            hint: "0.5 is one half")
    }
}

/// Whether a purge may delete what a consumer has not read yet.
public enum PurgeMode: Hashable, Sendable {
    /// The purge stops before the slowest live consumer and before transactions that were not pushed.
    case respectingConsumers
    /// Older tokens expire, and a consumer behind the purge gets an error and starts again. Transactions that were not pushed stay
    /// in the outbox and are still pushed.
    case force
}

/// What a purge deleted, or would delete.
public struct PurgeResult: Hashable, Sendable {
    public var transactions: Int64 = 0
    /// The number of raw changes. A row that a transaction changed twice has two.
    public var changes: Int64 = 0
    /// Bytes of the file that are free for rows and history; estimated in a dry run.
    public var bytes: Int64 = 0
    /// Entries of the conflict journal.
    public var conflicts = 0
    /// The oldest token after the purge.
    public var oldest: HistoryToken
    /// Consumers that limited the purge.
    public var heldBackBy: [HistoryConsumer] = []
    /// Consumers whose tokens expired; they have to start again.
    public var stranded: [HistoryConsumer] = []
    /// The purge reached its time limit before its end.
    public var isUnfinished = false

    package init(
        transactions: Int64 = 0, changes: Int64 = 0, bytes: Int64 = 0, conflicts: Int = 0, oldest: HistoryToken,
        heldBackBy: [HistoryConsumer] = [], stranded: [HistoryConsumer] = [], isUnfinished: Bool = false
    ) {
        self.transactions = transactions
        self.changes = changes
        self.bytes = bytes
        self.conflicts = conflicts
        self.oldest = oldest
        self.heldBackBy = heldBackBy
        self.stranded = stranded
        self.isUnfinished = isUnfinished
    }
}
