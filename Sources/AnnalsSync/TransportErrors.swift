public import AnnalsCore
import AnnalsHTTP
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging

extension TransportError {
    /// Whether the same request may be answered a little later.
    var isWorthRetrying: Bool {
        switch self {
        case .unreachable, .unanswered: true
        case .problem(let problem, _): [429, 502, 503, 504].contains(problem.status)
        case .untrusted, .notARelay, .badAnswer, .localFile, .cancelled: false
        }
    }

    /// How many times a request with this error is sent in total. A request without an answer has waited long already,
    /// so it has fewer attempts.
    var tries: Int {
        if case .unanswered = self { SyncLimits.triesWithoutAnswer } else { SyncLimits.triesPerRequest }
    }

    /// Whether the relay itself says that it did not accept the request and will not.
    var isDefiniteRefusal: Bool {
        guard case .problem(let problem, _) = self else { return false }
        return problem.status == 507 || ((400..<500).contains(problem.status) && ![408, 429].contains(problem.status))
    }

    /// The relay's code of a problem.
    var code: Problem.Code? {
        if case .problem(let problem, _) = self { problem.knownCode } else { nil }
    }

    var retryAfter: Duration? {
        if case .problem(_, let duration) = self { duration } else { nil }
    }

    /// The error that a call of the public API throws: `CancellationError` if the task was cancelled, otherwise an `AnnalsError`.
    var thrown: any Error {
        if case .cancelled = self { CancellationError() } else { annalsError }
    }

    /// The error for the library's public API.
    public var annalsError: AnnalsError {
        switch self {
        case .unreachable(let reason, _):
            AnnalsError(
                .relayUnreachable, operation: "sync", "the relay cannot be reached: \(reason)",
                hint: "Check the address, and that the relay is running",
                isRetryable: true)
        case .unanswered(let reason):
            AnnalsError(
                .relayUnreachable, operation: "sync", "the relay does not answer: \(reason)",
                hint: "The relay may be stopped or overloaded. Try again later",
                isRetryable: true)
        case .untrusted(let reason, let problem):
            AnnalsError(.relayUnreachable, operation: "connect", reason, hint: problem.hint, commandHint: problem.commandHint)
        case .notARelay(let reason):
            AnnalsError(
                .notARelay, operation: "sync", "the address does not belong to an Annals relay: \(reason)", hint: "Check the address")
        case .badAnswer(let error):
            AnnalsError(.corruptBatch, operation: "sync", "the relay's answer is corrupt: \(error)", hint: "Nothing was applied")
        case .localFile(let reason, isDiskFull: true):
            AnnalsError(
                .diskFull, operation: "sync", "the disk is full: \(reason)", hint: "Free disk space and try again. Nothing was changed")
        case .localFile(let reason, isDiskFull: false):
            AnnalsError(.cannotCreate, operation: "sync", reason, hint: "Check the folder and its permissions")
        case .cancelled:
            AnnalsError(.cancelled, operation: "sync", "stopped")
        case .problem(let problem, let retryAfter):
            Self.translate(problem, retryAfter).named(problem.requestID)
        }
    }

    /// The relay's messages are sentences. Here they become a part of one.
    private static func lowercasingFirst(_ text: String) -> String {
        guard let first = text.first, text.dropFirst().first?.isUppercase != true else { return text }
        return first.lowercased() + text.dropFirst()
    }

    private static func translate(_ problem: Problem, _ retryAfter: Duration?) -> AnnalsError {
        var text = lowercasingFirst(problem.detail ?? problem.title)
        var hint = problem.hint
        if let retryAfter, retryAfter > SyncLimits.patience {
            text += "; the relay asks to wait \(retryAfter.components.seconds) seconds, which is longer than one sync waits"
            hint = "Local work is kept. Run sync again after that time"
        }
        func make(_ code: AnnalsError.Code, retry: Bool = false) -> AnnalsError {
            AnnalsError(code, operation: "sync", text, hint: hint, isRetryable: retry, retryAfter: retry ? retryAfter : nil)
        }
        switch problem.status {
        // For the operation "sync" the command line replaces the hint by one about tokens. The relay's hint is right here.
        case 403 where problem.knownCode == .replicaOwnedElsewhere:
            return AnnalsError(
                .notPermitted, operation: "push", text, hint: problem.hint,
                commandHint: problem.hint.map { "\($0). --credential-file gives a token" })
        case 403 where problem.knownCode == .quarantined: return make(.quarantined)
        case 401, 403: return make(.notPermitted)
        case 429, 500...: return make(.relayOverloaded, retry: true)
        default: break
        }
        switch problem.knownCode {
        case .spaceNotFound: return make(.spaceNotFound)
        case .spaceExists: return make(.spaceExists)
        case .snapshotSuperseded: return make(.busy, retry: true)
        case .logRolledBack: return .relayRolledBack(operation: "sync")
        case .expired: return make(.expired)
        case .corruptBatch: return make(.corruptBatch)
        default: return make(.notARelay)
        }
    }
}

extension AnnalsError {
    /// The same error, with the id of the request.
    fileprivate func named(_ requestID: String?) -> AnnalsError {
        var error = self
        error.requestID = requestID
        return error
    }

    /// The id of the request, for a line of an agent's log.
    var logMetadata: Logger.Metadata? { requestID.map { ["request": "\($0)"] } }
}
