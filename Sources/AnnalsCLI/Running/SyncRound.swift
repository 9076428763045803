import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync

/// Syncs several stores, so that stores of one space have each other's changes.
enum SyncRound {
    struct Member: Sendable {
        var path: String
        var store: Store
        var agent: SyncAgent
    }

    struct Outcome: Sendable {
        var path: String
        var result: Result<SyncAgent.Summary, AnnalsError>
    }

    /// Syncs each store once, and again if a later store of the same space sent something. If a store fails, the others are still
    /// synced.
    ///
    /// - Parameter begin: called before each exchange.
    /// - Throws: `CancellationError`.
    static func run(_ members: [Member], _ direction: SyncDirection, begin: () -> Void = {}) async throws -> [Outcome] {
        var outcomes: [Outcome] = []
        var heads: [Lineage: Position] = [:]
        for member in members {
            begin()
            let outcome = Outcome(path: member.path, result: try await exchange(member, direction))
            if case .success(let summary) = outcome.result, let state = try await member.store.replicaState() {
                heads[state.lineage] = max(heads[state.lineage] ?? .zero, summary.head)
            }
            outcomes.append(outcome)
        }
        guard direction != .pushOnly else { return outcomes }
        for (index, member) in members.enumerated() {
            guard case .success(let first) = outcomes[index].result, let state = try await member.store.replicaState(),
                let head = heads[state.lineage], first.position < head
            else { continue }
            begin()
            let second = try await exchange(member, direction)
            outcomes[index].result = second.map { $0.following(first) }
        }
        return outcomes
    }

    /// The exit status of a round; nil if every store succeeded. An error that does not pass by itself comes first. If only some
    /// stores failed with temporary errors, the status says to try again.
    static func status(_ outcomes: [Outcome]) -> ExitStatus? {
        let failures = outcomes.compactMap { outcome -> AnnalsError? in
            if case .failure(let error) = outcome.result { error } else { nil }
        }
        if let lasting = failures.first(where: { !$0.isRetryable }) { return ExitStatus(lasting.code) }
        guard let first = failures.first else { return nil }
        return failures.count < outcomes.count ? .tryAgain : ExitStatus(first.code)
    }

    private static func exchange(_ member: Member, _ direction: SyncDirection) async throws -> Result<SyncAgent.Summary, AnnalsError> {
        do {
            return .success(try await member.agent.sync(direction))
        } catch let error as AnnalsError {
            return .failure(naming(member.path, error))
        }
    }

    /// Adds the store's path to an error.
    static func naming(_ path: String, _ error: AnnalsError) -> AnnalsError {
        var named = error
        if !named.message.contains(path) { named.message = "\(path): \(named.message)" }
        return named
    }
}

extension SyncAgent.Summary {
    /// Adds the numbers of the first exchange to those of the second. The state is that of the second.
    fileprivate func following(_ first: Self) -> Self {
        var sum = self
        sum.pushed = Self.add(pushed, first.pushed)
        sum.pulled = Self.add(pulled, first.pulled)
        sum.conflicts += first.conflicts
        sum.renumbered += first.renumbered
        sum.lost += first.lost
        sum.replacedDecisions += first.replacedDecisions
        sum.firstConflict = first.firstConflict ?? firstConflict
        sum.refusals += first.refusals
        sum.reconciled += first.reconciled
        sum.cameBack = cameBack ?? first.cameBack
        sum.followed = followed ?? first.followed
        sum.returned += first.returned
        sum.snapshot = snapshot ?? first.snapshot
        sum.tookNewIdentity = tookNewIdentity || first.tookNewIdentity
        return sum
    }

    private static func add(_ one: Flow, _ other: Flow) -> Flow {
        var sum = one
        sum.transactions += other.transactions
        sum.changes += other.changes
        sum.bytes += other.bytes
        return sum
    }
}
