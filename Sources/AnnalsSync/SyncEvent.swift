public import AnnalsCore
public import Foundation

/// A report about what an agent does, for a progress bar, a text such as "synced at 12:30", or a message that the relay
/// is unreachable.
///
///     for await event in agent.events {
///         if let error = event.error {
///             status = error.isRetryable ? "offline" : error.description
///         } else if event.isCaughtUp {
///             status = "up to date since \(event.date)"
///         } else if let remaining = event.remaining {
///             status = "\(event.stage): \(remaining) to go"
///         }
///     }
///
/// An operation, such as an import, is reported when it begins, when it makes progress, and when it ends. All its
/// events have the same `id`. Each event contains the whole state of the operation, so a listener that missed earlier
/// events loses nothing.
///
/// An exchange has up to three operations. `setup` happens at an agent's first exchange and whenever rows must be
/// compared with the space's. `export` happens if there is something to send. `import` ends every exchange that
/// receives, even if nothing was received.
public struct SyncEvent: Identifiable, Sendable {
    public enum Stage: String, Sendable, CaseIterable {
        /// Joins the space, or prepares the exchange.
        case setup
        /// Applies the transactions of other replicas.
        case `import`
        /// Sends local transactions.
        case export
    }

    /// The transfer of a snapshot.
    public struct Transfer: Hashable, Sendable {
        /// The stages of a transfer. After a download, a joining store pulls the log after the snapshot.
        public enum Stage: String, Sendable {
            case copying, compressing, uploading, downloading, unpacking, pulling
        }

        public var stage: Stage
        /// The bytes done in this stage.
        public var bytes: Int64
    }

    /// The number of the operation. Later operations have larger numbers.
    public let id: Int
    public let stage: Stage
    /// The start time by the store's clock.
    public let startDate: Date
    /// The time of this event.
    public internal(set) var date: Date
    /// nil while the operation runs.
    public internal(set) var endDate: Date?
    /// The transactions that were sent or applied so far.
    public internal(set) var transactions = 0
    /// The rows that these transactions inserted, updated or deleted.
    public internal(set) var changes = 0
    /// The size of the batches that contained them, in bytes.
    public internal(set) var bytes = 0
    /// How many are left, if known: transactions of the outbox for an export, entries of the log for an import. More
    /// may be added meanwhile.
    public internal(set) var remaining: Int?
    /// The snapshot that is made, sent or downloaded during the operation.
    public internal(set) var transfer: Transfer?
    /// If the relay was restored from a backup: the last position that both logs have. The exchange continued from it.
    public internal(set) var followed: Position?
    /// The error that ended the operation. `isRetryable` says whether a later attempt may succeed.
    public internal(set) var error: AnnalsError?
    /// The time after which the agent retries by itself, as in `run`.
    public internal(set) var retryAfter: Duration?
    /// Whether an import ended with all entries that the relay had.
    public internal(set) var isCaughtUp = false

    public var hasEnded: Bool { endDate != nil }
    public var succeeded: Bool { endDate != nil && error == nil }

    init(id: Int, stage: Stage, startDate: Date) {
        self.id = id
        self.stage = stage
        self.startDate = startDate
        date = startDate
    }
}
