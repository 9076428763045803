/// The one error type at the library's edge.
///
/// `message` says what happened and `hint` what to do; neither ever holds a user's data beyond names of tables,
/// columns and files, and the key of a row that the caller wants changed.
///
///     do {
///         try await agent.sync()
///     } catch let error as AnnalsError where error.isRetryable {
///         print("later: \(error)")
///     }
public struct AnnalsError: Error, Sendable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        /// Not a SQLite file, or an encrypted or damaged one.
        case notADatabase
        case fileNotFound
        case cannotCreate
        case readOnly
        case diskFull
        /// Another program holds the lock.
        case busy
        /// A newer Annals made this store, batch or entry.
        case newerFormat
        case notTracked
        /// A table that cannot be tracked, or a schema that cannot be applied here.
        case schemaRefused
        case constraint
        /// A row that was to be read or changed is not there.
        case rowNotFound
        /// Others changed or deleted rows since they were read; nothing was saved.
        case conflict
        /// A record's own code refused to be saved.
        case validation
        case tokenExpired
        case tokenUnknown
        /// History has no reader of that name.
        case consumerUnknown
        case corruptBatch
        /// What a space's key is needed for, without that key: none is given, or another.
        case missingKey
        /// A row whose change is larger than a batch can be.
        case tooLarge
        /// Rows are not what the log says: detected, never overwritten.
        case diverged
        case badFootprint
        case notJoined
        case alreadyJoined
        case rowsDiffer
        case spaceNotFound
        case spaceExists
        /// A space whose first rows are still on their way, or whose maker was interrupted.
        case spaceUnfinished
        /// The relay's log is shorter or another than the one seen before.
        case relayWentBack
        /// The relay shows different logs to different replicas, or leaves entries out.
        case relayInconsistent
        /// The log after this replica's position is gone.
        case expired
        case waitingForMigration
        case relayUnreachable
        case relayOverloaded
        case notARelay
        case notPermitted
        /// The relay's operator lets this replica's owner read the space and not write to it. Local work goes on.
        case quarantined
        case configuration
        case usage
        case cancelled
        case defect
    }

    public var code: Code
    /// What was being done, in a word or two: "sync", "track".
    public var operation: String
    public var message: String
    public var hint: String?
    /// Whether the same call may succeed later, with nothing changed by the caller.
    public var isRetryable: Bool
    /// How long to wait before that, where a relay has said so. `SyncAgent.run` keeps to it by itself.
    public var retryAfter: Duration?
    /// The entry of the space's log that cannot be applied, where the error is about one.
    public var entry: RefusedEntry?
    public var underlying: (any Error)?

    public init(
        _ code: Code, operation: String = "", _ message: String, hint: String? = nil, isRetryable: Bool = false,
        retryAfter: Duration? = nil, entry: RefusedEntry? = nil, underlying: (any Error)? = nil
    ) {
        self.code = code
        self.operation = operation
        self.message = message
        self.hint = hint
        self.isRetryable = isRetryable
        self.retryAfter = retryAfter
        self.entry = entry
        self.underlying = underlying
    }

    public var description: String {
        hint.map { "\(message). \($0)" } ?? message
    }
}
