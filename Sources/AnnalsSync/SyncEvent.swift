public import AnnalsCore
public import Foundation

/// What an agent does, told while it does it: for a progress bar, a "synced at 12:30", or a message that the relay is away.
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
/// An operation, such as taking in what others wrote, is told when it begins, whenever it has got on, and when it ends. All its
/// events have the same `id`, and each says the whole of it so far, so that one who missed the others knows as much.
///
/// An exchange makes up to three operations: `setup`, at an agent's first exchange and whenever rows must be compared with the space's; `export`, if
/// there is something to send; `import`, which ends every exchange that takes in, even one that brought nothing.
public struct SyncEvent: Identifiable, Sendable {
    public enum Stage: String, Sendable, CaseIterable {
        /// Joining the space, or finding out what there is to do.
        case setup
        /// Taking in what others wrote.
        case `import`
        /// Sending what was written here.
        case export
    }

    /// A snapshot on its way.
    public struct Transfer: Hashable, Sendable {
        /// What is done with it. A store that joins then pulls the log after it.
        public enum Stage: String, Sendable {
            case copying, compressing, uploading, downloading, unpacking, pulling
        }

        public var stage: Stage
        /// Done in this stage.
        public var bytes: Int64
    }

    /// The operation's number, which grows from one to the next.
    public let id: Int
    public let stage: Stage
    /// By the store's clock.
    public let startDate: Date
    /// When it was told.
    public internal(set) var date: Date
    /// nil while it goes on.
    public internal(set) var endDate: Date?
    /// Sent or taken in so far.
    public internal(set) var transactions = 0
    /// Rows inserted, updated or deleted by them.
    public internal(set) var changes = 0
    /// Of the batches they came in.
    public internal(set) var bytes = 0
    /// How many are left, where it is known: transactions of the outbox for an export, entries of the log for an import. More may
    /// come meanwhile.
    public internal(set) var remaining: Int?
    /// A snapshot that is made, sent or fetched in the course of it.
    public internal(set) var transfer: Transfer?
    /// The relay was restored from a backup, and the exchange went on from this position, the last one that both logs have.
    public internal(set) var followed: Position?
    /// Why it ended without success. `isRetryable` says whether the same may work later.
    public internal(set) var error: AnnalsError?
    /// After how long the agent tries again by itself, as `run` does.
    public internal(set) var retryAfter: Duration?
    /// An import that ended with all that the relay had.
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
