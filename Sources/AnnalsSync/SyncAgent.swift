public import AnnalsCore
import AnnalsHistory
public import AnnalsReplica
public import AnnalsStore
import AnnalsWire
import Foundation
public import Logging

/// Syncs one joined store with its space.
///
///     let address = try SpaceAddress("notes", at: relay, as: "Vera's phone", credential: token)
///     let agent = try SyncAgent(store: store, joining: address, existing: .sameKey)
///     let summary = try await agent.sync()
///     print(summary.pushed.transactions, summary.pulled.transactions)
///
/// `sync` exchanges once. `run` syncs continuously until its task is cancelled. `pause` and `resume` pause it, and
/// `events` reports its progress. A store has one agent at a time. Other programs may write to the file meanwhile.
///
/// A service only needs `run`. In a program with a `ServiceGroup`:
///
///     struct SyncService: Service {
///         let agent: SyncAgent
///         func run() async throws {
///             try await cancelWhenGracefulShutdown { try await agent.run() }
///         }
///     }
public actor SyncAgent {
    /// What one exchange sent, received and changed.
    public struct Summary: Sendable {
        public struct Flow: Sendable {
            public var transactions = 0
            public var changes = 0
            public var bytes = 0
            /// For `pushed`: from the time of each transaction until the relay's answer was stored. For `pulled`: from the time that
            /// another replica gave each transaction until it was applied here, by the clocks of both machines.
            public var delays = Delays()
        }

        public var space = ""
        public var pushed = Flow()
        public var pulled = Flow()
        /// The conflicts of the pushed and pulled transactions, which are in the conflict journal now. All replicas have the
        /// same ones, because they travel with the transactions.
        public var conflicts = 0
        /// Rows of these transactions that got another integer key, because two replicas had used the same one. They are no conflicts,
        /// because both rows exist.
        public var renumbered = 0
        /// The conflicts in which a value of this replica lost.
        public var lost = 0
        /// Decisions about conflicts that a decision of another replica replaced: in the journal, or before they reached the space.
        public var replacedDecisions = 0
        /// The id of the first conflict in the conflict journal.
        public var firstConflict: Int64?
        /// How often a push was refused because other replicas had written the same data.
        public var refusals = 0
        public var position = Position.zero
        public var head = Position.zero
        public var outbox = 0
        /// Rows that another program wrote while a table had no triggers. The comparison with the log found them.
        public var reconciled = 0
        /// If the relay was restored from a backup: the last position that its log and this store's log had in common.
        public var followed: Position?
        /// How many transactions the relay had lost that this store sends again.
        public var returned = 0
        /// The position of the snapshot from which this replica was resynced, because the log after its own position
        /// was gone.
        public var cameBack: Position?
        /// The position of the snapshot that this replica made for the space.
        public var snapshot: Position?
        /// The file was a copy of another replica or a restored backup, and has a new replica id now.
        public var tookNewIdentity = false
        /// The version of the space's schema.
        public var schemaVersion: Int64 = 1
        /// The space's schema has tables or columns that this store lacks. Their values are kept until the store has
        /// migrated.
        public var isBehindSchema = false
        /// Transactions stay in the outbox until the store has migrated.
        public var isWaitingForMigration = false
        /// Why the relay refused the push.
        var refusal: AnnalsError?
        /// Whether the relay asks this replica for a snapshot.
        var isSnapshotDue = false
        /// The position of the snapshot that the relay asks this replica to compare with its rows.
        var snapshotToCheck: Position?
        /// Whether the exchange may still follow a restored relay. It does so at most once.
        var mayFollow = false
        /// Buffered parts did not match the received entries, and were pulled again.
        var droppedParts = false
        /// The patience that is left in this exchange.
        var patience = ExchangePatience()
    }

    /// The external dependencies of an agent: pauses and randomness. Tests replace them.
    public struct Environment: Sendable {
        public var pause: @Sendable (Duration) async throws -> Void
        /// A number in 0..<1.
        public var random: @Sendable () -> Double
        /// The time since a fixed moment. It never goes back.
        package var elapsed: @Sendable () -> Duration

        public init(pause: @escaping @Sendable (Duration) async throws -> Void, random: @escaping @Sendable () -> Double) {
            self.init(pause: pause, random: random, clock: ContinuousClock())
        }

        private init(
            pause: @escaping @Sendable (Duration) async throws -> Void, random: @escaping @Sendable () -> Double,
            clock: some Clock<Duration>
        ) {
            self.pause = pause
            self.random = random
            let start = clock.now
            elapsed = { start.duration(to: clock.now) }
        }

        public static let system = on(ContinuousClock())

        /// Pauses on a clock. A test may use a manual clock.
        public static func on(_ clock: some Clock<Duration>) -> Environment {
            Environment(pause: { try await clock.sleep(for: $0) }, random: { Double.random(in: 0..<1) }, clock: clock)
        }
    }

    /// The status of a store, and its first push if it is frozen already.
    typealias PreparedOutbox = (status: ExchangeStatus, push: FrozenPush?)

    let store: Store
    let transport: any RelayTransport
    let environment: Environment
    let logger: Logger
    /// Gets the progress of snapshots: a stage, and the number of bytes done in it.
    let progress: @Sendable (SyncEvent.Transfer.Stage, Int64) -> Void
    /// The space to join, and how to merge different rows. nil for a store that is a replica already.
    let home: (address: SpaceAddress, existing: ExistingRows?, schema: JoinedSchema, references: SuggestedReferences?)?
    /// What to do if the relay was restored from a backup.
    let restoredRelay: RestoredRelay
    let board: EventBoard
    let gate = PauseGate()
    /// Closed while a call joins the store.
    let joiningGate = PauseGate()
    /// The number of pauses when `run` resumed last.
    var pausesSeen = 0
    /// The status of the store that this agent got last. Another agent may have changed the store since.
    private(set) var lastStatus: ExchangeStatus?
    /// The last entry that this agent reported to the relay as not applicable here.
    var reported: Position?
    /// Whether the store may have a note of a problem that the next successful exchange must remove.
    var mayHaveProblem = true
    /// Whether the agent has set up the store, so that the next exchange need not.
    private var isSetUp = false

    /// - Parameters:
    ///   - store: the store.
    ///   - transport: the transport to the relay.
    ///   - address: the space to join first, if the store is not a replica yet.
    ///   - existing: how to merge rows that differ from those of an existing space. If nil, different rows are refused.
    ///   - schema: which differences from the schema of an existing space are allowed.
    ///   - references: if the space is new, what happens to columns that look like references, about which
    ///     `Store.setReferences(_:author:)` has not decided. If nil, the join is refused.
    ///   - restoredRelay: what to do if the relay was restored from a backup.
    ///   - environment: pauses and randomness. A test passes its own.
    ///   - logger: gets important events.
    ///   - progress: gets the progress.
    public init(
        store: Store, transport: any RelayTransport, joining address: SpaceAddress? = nil, existing: ExistingRows? = nil,
        schema: JoinedSchema = .equal, references: SuggestedReferences? = nil,
        restoredRelay: RestoredRelay = .refuse, environment: Environment = .system, logger: Logger = Logger(label: "annals.sync"),
        progress: @escaping @Sendable (SyncEvent.Transfer.Stage, Int64) -> Void = { _, _ in }
    ) {
        self.store = store
        self.transport = transport
        self.environment = environment
        self.logger = logger
        self.restoredRelay = restoredRelay
        home = address.map { ($0, existing, schema, references) }
        let board = EventBoard(now: store.configuration.now)
        self.board = board
        self.progress = { stage, bytes in
            progress(stage, bytes)
            board.note(.init(stage: stage, bytes: bytes))
        }
    }

    /// One exchange: pushes local transactions, applies remote entries, and rebases the outbox on them.
    ///
    /// If the relay was restored from a backup, `restoredRelay` decides what to do, instead of the value that the agent
    /// was created with:
    ///
    ///     do {
    ///         try await agent.sync()
    ///     } catch let error as AnnalsError where error.code == .relayRolledBack {
    ///         try await agent.sync(restoredRelay: .follow)
    ///     }
    ///
    /// If the relay refuses the push, for example because of a token that may only read, remote entries are still
    /// applied.
    ///
    /// When it returns without an error, and `direction` is not `pushOnly`, the store has every transaction that the
    /// relay had accepted before the call. `confirm` says what became of an own transaction.
    ///
    /// - Throws: `AnnalsError`. Everything exchanged before the error is kept, and the next call continues from there.
    @discardableResult
    public func sync(_ direction: SyncDirection = .both, restoredRelay: RestoredRelay? = nil) async throws -> Summary {
        try await sync(direction, restoredRelay ?? self.restoredRelay, nil)
    }

    /// - Parameter prepared: the outbox, if this agent has just prepared it.
    func sync(_ direction: SyncDirection, _ restoredRelay: RestoredRelay, _ prepared: PreparedOutbox?) async throws -> Summary {
        var events = ExchangeEvents(board)
        do {
            let summary = try await sync(direction, restoredRelay, prepared, &events)
            if direction != .pullOnly || summary.outbox == 0 { await noteSuccess() }
            return summary
        } catch {
            events.fail(error)
            await noteProblem(error)
            await report(error)
            throw error
        }
    }

    private func sync(
        _ direction: SyncDirection, _ restoredRelay: RestoredRelay, _ prepared: PreparedOutbox?, _ events: inout ExchangeEvents
    ) async throws -> Summary {
        var summary = Summary()
        summary.mayFollow = restoredRelay == .follow && !(transport is BoundedLog)
        var exchange = Exchange(direction: direction.exchange)
        var (status, frozen) = try await setUp(direction, prepared, &summary, &events)
        summary.space = status.space.description
        let replica = status.replica
        var step = exchange.next(after: .ready(outbox: status.outbox, isPushUnderWay: status.isPushUnderWay))
        // Rows become unverified if an entry that they contain was voided.
        let mayDoubt = !(transport is BoundedLog)
        while step != .done || (status.areRowsUnverified && mayDoubt) {
            try Task.checkCancellation()
            try await beginRound(step, status, &summary)
            events.begin(step)
            if status.areRowsUnverified, mayDoubt {
                status = try await reconcile(status, &summary)
                step = exchange.next(after: .ready(outbox: status.outbox, isPushUnderWay: status.isPushUnderWay))
                continue
            }
            do {
                step = try await perform(step, &exchange, &status, &frozen, &summary)
            } catch let error as AnnalsError where summary.mayFollow && error.code == .relayRolledBack {
                // Only once. A relay that is restored again meanwhile is followed in the next exchange.
                summary.mayFollow = false
                events.begin(.setup)
                status = try await follow(error, &summary)
                events.follow(from: summary.followed)
                step = exchange.next(after: .ready(outbox: status.outbox, isPushUnderWay: status.isPushUnderWay))
            }
            lastStatus = status
            events.note(summary, status)
        }
        lastStatus = status
        try checkVoids(status)
        summary.position = status.position
        summary.head = status.head
        summary.outbox = status.outbox
        summary.schemaVersion = status.schemaVersion
        summary.isBehindSchema = status.isBehindSchema
        summary.isWaitingForMigration = status.isWaitingForMigration
        summary.tookNewIdentity = status.replica != replica
        if direction != .pushOnly { events.begin(.import) }
        events.end(.import, isCaughtUp: !status.isBehind)
        if summary.isSnapshotDue, direction == .both, !status.isBehind {
            events.begin(.export)
            try await bringSnapshot(&summary)
        }
        if let position = summary.snapshotToCheck, direction == .both, !status.isBehind { try await checkSnapshot(at: position) }
        await purgeWhenDue()
        if let refusal = summary.refusal, direction != .pullOnly, status.outbox > 0 {
            throw Self.waiting(status.outbox, direction, refusal)
        }
        events.end(.export)
        return summary
    }

    private func perform(
        _ step: Exchange.Step, _ exchange: inout Exchange, _ status: inout ExchangeStatus, _ frozen: inout FrozenPush?,
        _ summary: inout Summary
    ) async throws -> Exchange.Step {
        switch step {
        case .push:
            defer { frozen = nil }
            return try await push(frozen, &summary, &exchange, &status)
        case .pull:
            status = try await pull(status, &summary)
            return exchange.next(after: .pulled(isBehind: status.isBehind, outbox: status.outbox))
        case .wait(let milliseconds):
            try await waitForLease(milliseconds, &summary.patience)
            return .push
        case .done:
            return .done
        }
    }

    /// Prepares the store before the first request: it must be a replica, its outbox filled, and its rows verified.
    ///
    /// - Returns: the status, and the first push if it is frozen already.
    private func setUp(
        _ direction: SyncDirection, _ prepared: PreparedOutbox?, _ summary: inout Summary, _ events: inout ExchangeEvents
    ) async throws -> PreparedOutbox {
        if !isSetUp {
            events.begin(.setup)
            try await joinIfNeeded()
        }
        let limit = direction == .pullOnly ? 0 : SyncLimits.outboxFrozenAtOnce
        var (status, push) = if let prepared, isSetUp { prepared } else { try await store.prepareOutbox(freezing: limit) }
        guard !status.isSpaceUnfinished else { throw Self.unfinished }
        if status.areRowsUnverified {
            events.begin(.setup)
            status = try await reconcile(status, &summary)
        }
        events.end(.setup)
        isSetUp = true
        return (status, push)
    }

    /// Applies the store's own retention rule for its history. A failure must not fail the sync.
    private func purgeWhenDue() async {
        do {
            guard let result = try await store.purgeWhenDue(), result.transactions > 0 else { return }
            logger.info("dropped old history", metadata: ["transactions": "\(result.transactions)", "oldest": "\(result.oldest)"])
        } catch {
            logger.debug("cannot drop old history", metadata: ["error": "\(error)"])
        }
    }

    private func pull(_ status: ExchangeStatus, _ summary: inout Summary) async throws -> ExchangeStatus {
        do {
            let page = try await request(&summary.patience) { [transport] in
                try await transport.pull(after: status.pulled, seen: status.seen, byteLimit: SyncLimits.pageBytes, wait: nil)
            }
            // The relay has less than it had accepted before, so it was restored from an older backup.
            guard try await has(status.accepted, page, &summary) else { throw AnnalsError.relayRolledBack(operation: "sync") }
            return try await take(page, &summary)
        } catch let error as AnnalsError where error.code == .expired {
            return try await rejoin(&summary)
        } catch let error as AnnalsError where error.code == .relayRolledBack {
            // Without buffered parts after the position, the relay's answer is about the position itself.
            guard let status = try await store.discardReceivedParts() else { throw error }
            return status
        }
    }

    /// Whether the relay's log reaches a position. A page that is not the last one may come from a cache, and then its head is old.
    private func has(_ position: Position, _ page: Page, _ summary: inout Summary) async throws -> Bool {
        if page.head >= position { return true }
        guard !page.isLast else { return false }
        return try await request(&summary.patience) { [transport] in try await transport.describe() }.head >= position
    }

    /// - Parameter frozen: the push, if it is frozen already.
    private func push(
        _ frozen: FrozenPush?, _ summary: inout Summary, _ exchange: inout Exchange, _ status: inout ExchangeStatus
    ) async throws -> Exchange.Step {
        var frozen = frozen
        do {
            if frozen == nil { frozen = try await store.freezePush() }
        } catch let error as AnnalsError where error.code == .tooLarge {
            summary.refusal = error
            return exchange.next(after: .refused)
        }
        guard let push = frozen else {
            return exchange.next(after: .nothingToSend(isBehind: status.isBehind))
        }
        guard let answer = try await settle(push, &summary, &status) else { return exchange.next(after: .refused) }
        if case .stale = answer.outcome { summary.refusals += 1 }
        if answer.isSnapshotDue { summary.isSnapshotDue = true }
        if let position = answer.snapshotToCheck { summary.snapshotToCheck = position }
        if var page = answer.page, !page.frames.isEmpty {
            page.relayTime = answer.receivedAt
            status = try await take(page, &summary)
        }
        // Another call may have got an earlier answer to this push.
        if !status.isBehind, status.head >= answer.head { exchange.noteCaughtUp() }
        return exchange.next(after: .answered(answer.outcome, isBehind: status.isBehind, outbox: status.outbox))
    }

    /// Sends a push and stores the answer. nil if the relay refused it.
    func settle(_ push: FrozenPush, _ summary: inout Summary, _ status: inout ExchangeStatus) async throws -> PushAnswer? {
        var isUncertain = !push.isNew
        do {
            let (answer, answered, bytes) = try await send(push, &isUncertain, &summary.patience)
            let settled = try await store.settle(answer, to: answered)
            if settled.transactions > 0 { summary.patience.renew() }
            status = settled.status
            lastStatus = status
            summary.note(settled, bytes: bytes)
            return answer
        } catch let error as TransportError {
            let isFollowed = summary.mayFollow && error.annalsError.code == .relayRolledBack
            guard error.isDefiniteRefusal, !isFollowed else { throw error.thrown }
            summary.refusal = error.annalsError
            let settled = try await giveBack(push, isUncertain: isUncertain, error.annalsError, status, &summary.patience)
            status = settled.status
            summary.note(settled, bytes: push.batch.count)
            return nil
        }
    }

    /// Sends a batch, or the parts of a transaction one after another, until an answer is definite or asks to wait.
    ///
    /// After any error it starts again with the first part. The relay recognises parts that it has already, even if
    /// their answers were lost. If the first part is in the log, all parts are. The digest of the last part covers the
    /// others, so it shows whether they are the same. If the relay dropped the parts, another copy of this file may be
    /// pushing. Then each copy pauses before it starts again, so that one of them succeeds.
    private func send(
        _ first: FrozenPush, _ isUncertain: inout Bool, _ patience: inout ExchangePatience
    ) async throws -> (answer: PushAnswer, to: FrozenPush, bytes: Int) {
        var push = first
        var beginnings = 1
        var backoff = Backoff()
        var bytes = 0
        while true {
            let answer = try await attempt(&isUncertain, &patience) { [transport, push] in
                try await transport.push(push.batch, seen: push.seen)
            }
            bytes += push.batch.count
            let isLast = push.part == push.parts - 1
            let number: Int
            switch answer.outcome {
            case .accepted where !isLast:
                patience.note(partTaken: push.name.firstCounter)
                number = answer.positions.isEmpty ? push.part + 1 : push.parts - 1
            case .wait(let milliseconds) where push.part > 0:
                try await waitForLease(milliseconds, &patience)
                number = push.part
            case .partsMissing:
                beginnings += 1
                let pause = backoff.next(random: environment.random)
                guard beginnings <= SyncLimits.triesPerRequest, patience.allows(pause) else { throw Self.partsDropped }
                try await environment.pause(pause)
                number = 0
            default: return (answer, push, bytes)
            }
            guard let next = try await store.part(number, of: push) else { return (answer, push, bytes) }
            push = next
        }
    }

    func take(_ page: Page, _ summary: inout Summary) async throws -> ExchangeStatus {
        let taken: AppliedPage
        do {
            taken = try await applyThroughCorrections(page, &summary)
        } catch let error as AnnalsError where error.code == .corruptBatch && !summary.droppedParts {
            // Buffered parts may belong to a log that the relay lost. They are dropped once. If the error persists, the
            // log itself is corrupt.
            guard let status = try await store.discardReceivedParts() else { throw error }
            summary.droppedParts = true
            return status
        }
        lastStatus = taken.status
        summary.pulled.transactions += taken.transactions
        summary.pulled.changes += taken.changes
        summary.pulled.bytes += taken.bytes
        summary.pulled.delays += taken.delays
        summary.add(taken.journal)
        if page.isSnapshotDue { summary.isSnapshotDue = true }
        if let position = page.snapshotToCheck { summary.snapshotToCheck = position }
        return taken.status
    }

    /// An entry that was passed over as voided must be explained by a later entry in the log, which all replicas see.
    func checkVoids(_ status: ExchangeStatus) throws {
        guard let position = status.unexplainedVoids, status.position == status.head, (transport as? BoundedLog)?.last == nil else {
            return
        }
        throw Self.leftOut(position)
    }

    static func leftOut(_ position: Position) -> AnnalsError {
        AnnalsError(
            .corruptBatch, operation: "sync",
            "the relay left out the entry at position \(position) as voided, but no entry of its log voids it",
            hint: "Do not trust the relay's data. Ask its operator")
    }

    private static var unfinished: AnnalsError {
        AnnalsError(
            .spaceUnfinished, operation: "sync", "the join that creates the space is not complete, or was interrupted",
            hint: "Sync with an agent that has the space's address (joining:), which finishes it",
            commandHint: "Run annals join again to finish it", isRetryable: true)
    }
}

extension SyncAgent.Summary {
    mutating func note(_ settled: SettledPush, bytes: Int) {
        pushed.transactions += settled.transactions
        pushed.changes += settled.changes
        if settled.transactions > 0 { pushed.bytes += bytes }
        pushed.delays += settled.delays
        add(settled.journal)
    }
}
