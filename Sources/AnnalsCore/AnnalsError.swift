/// The error type of the library's public API.
///
/// `message` says what happened and `hint` says what to do, with names of this library. They contain no user data except
/// names of tables, columns and files, and the key of a row that the caller asked to change.
///
///     do {
///         try await agent.sync()
///     } catch let error as AnnalsError where error.isRetryable {
///         print("later: \(error)")
///     }
public struct AnnalsError: Error, Sendable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        /// The file is not a SQLite file, or it is encrypted or corrupt.
        case notADatabase
        case fileNotFound
        case cannotCreate
        case readOnly
        case diskFull
        /// Another program holds the lock.
        case busy
        /// A newer version of Annals wrote this store, batch or entry.
        case newerFormat
        case notTracked
        /// A table cannot be tracked, or a schema cannot be applied here.
        case schemaRefused
        case constraint
        /// A row that the caller wants to read or change does not exist.
        case rowNotFound
        /// Other writers changed or deleted rows after they were read. Nothing was saved.
        case conflict
        /// The record's own code refused the save.
        case validation
        case tokenExpired
        case tokenUnknown
        /// History has no consumer with this name.
        case consumerUnknown
        case corruptBatch
        /// The operation needs the space's key, but no key or another key was given.
        case missingKey
        /// The change of one row is larger than the largest batch.
        case tooLarge
        /// The rows differ from the log. Annals reports this and overwrites nothing.
        case diverged
        case badFootprint
        case notJoined
        case alreadyJoined
        case rowsDiffer
        case spaceNotFound
        case spaceExists
        /// The first rows of the space are not complete yet. Their upload is under way or was interrupted.
        case spaceUnfinished
        /// The relay's log is shorter than the log that this replica saw before, or different from it.
        case relayRolledBack
        /// The relay shows different logs to different replicas, or leaves entries out.
        case relayInconsistent
        /// The relay no longer has the log after this replica's position.
        case expired
        case waitingForMigration
        case relayUnreachable
        case relayOverloaded
        case notARelay
        case notPermitted
        /// The relay's operator allows this replica's owner to read the space but not to write to it. Local writes
        /// continue.
        case quarantined
        case configuration
        case usage
        /// Only in the error of a `SyncEvent`: a call whose task is cancelled throws `CancellationError`.
        case cancelled
        case defect
    }

    public var code: Code
    /// The operation, in one or two words: "sync", "track".
    public var operation: String
    public var message: String
    public var hint: String?
    /// The hint for a user of the command line, if it must say something else than `hint`.
    package var commandHint: String?
    /// Whether the same call may succeed later without any change by the caller.
    public var isRetryable: Bool
    /// How long to wait before a retry, if the relay sent a time. `SyncAgent.run` waits for this time itself.
    public var retryAfter: Duration?
    /// The entry of the space's log that cannot be applied, if the error is about an entry.
    public var entry: RefusedEntry?
    /// The id that the relay's log has for the request, if a relay refused it or failed. Its operator can look it up.
    public var requestID: String?
    public var underlying: (any Error)?
    /// More about the error than the underlying one says.
    package var detail: (any Error)?

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

    /// An error that the command line explains with its own commands and options.
    package init(
        _ code: Code, operation: String = "", _ message: String, hint: String?, commandHint: String?, isRetryable: Bool = false,
        retryAfter: Duration? = nil, entry: RefusedEntry? = nil, underlying: (any Error)? = nil
    ) {
        self.init(
            code, operation: operation, message, hint: hint, isRetryable: isRetryable, retryAfter: retryAfter, entry: entry,
            underlying: underlying)
        self.commandHint = commandHint
    }

    public var description: String {
        [message, hint, requestNote].compactMap(\.self).joined(separator: ". ")
    }

    /// A sentence about the request in the relay's log.
    package var requestNote: String? {
        requestID.map { "At the level info, the relay's log has it as request \($0)" }
    }

    /// Adds a sentence to both hints.
    package mutating func add(hint sentence: String, commandHint command: String) {
        commandHint = (commandHint ?? hint).map { "\($0). \(command)" } ?? command
        hint = hint.map { "\($0). \(sentence)" } ?? sentence
    }
}
