/// How much history a store keeps. What a live consumer has not read, or the agent has not pushed, stays in any case.
///
///     try await store.setRetention(.days(90))
///     try await store.purge(.untilConsumed.keepingAtLeast(.seconds(7 * 86_400)))
///
/// Each restriction added leaves more of history.
public struct HistoryRetention: Hashable, Codable, Sendable {
    /// Only transactions older than this go; nil: as far as others allow.
    public private(set) var minimumAge: Duration?
    /// Only as much goes as brings history's share of the file down to this, between 0 and 1.
    public private(set) var fraction: Double?
    /// Nothing goes.
    public private(set) var keepsAll = false

    private init() {}

    /// Whatever every consumer has read goes.
    public static let untilConsumed = HistoryRetention()

    /// History is kept for ever: the rule of a store that is not joined, unless it has another.
    public static let all: HistoryRetention = {
        var retention = HistoryRetention()
        retention.keepsAll = true
        return retention
    }()

    /// What is older than so many days goes. The rule of a joined store, unless it has another, is 30.
    public static func days(_ count: Int) -> HistoryRetention {
        untilConsumed.keepingAtLeast(.seconds(count * 86_400))
    }

    /// Only transactions older than this go.
    public func keepingAtLeast(_ age: Duration) -> Self {
        var copy = self
        copy.minimumAge = max(minimumAge ?? .zero, age)
        return copy
    }

    /// Something goes only when history takes more than this share of the file, between 0 and 1, and no more than brings it
    /// down to that. The share is estimated from samples of the raw changes.
    public func whenHistoryFraction(ofStoreExceeds fraction: Double) -> Self {
        precondition((0...1).contains(fraction), "a share is between 0 and 1")
        var copy = self
        copy.fraction = fraction
        return copy
    }
}

/// Whether a purge may pass what a consumer has not read yet.
public enum PurgeMode: Hashable, Sendable {
    /// It stops at the slowest live consumer and at work that was not pushed yet.
    case respectingConsumers
    /// Tokens that it passes expire; who holds one is told so and starts over. Work that was not pushed yet is kept in the
    /// outbox and still pushed.
    case force
}

/// What a purge dropped, or would drop.
public struct PurgeResult: Hashable, Sendable {
    public var transactions: Int64 = 0
    /// Raw changes: a row that a transaction changed twice has two.
    public var changes: Int64 = 0
    /// Of the file, freed for use by rows and history; estimated in a dry run.
    public var bytes: Int64 = 0
    /// Lines of the conflict journal.
    public var conflicts = 0
    /// The earliest point that history reaches afterwards.
    public var oldest: HistoryToken
    /// Consumers because of which less went than was asked for.
    public var heldBackBy: [HistoryConsumer] = []
    /// Consumers whose tokens were passed: they have to start over.
    public var stranded: [HistoryConsumer] = []
    /// Something remains to be dropped, since the purge was to take only so long.
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
