import AnnalsCore
package import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging

extension SyncAgent {
    /// The events that wake a waiting agent.
    private enum Notice: Sendable {
        case committed
        /// `isHasty`: the answer came at once although there was nothing new.
        case answered(Page, isHasty: Bool)
        case unanswered(TransportError)
    }

    /// Syncs continuously until the task is cancelled, and then returns. It exchanges at once, and then whenever a
    /// process commits something to this file or the relay has new entries.
    ///
    /// If the relay is unreachable, the agent tries again after growing pauses.
    ///
    ///     try await withThrowingDiscardingTaskGroup { group in
    ///         group.addTask { try await agent.run() }
    ///         try await edit(store)
    ///         group.cancelAll()
    ///     }
    ///
    /// - Parameter report: gets the summary of the first exchange, and of each later one with changes.
    /// - Throws: `AnnalsError` for errors that do not end by themselves, for example if rows differ from the log or the
    ///   store was closed.
    public func run(report: @escaping @Sendable (Summary) async -> Void = { _ in }) async throws {
        let commits: any CommitNotices = store.path == ":memory:" ? HistoryCommits(store.database) : try CommitWatcher(path: store.path)
        try await run(commits: commits, report: report)
    }

    /// The same with another source of commit notices. If nil, only the relay wakes the agent.
    package func run(commits: (any CommitNotices)?, report: @escaping @Sendable (Summary) async -> Void = { _ in }) async throws {
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                defer { group.cancelAll() }
                let recorded = commits.map { RecordedCommits($0, store) }
                if let recorded { group.addTask { try await recorded.run() } }
                group.addTask { try await self.stayInTouch(recorded, report) }
                try await group.next()
            }
        } catch is CancellationError {
            return
        } catch {
            await noteProblem(error)
            throw error
        }
    }

    /// The agent was paused. It waits until it is resumed.
    private struct Paused: Error {}

    private func stayInTouch(_ commits: RecordedCommits?, _ report: @escaping @Sendable (Summary) async -> Void) async throws {
        var contact = Reachability()
        var isFirst = true
        while true {
            pausesSeen = try await gate.waitUntilResumed()
            do {
                let summary = try await persisting(&contact) { try await self.sync() }
                if isFirst || summary.movedSomething { await report(summary) }
                isFirst = false
                try await stayInTouch(&contact, commits, report)
            } catch is Paused {}
        }
    }

    private func stayInTouch(
        _ contact: inout Reachability, _ commits: RecordedCommits?, _ report: @escaping @Sendable (Summary) async -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Notice.self) { group in
            defer { group.cancelAll() }
            group.addTask { [gate, pausesSeen] in
                try await gate.waitForPause(after: pausesSeen)
                throw Paused()
            }
            if let commits { group.addTask { try await Self.committed(commits) } }
            var isAsking = false
            var pauses = Backoff()
            var pause: Duration?
            while true {
                if !isAsking, let state = try await store.replicaState() {
                    group.addTask { [transport, environment, pause] in try await Self.ask(transport, state, environment, after: pause) }
                    isAsking = true
                }
                let next: Notice?
                if let commits {
                    next = try await commits.awaiting { try await group.next() }
                } else {
                    next = try await group.next()
                }
                guard let notice = next else { return }
                // A commit after the pause can be noticed before the pause is.
                if gate.isPaused { throw Paused() }
                switch notice {
                case .committed:
                    if let commits { group.addTask { try await Self.committed(commits) } }
                    try await send(&contact, report)
                case .answered(let page, let isHasty):
                    isAsking = false
                    pause = isHasty ? pauses.next(random: environment.random) : nil
                    if !isHasty { pauses.reset() }
                    noteContact(contact.answered())
                    try await receive(page, &contact, report)
                case .unanswered(let error):
                    isAsking = false
                    pause = pauses.next(random: environment.random)
                    // Nothing is sent to a relay before the time that it named.
                    if let named = error.retryAfter { try await rest(named) }
                    try await recover(from: error, &contact, report)
                }
            }
        }
    }

    // MARK: What wakes the agent

    private static func committed(_ commits: RecordedCommits) async throws -> Notice {
        try await commits.next()
        return .committed
    }

    /// Pulls after the replica's position and lets the relay delay its answer until there are new entries.
    ///
    /// The request continues while local transactions are pushed, so that its connection is not given up. This
    /// replica's own entries in its answer are then before the position and are dropped. `pause` comes first if the
    /// last request got no answer or a hasty one. So a proxy that does not let requests wait is not asked without end.
    private static func ask(
        _ transport: any RelayTransport, _ state: ReplicaState, _ environment: Environment, after pause: Duration?
    ) async throws -> Notice {
        if let pause { try await environment.pause(pause) }
        let start = ContinuousClock.now
        do {
            let page = try await transport.pull(
                after: state.position, seen: state.seen, byteLimit: SyncLimits.pageBytes, wait: SyncLimits.longPoll)
            return .answered(page, isHasty: page.frames.isEmpty && ContinuousClock.now - start < SyncLimits.shortestWait)
        } catch {
            return .unanswered(error)
        }
    }

    // MARK: What the agent does then

    /// Something was committed here. Often this agent itself did it, and then there is nothing to send.
    private func send(_ contact: inout Reachability, _ report: (Summary) async -> Void) async throws {
        let summary = try await persisting(&contact) { () async throws -> Summary? in
            let prepared = try await self.store.prepareOutbox(freezing: SyncLimits.outboxFrozenAtOnce)
            let status = prepared.status
            guard status.outbox > 0 || status.isPushUnderWay || status.areRowsUnverified else { return nil }
            return try await self.sync(.both, self.restoredRelay, prepared)
        }
        if let summary, summary.movedSomething { await report(summary) }
    }

    private func receive(_ page: Page, _ contact: inout Reachability, _ report: (Summary) async -> Void) async throws {
        guard !page.frames.isEmpty, let position = lastStatus?.position, page.head > position else { return }
        let summary = try await persisting(&contact) { () async throws -> Summary in
            var summary = Summary()
            guard page.after == position else { return try await self.sync() }
            var events = ExchangeEvents(self.board)
            events.begin(.import)
            let status: ExchangeStatus
            do {
                status = try await self.take(page, &summary)
                events.note(summary, status)
                events.end(.import, isCaughtUp: !status.isBehind)
            } catch let error as AnnalsError where error.isRetryable || isFollowed(error) {
                // A push has no answer yet, another program holds the lock, or the relay was restored. A whole exchange
                // resolves each case.
                events.end(.import)
                return try await self.sync()
            } catch {
                events.fail(error)
                throw error
            }
            let isAsked = summary.isSnapshotDue || summary.snapshotToCheck != nil
            let isMore = status.isBehind || status.outbox > 0 || status.areRowsUnverified || isAsked
            guard isMore || status.unexplainedVoids != nil else { return summary.at(status) }
            return try await self.sync().adding(summary)
        }
        if summary.movedSomething { await report(summary) }
    }

    private func isFollowed(_ error: AnnalsError) -> Bool {
        error.code == .relayRolledBack && restoredRelay == .follow
    }

    private func recover(from error: TransportError, _ contact: inout Reachability, _ report: (Summary) async -> Void) async throws {
        if case .cancelled = error { throw CancellationError() }
        let known = error.annalsError
        // A replica whose log was purged resyncs from a snapshot.
        guard contact.passes(known) || known.code == .expired || isFollowed(known) else { throw known }
        // A waiting request can break for harmless reasons, for example because a proxy ends it. The relay counts as
        // unreachable only if an exchange fails.
        let summary = try await persisting(&contact) { try await self.sync() }
        if summary.movedSomething { await report(summary) }
    }

    /// Tries with growing pauses until it works. Throws only errors that do not end by themselves.
    private func persisting<T: Sendable>(_ contact: inout Reachability, _ work: () async throws -> T) async throws -> T {
        var backoff = Backoff()
        while true {
            do {
                let result = try await work()
                noteContact(contact.answered())
                return result
            } catch let error as AnnalsError where contact.passes(error) {
                noteContact(contact.failed(), error)
                let pause = max(error.retryAfter ?? .zero, backoff.next(random: environment.random))
                board.noteRetry(after: pause)
                try await rest(pause)
            }
        }
    }

    /// Pauses before another attempt, unless the agent is paused.
    private func rest(_ pause: Duration) async throws {
        try await withThrowingTaskGroup(of: Void.self) { [gate, environment, pausesSeen] group in
            defer { group.cancelAll() }
            group.addTask { try await environment.pause(pause) }
            group.addTask {
                try await gate.waitForPause(after: pausesSeen)
                throw Paused()
            }
            try await group.next()
        }
    }

    /// Logs one line for each change of the state.
    private func noteContact(_ change: Reachability.Change?, _ error: AnnalsError? = nil) {
        switch change {
        case .made: logger.notice("connected to the relay")
        case .madeAgain: logger.notice("reconnected to the relay")
        case .lost: logger.warning("\(error?.message ?? "the relay cannot be reached"); retrying", metadata: error?.logMetadata)
        case nil: break
        }
    }
}

extension SyncAgent.Summary {
    /// Whether the exchange sent, received or changed anything.
    public var movedSomething: Bool {
        pushed.transactions > 0 || pulled.transactions > 0 || conflicts > 0 || replacedDecisions > 0 || cameBack != nil || followed != nil
            || snapshot != nil
    }

    mutating func add(_ journal: JournalGrowth) {
        conflicts += journal.conflicts
        renumbered += journal.renumbered
        lost += journal.lost
        replacedDecisions += journal.replaced
        firstConflict = firstConflict ?? journal.first
    }

    fileprivate func at(_ status: ExchangeStatus) -> Self {
        var copy = self
        copy.space = status.space.description
        copy.position = status.position
        copy.head = status.head
        copy.outbox = status.outbox
        return copy
    }

    /// Adds the numbers of an earlier part of the same exchange.
    fileprivate func adding(_ earlier: Self) -> Self {
        var copy = self
        copy.pulled.transactions += earlier.pulled.transactions
        copy.pulled.changes += earlier.pulled.changes
        copy.pulled.bytes += earlier.pulled.bytes
        copy.pulled.delays += earlier.pulled.delays
        copy.conflicts += earlier.conflicts
        copy.renumbered += earlier.renumbered
        copy.lost += earlier.lost
        copy.replacedDecisions += earlier.replacedDecisions
        copy.firstConflict = earlier.firstConflict ?? copy.firstConflict
        copy.reconciled += earlier.reconciled
        copy.cameBack = copy.cameBack ?? earlier.cameBack
        copy.followed = copy.followed ?? earlier.followed
        copy.returned += earlier.returned
        copy.snapshot = copy.snapshot ?? earlier.snapshot
        return copy
    }
}
