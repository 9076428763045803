import AnnalsCore
package import AnnalsHistory
import AnnalsReplica
package import AnnalsStore
import AnnalsWire
import Logging

extension SyncAgent {
    /// What wakes a waiting agent.
    private enum Notice: Sendable {
        case committed
        /// `isHasty`: at once, though there was nothing to tell.
        case answered(Page, isHasty: Bool)
        case unanswered(TransportError)
    }

    /// Stays in touch until the task is cancelled, and then returns: exchanges at once, then whenever something is committed here
    /// by any process, or the relay has something new.
    ///
    /// While the relay is away it tries again after growing pauses, and comes back by itself.
    ///
    ///     try await withThrowingDiscardingTaskGroup { group in
    ///         group.addTask { try await agent.run() }
    ///         try await edit(store)
    ///         group.cancelAll()
    ///     }
    ///
    /// - Parameter report: told of the first exchange, and then of each that moved something.
    /// - Throws: `AnnalsError` for what does not pass by itself, such as rows that are not what the log says, or a store that was
    ///   closed.
    public func run(report: @escaping @Sendable (Summary) -> Void = { _ in }) async throws {
        let commits: any CommitNotices = store.path == ":memory:" ? HistoryCommits(store.database) : try CommitWatcher(path: store.path)
        try await run(commits: commits, report: report)
    }

    /// The same with another source of notices; nil: only the relay wakes it.
    package func run(commits: (any CommitNotices)?, report: @escaping @Sendable (Summary) -> Void = { _ in }) async throws {
        do {
            try await stayInTouch(commits, report)
        } catch is CancellationError {
            return
        } catch let error as AnnalsError where error.code == .cancelled {
            return
        }
    }

    /// It was paused, and keeps still until it is resumed.
    private struct Paused: Error {}

    private func stayInTouch(_ commits: (any CommitNotices)?, _ report: @escaping @Sendable (Summary) -> Void) async throws {
        var contact = Contact()
        var isFirst = true
        while true {
            pausesSeen = try await gate.waitUntilResumed()
            do {
                let summary = try await persisting(&contact) { try await self.sync() }
                if isFirst || summary.movedSomething { report(summary) }
                isFirst = false
                try await stayInTouch(&contact, commits, report)
            } catch is Paused {}
        }
    }

    private func stayInTouch(
        _ contact: inout Contact, _ commits: (any CommitNotices)?, _ report: @escaping @Sendable (Summary) -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Notice.self) { group in
            defer { group.cancelAll() }
            group.addTask { [gate, pausesSeen] in
                try await gate.waitForPause(after: pausesSeen)
                throw Paused()
            }
            if let commits { group.addTask { [store] in try await Self.committed(commits, store) } }
            var isAsking = false
            var pauses = Backoff()
            var pause: Duration?
            while true {
                if !isAsking, let state = try await store.replicaState() {
                    group.addTask { [transport, environment, pause] in try await Self.ask(transport, state, environment, after: pause) }
                    isAsking = true
                }
                guard let notice = try await group.next() else { return }
                switch notice {
                case .committed:
                    if let commits { group.addTask { [store] in try await Self.committed(commits, store) } }
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
                    // Nothing at all is asked of a relay before the time that it names.
                    if let named = error.retryAfter { try await rest(named) }
                    try await recover(from: error, &contact, report)
                }
            }
        }
    }

    // MARK: What wakes it

    private static func committed(_ commits: any CommitNotices, _ store: Store) async throws -> Notice {
        try await store.next(of: commits)
        return .committed
    }

    /// Asks for what comes after the replica's position and lets the relay hold back the answer until there is something.
    ///
    /// It goes on while local work is pushed, so that no connection is given up for that; what it brings of this
    /// replica's own is then behind its position and dropped. `pause` comes first where the last answer was none or
    /// was hasty, so that something between that does not let requests wait is not asked without end.
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

    // MARK: What it then does

    /// Something was committed here. Often that was this agent itself, and then there is nothing to send.
    private func send(_ contact: inout Contact, _ report: (Summary) -> Void) async throws {
        let summary = try await persisting(&contact) { () async throws -> Summary? in
            let status = try await self.store.prepareOutbox()
            guard status.outbox > 0 || status.isPushUnderWay || status.areRowsInDoubt else { return nil }
            var summary = try await self.sync()
            summary.conflicts += status.conflicts
            return summary
        }
        if let summary, summary.movedSomething { report(summary) }
    }

    private func receive(_ page: Page, _ contact: inout Contact, _ report: (Summary) -> Void) async throws {
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
                // A push has no answer yet, another program holds the lock, or the relay was restored: the whole exchange settles that.
                events.end(.import)
                return try await self.sync()
            } catch {
                events.fail(error)
                throw error
            }
            let isAsked = summary.isSnapshotDue || summary.snapshotToCheck != nil
            let isMore = status.isBehind || status.outbox > 0 || status.areRowsInDoubt || isAsked
            guard isMore || status.unexplainedVoids != nil else { return summary.at(status) }
            return try await self.sync().adding(summary)
        }
        if summary.movedSomething { report(summary) }
    }

    private func isFollowed(_ error: AnnalsError) -> Bool {
        error.code == .relayWentBack && restoredRelay == .follow
    }

    private func recover(from error: TransportError, _ contact: inout Contact, _ report: (Summary) -> Void) async throws {
        if case .cancelled = error { throw CancellationError() }
        let known = error.annalsError
        // One that was away for too long comes back by a snapshot.
        guard contact.passes(known) || known.code == .expired || isFollowed(known) else { throw known }
        // A waiting request that broke says little, as when a proxy ends it: only a failing exchange is being away.
        let summary = try await persisting(&contact) { try await self.sync() }
        if summary.movedSomething { report(summary) }
    }

    /// Tries until it works, with growing pauses; only what does not pass by itself is thrown.
    private func persisting<T: Sendable>(_ contact: inout Contact, _ work: () async throws -> T) async throws -> T {
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

    /// Pauses before another try, unless the agent is told to keep still.
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

    /// One line for each change of state.
    private func noteContact(_ change: Contact.Change?, _ error: AnnalsError? = nil) {
        switch change {
        case .made: logger.notice("in touch with the relay")
        case .madeAgain: logger.notice("in touch with the relay again")
        case .lost: logger.warning("\(error?.message ?? "out of touch"); trying again until it works")
        case nil: break
        }
    }
}

extension SyncAgent.Summary {
    /// Whether anything came or went.
    public var movedSomething: Bool {
        pushed.transactions > 0 || pulled.transactions > 0 || conflicts + lost > 0 || cameBack != nil || followed != nil || snapshot != nil
    }

    fileprivate func at(_ status: ExchangeStatus) -> Self {
        var copy = self
        copy.space = status.space.description
        copy.position = status.position
        copy.head = status.head
        copy.outbox = status.outbox
        return copy
    }

    /// With what an earlier part of the same exchange moved.
    fileprivate func adding(_ earlier: Self) -> Self {
        var copy = self
        copy.pulled.transactions += earlier.pulled.transactions
        copy.pulled.changes += earlier.pulled.changes
        copy.pulled.bytes += earlier.pulled.bytes
        copy.conflicts += earlier.conflicts
        copy.reconciled += earlier.reconciled
        copy.lost += earlier.lost
        copy.cameBack = copy.cameBack ?? earlier.cameBack
        copy.followed = copy.followed ?? earlier.followed
        copy.returned += earlier.returned
        copy.snapshot = copy.snapshot ?? earlier.snapshot
        return copy
    }
}
