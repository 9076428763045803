import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging

/// How an agent retries, waits and stops if the relay sends no useful answer.
extension SyncAgent {
    /// Starts a round after a pause if necessary. Throws if the relay's answers have made no progress for too long.
    func beginRound(_ step: Exchange.Step, _ status: ExchangeStatus, _ summary: inout Summary) async throws {
        guard summary.refusals <= SyncLimits.refusalsPerSync else { throw Self.partial(status.outbox) }
        summary.patience.note(logThrough: max(status.position, status.pulled))
        if case .wait = step { return }
        try await pauseForRound(&summary.patience) { Self.standstill(step, status) }
    }

    /// Pauses before a round if the rounds before made no progress. Throws if there were too many.
    func pauseForRound(_ patience: inout ExchangePatience, otherwise error: () -> AnnalsError) async throws {
        guard let pause = patience.nextRound(random: environment.random) else { throw error() }
        if pause > .zero { try await environment.pause(pause) }
    }

    /// Pauses for the time that the relay asked for, because another replica has the push lease.
    func waitForLease(_ milliseconds: Int, _ patience: inout ExchangePatience) async throws {
        guard let pause = patience.pauseForLease(milliseconds) else { throw Self.noLease }
        try await environment.pause(pause)
    }

    /// Sends one request until it is answered, with pauses between attempts. Throws after some attempts, or when the
    /// patience of the exchange is used up.
    nonisolated func request<Answer: Sendable>(
        _ patience: inout ExchangePatience, _ send: @Sendable () async throws -> Answer
    ) async throws -> Answer {
        var isUncertain = false
        do {
            return try await attempt(&isUncertain, &patience, send)
        } catch let error as TransportError {
            throw error.thrown
        }
    }

    /// The same for a request outside of an exchange.
    nonisolated func request<Answer: Sendable>(_ send: @Sendable () async throws -> Answer) async throws -> Answer {
        var patience = ExchangePatience()
        return try await request(&patience, send)
    }

    /// The same, but throws `TransportError`. Sets `isUncertain` to true if an attempt got no answer, because the relay
    /// may have carried it out.
    nonisolated func attempt<Answer: Sendable>(
        _ isUncertain: inout Bool, _ patience: inout ExchangePatience, _ send: @Sendable () async throws -> Answer
    ) async throws -> Answer {
        var backoff = Backoff()
        var tries = 0
        while true {
            let start = environment.elapsed()
            do {
                let answer = try await send()
                patience.note(request: environment.elapsed() - start)
                return answer
            } catch let error as TransportError {
                patience.note(request: environment.elapsed() - start)
                tries += 1
                guard error.isWorthRetrying, tries < error.tries else { throw error }
                isUncertain = true
                let pause = max(error.retryAfter ?? .zero, backoff.next(random: environment.random))
                guard patience.allows(pause) else { throw error }
                logger.debug("no answer from the relay; retrying", metadata: ["pause": "\(pause)", "try": "\(tries)"])
                try await environment.pause(pause)
            }
        }
    }

    // MARK: Errors

    static var partsDropped: AnnalsError {
        AnnalsError(
            .relayOverloaded, operation: "sync", "the relay dropped the parts of a large transaction before all had arrived",
            hint: "A copy of this file may be syncing as the same replica. Run sync again", isRetryable: true)
    }

    private static func partial(_ outbox: Int) -> AnnalsError {
        AnnalsError(
            .relayOverloaded, operation: "sync", "other replicas keep writing the same rows; \(Self.waits(outbox))",
            hint: "Run sync again", isRetryable: true)
    }

    private static var noLease: AnnalsError {
        AnnalsError(
            .relayOverloaded, operation: "sync", "other replicas have the push lease, and this replica must wait",
            hint: "Local work is kept. Run sync again. If the error persists, ask the relay's operator", isRetryable: true)
    }

    /// The error for too many rounds without progress.
    static func standstill(_ step: Exchange.Step, _ status: ExchangeStatus) -> AnnalsError {
        if status.areRowsUnverified {
            return AnnalsError(
                .busy, operation: "sync", "the rows cannot be compared with the space's because other programs keep writing to the file",
                hint: "Run sync again", isRetryable: true)
        }
        if step == .pull {
            return AnnalsError(
                .notARelay, operation: "sync",
                "the relay's log has entries up to position \(status.head), but the relay sends none after position \(status.pulled)",
                hint: "Local work is kept. Run sync again. If the error persists, ask the relay's operator", isRetryable: true)
        }
        return refusal(of: status.outbox)
    }

    static func refusal(of outbox: Int) -> AnnalsError {
        AnnalsError(
            .relayOverloaded, operation: "sync", "the relay refuses the push without a reason; \(waits(outbox))",
            hint: "Run sync again. If the error persists, ask the relay's operator", isRetryable: true)
    }

    static func waits(_ outbox: Int) -> String {
        outbox == 1 ? "1 local transaction waits" : "\(outbox) local transactions wait"
    }
}
