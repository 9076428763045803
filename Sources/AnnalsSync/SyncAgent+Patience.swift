import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging

/// What an agent does while the relay gives no answer that helps: it tries again, waits and gives up.
extension SyncAgent {
    /// Refuses to go on with a relay whose answers bring nothing, after some pauses.
    func beginRound(_ step: Exchange.Step, _ status: ExchangeStatus, _ summary: inout Summary) async throws {
        guard summary.refusals <= SyncLimits.refusalsPerSync else { throw Self.partial(status.outbox) }
        summary.patience.note(logThrough: max(status.position, status.pulled))
        if case .wait = step { return }
        try await pauseForRound(&summary.patience) { Self.standstill(step, status) }
    }

    /// Pauses before a round of which the ones before moved nothing, or throws.
    func pauseForRound(_ patience: inout ExchangePatience, otherwise error: () -> AnnalsError) async throws {
        guard let pause = patience.nextRound(random: environment.random) else { throw error() }
        if pause > .zero { try await environment.pause(pause) }
    }

    /// Pauses for as long as the relay says, while another replica has the turn.
    func waitForTurn(_ milliseconds: Int, _ patience: inout ExchangePatience) async throws {
        guard let pause = patience.turn(in: milliseconds) else { throw Self.noTurn }
        try await environment.pause(pause)
    }

    /// Sends one request until it is answered, with pauses between tries; gives up for now after some, or when patience is over.
    nonisolated func request<Answer: Sendable>(
        _ patience: inout ExchangePatience, _ send: @Sendable () async throws -> Answer
    ) async throws -> Answer {
        var isUncertain = false
        do {
            return try await attempt(&isUncertain, &patience, send)
        } catch let error as TransportError {
            throw error.annalsError
        }
    }

    /// The same for a request that is no part of an exchange.
    nonisolated func request<Answer: Sendable>(_ send: @Sendable () async throws -> Answer) async throws -> Answer {
        var patience = ExchangePatience()
        return try await request(&patience, send)
    }

    /// The same for a request that is; throws `TransportError`. `isUncertain` becomes true where a try got no answer, so that the
    /// relay may have done what it asked.
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
                logger.debug("no answer from the relay, trying again", metadata: ["pause": "\(pause)", "try": "\(tries)"])
                try await environment.pause(pause)
            }
        }
    }

    // MARK: Why it gave up

    static var partsDropped: AnnalsError {
        AnnalsError(
            .relayOverloaded, operation: "sync", "the relay does not keep the parts of a large transaction until all have come",
            hint: "Another program may be pushing as the same replica; run sync again", isRetryable: true)
    }

    private static func partial(_ outbox: Int) -> AnnalsError {
        AnnalsError(
            .relayOverloaded, operation: "sync", "others write the same rows all the while; \(Self.waits(outbox))",
            hint: "Run sync again", isRetryable: true)
    }

    private static var noTurn: AnnalsError {
        AnnalsError(
            .relayOverloaded, operation: "sync", "the relay gives other replicas the turn to write, and this one has to wait",
            hint: "Local work is kept. Run sync again; if this stays, ask the relay's operator", isRetryable: true)
    }

    /// Why round after round moved nothing.
    static func standstill(_ step: Exchange.Step, _ status: ExchangeStatus) -> AnnalsError {
        if status.areRowsInDoubt {
            return AnnalsError(
                .busy, operation: "sync", "other programs write all the time, so that the rows cannot be compared with the space's",
                hint: "Run sync again", isRetryable: true)
        }
        if step == .pull {
            return AnnalsError(
                .notARelay, operation: "sync",
                "the relay says that its log goes on to position \(status.head), and hands out nothing after position \(status.pulled)",
                hint: "Local work is kept. Run sync again; if this stays, ask the relay's operator", isRetryable: true)
        }
        return refusal(of: status.outbox)
    }

    static func refusal(of outbox: Int) -> AnnalsError {
        AnnalsError(
            .relayOverloaded, operation: "sync", "the relay does not take what is pushed, and does not say why; \(waits(outbox))",
            hint: "Run sync again; if this stays, ask the relay's operator", isRetryable: true)
    }

    static func waits(_ outbox: Int) -> String {
        outbox == 1 ? "1 local transaction waits" : "\(outbox) local transactions wait"
    }
}
