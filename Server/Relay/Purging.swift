internal import AnnalsCore
internal import Logging
internal import RelayLog

/// Purges all spaces at intervals, as far as the rules allow.
struct Purging: Sendable {
    let log: RelayLog
    let rules: PurgeRules
    /// The time between two rounds.
    let seconds: Int
    let logger: Logger
    var metrics = RelayMetrics()
    var pause: @Sendable (_ seconds: Int) async throws -> Void = { try await ContinuousClock().sleep(for: .seconds($0)) }

    private static let firstSeconds = 60

    /// Runs until the task is cancelled.
    func run() async throws {
        try await pause(min(seconds, Self.firstSeconds))
        while true {
            await round()
            try await pause(seconds)
        }
    }

    /// A failed purge is tried again in the next round.
    private func round() async {
        let spaces: [SpaceName]
        do {
            spaces = try await log.spaces()
        } catch {
            metrics.noteFailedPurge()
            logger.warning("no log was purged", metadata: ["reason": "\(error)"])
            return
        }
        for space in spaces where !Task.isCancelled {
            do {
                let outcome = try await log.purge(space, rules)
                guard outcome.positions > 0 else { continue }
                metrics.notePurge(bytes: outcome.bytes)
                logger.notice(
                    "the log was purged",
                    metadata: ["space": "\(space)", "horizon": "\(outcome.horizon)", "bytes": "\(outcome.bytes)"])
            } catch is CancellationError {
                return
            } catch {
                metrics.noteFailedPurge()
                logger.warning("the log was not purged", metadata: ["space": "\(space)", "reason": "\(error)"])
            }
        }
    }
}
