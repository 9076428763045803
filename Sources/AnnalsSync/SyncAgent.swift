public import AnnalsCore
import AnnalsHistory
public import AnnalsReplica
public import AnnalsStore
import AnnalsWire
import Foundation
public import Logging

/// Keeps one joined store in step with its space.
///
///     let address = try SpaceAddress("notes", at: relay, as: "Vera's phone", credential: token)
///     let agent = try SyncAgent(store: store, joining: address, existing: .sameKey)
///     let summary = try await agent.sync()
///     print(summary.pushed.transactions, summary.pulled.transactions)
///
/// `sync` exchanges once; `run` stays in touch until its task is cancelled, `pause` and `resume` have it rest meanwhile, and
/// `events` tells what goes on. A store has one agent at a time; other programs may write the file meanwhile.
///
/// `run` is all that a service needs. In a program that has a `ServiceGroup`:
///
///     struct SyncService: Service {
///         let agent: SyncAgent
///         func run() async throws {
///             try await cancelWhenGracefulShutdown { try await agent.run() }
///         }
///     }
public actor SyncAgent {
    /// What one exchange moved.
    public struct Summary: Sendable {
        public struct Flow: Sendable {
            public var transactions = 0
            public var changes = 0
            public var bytes = 0
        }

        public var space = ""
        public var pushed = Flow()
        public var pulled = Flow()
        /// Conflicts settled here: while laying the outbox on top, and where a program had left children without parents.
        public var conflicts = 0
        /// Conflicts that others settled, in which a value of this replica's own lost.
        public var lost = 0
        /// How often a push was refused because others had written the same things.
        public var refusals = 0
        public var position = Position.zero
        public var head = Position.zero
        public var outbox = 0
        /// Rows that another program wrote unseen while a table's triggers were gone, found by comparing with the log.
        public var reconciled = 0
        /// The relay was restored from a backup: the last position that its log and this store's had in common.
        public var followed: Position?
        /// Transactions of the log that the relay had lost, and that this store sends again.
        public var returned = 0
        /// The position of the snapshot that this replica came back by, since the log after its own was gone.
        public var cameBack: Position?
        /// The position of the snapshot that this replica made for the space.
        public var snapshot: Position?
        /// The file turned out to be a copy of another replica, or a restored backup, and is a replica of its own now.
        public var tookNewIdentity = false
        /// Of the space's schema.
        public var schemaVersion: Int64 = 1
        /// The space's schema has more than this store's: what the log says there is kept until the store has migrated.
        public var isBehindSchema = false
        /// Work stays in the outbox until the store has migrated.
        public var isWaitingForMigration = false
        /// Why the relay does not take what was pushed.
        var refusal: AnnalsError?
        /// The relay asks this replica for a snapshot.
        var isSnapshotDue = false
        /// The position of the snapshot that the relay asks this replica to compare with its rows.
        var snapshotToCheck: Position?
        /// It goes on with a relay that was restored, once.
        var mayFollow = false
        /// Parts that were kept did not go together with what came, and were pulled anew.
        var droppedParts = false
        /// What is left of it in this exchange.
        var patience = ExchangePatience()
    }

    /// What the outside world gives: pauses and randomness, so that tests need neither.
    public struct Environment: Sendable {
        public var pause: @Sendable (Duration) async throws -> Void
        /// A number in 0..<1.
        public var random: @Sendable () -> Double
        /// The time since some moment. It never goes back.
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

        /// Pauses on a clock, which a test may move by hand.
        public static func on(_ clock: some Clock<Duration>) -> Environment {
            Environment(pause: { try await clock.sleep(for: $0) }, random: { Double.random(in: 0..<1) }, clock: clock)
        }
    }

    let store: Store
    let transport: any RelayTransport
    let environment: Environment
    let logger: Logger
    /// Told of snapshots on their way: a stage, and bytes done in it.
    let progress: @Sendable (SyncEvent.Transfer.Stage, Int64) -> Void
    /// The space to join, and what becomes of rows that differ there; nil for a store that is a replica already.
    let home: (address: SpaceAddress, existing: ExistingRows?, schema: JoinedSchema)?
    /// What it does when the relay was restored from a backup.
    let restoredRelay: RestoredRelay
    let board: EventBoard
    let gate = PauseGate()
    /// Closed while a call joins the store.
    let joiningGate = PauseGate()
    /// How often it was paused before `run` went on last.
    var pausesSeen = 0
    /// Where the store stood when this agent was last told. Another agent may have moved it on since.
    private(set) var lastStatus: ExchangeStatus?
    /// The entry that the relay was told of last as one that cannot be applied here.
    var reported: Position?
    /// It has exchanged once, so the next exchange needs no setting up.
    private var isSetUp = false

    /// - Parameters:
    ///   - store: the store.
    ///   - transport: the way to the relay.
    ///   - address: the space to join first, where the store is no replica yet.
    ///   - existing: what becomes of rows that differ from those of a space that exists; without it they are refused.
    ///   - schema: what the store may declare otherwise than a space that exists.
    ///   - restoredRelay: what to do when the relay was restored from a backup.
    ///   - environment: clock and identities, which a test gives.
    ///   - logger: told what is noteworthy.
    ///   - progress: told how far it is.
    public init(
        store: Store, transport: any RelayTransport, joining address: SpaceAddress? = nil, existing: ExistingRows? = nil,
        schema: JoinedSchema = .equal,
        restoredRelay: RestoredRelay = .refuse, environment: Environment = .system, logger: Logger = Logger(label: "annals.sync"),
        progress: @escaping @Sendable (SyncEvent.Transfer.Stage, Int64) -> Void = { _, _ in }
    ) {
        self.store = store
        self.transport = transport
        self.environment = environment
        self.logger = logger
        self.restoredRelay = restoredRelay
        home = address.map { ($0, existing, schema) }
        let board = EventBoard(now: store.configuration.now)
        self.board = board
        self.progress = { stage, bytes in
            progress(stage, bytes)
            board.note(.init(stage: stage, bytes: bytes))
        }
    }

    /// One exchange: pushes what is new here, takes in what is new there, and lays this store's work on top.
    ///
    /// Where the relay was restored from a backup, `restoredRelay` says what to do, in the place of what the agent was made with:
    ///
    ///     do {
    ///         try await agent.sync()
    ///     } catch let error as AnnalsError where error.code == .relayWentBack {
    ///         try await agent.sync(restoredRelay: .follow)
    ///     }
    ///
    /// A relay that refuses to take what is pushed, such as from a token that may only read, still gives what is new there.
    ///
    /// - Throws: `AnnalsError`; what was exchanged until then stays exchanged, and the next call goes on from there.
    @discardableResult
    public func sync(_ direction: SyncDirection = .both, restoredRelay: RestoredRelay? = nil) async throws -> Summary {
        var events = ExchangeEvents(board)
        do {
            return try await sync(direction, restoredRelay ?? self.restoredRelay, &events)
        } catch {
            events.fail(error)
            await report(error)
            throw error
        }
    }

    private func sync(
        _ direction: SyncDirection, _ restoredRelay: RestoredRelay, _ events: inout ExchangeEvents
    ) async throws -> Summary {
        var summary = Summary()
        summary.mayFollow = restoredRelay == .follow && !(transport is LogThrough)
        var exchange = Exchange(direction: direction.exchange)
        var status = try await setUp(&summary, &events)
        summary.space = status.space.description
        summary.conflicts = status.conflicts
        let replica = status.replica
        var step = exchange.next(after: .ready(outbox: status.outbox, isPushUnderWay: status.isPushUnderWay))
        // Rows come into doubt where an entry that they hold was voided.
        let mayDoubt = !(transport is LogThrough)
        while step != .done || (status.areRowsInDoubt && mayDoubt) {
            try Task.checkCancellation()
            try await beginRound(step, status, &summary)
            events.begin(step)
            if status.areRowsInDoubt, mayDoubt {
                status = try await reconcile(status, &summary)
                step = exchange.next(after: .ready(outbox: status.outbox, isPushUnderWay: status.isPushUnderWay))
                continue
            }
            do {
                step = try await perform(step, &exchange, &status, &summary)
            } catch let error as AnnalsError where summary.mayFollow && error.code == .relayWentBack {
                // Once: a relay that is restored again meanwhile is followed by the next exchange.
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
        _ step: Exchange.Step, _ exchange: inout Exchange, _ status: inout ExchangeStatus, _ summary: inout Summary
    ) async throws -> Exchange.Step {
        switch step {
        case .push:
            return try await push(&summary, &exchange, &status)
        case .pull:
            status = try await pull(status, &summary)
            return exchange.next(after: .pulled(isBehind: status.isBehind, outbox: status.outbox))
        case .wait(let milliseconds):
            try await waitForTurn(milliseconds, &summary.patience)
            return .push
        case .done:
            return .done
        }
    }

    /// What comes before the first request: the store is a replica, its outbox is filled, and its rows are the log's.
    private func setUp(_ summary: inout Summary, _ events: inout ExchangeEvents) async throws -> ExchangeStatus {
        if !isSetUp {
            events.begin(.setup)
            try await joinIfNeeded()
        }
        var status = try await store.prepareOutbox()
        guard !status.isSpaceUnfinished else { throw Self.unfinished }
        if status.areRowsInDoubt {
            events.begin(.setup)
            status = try await reconcile(status, &summary)
        }
        events.end(.setup)
        isSetUp = true
        return status
    }

    /// Follows the store's own rule of how much history it keeps. That it cannot now is no reason for a sync to fail.
    private func purgeWhenDue() async {
        do {
            guard let result = try await store.purgeWhenDue(), result.transactions > 0 else { return }
            logger.info("dropped old history", metadata: ["transactions": "\(result.transactions)", "oldest": "\(result.oldest)"])
        } catch {
            logger.debug("old history stays for now", metadata: ["error": "\(error)"])
        }
    }

    private func pull(_ status: ExchangeStatus, _ summary: inout Summary) async throws -> ExchangeStatus {
        do {
            let page = try await request(&summary.patience) { [transport] in
                try await transport.pull(after: status.pulled, seen: status.seen, byteLimit: SyncLimits.pageBytes, wait: nil)
            }
            // What the relay had before it was asked it has no longer: it was restored from an older backup.
            guard page.head >= status.accepted else { throw AnnalsError.relayWentBack(operation: "sync") }
            return try await take(page, &summary)
        } catch let error as AnnalsError where error.code == .expired {
            return try await comeBack(&summary)
        } catch let error as AnnalsError where error.code == .relayWentBack {
            // Without parts that wait behind the position, the relay's answer is about the position itself.
            guard let status = try await store.dropKeptParts() else { throw error }
            return status
        }
    }

    private func push(_ summary: inout Summary, _ exchange: inout Exchange, _ status: inout ExchangeStatus) async throws -> Exchange.Step {
        let frozen: FrozenPush?
        do {
            frozen = try await store.freezePush()
        } catch let error as AnnalsError where error.code == .tooLarge {
            summary.refusal = error
            return exchange.next(after: .refused)
        }
        guard let push = frozen else {
            return exchange.next(after: .pulled(isBehind: status.isBehind, outbox: 0))
        }
        guard let answer = try await settle(push, &summary, &status) else { return exchange.next(after: .refused) }
        if case .stale = answer.outcome { summary.refusals += 1 }
        if answer.isSnapshotDue { summary.isSnapshotDue = true }
        if let position = answer.snapshotToCheck { summary.snapshotToCheck = position }
        if var page = answer.page, !page.frames.isEmpty {
            page.relayTime = answer.receivedAt
            status = try await take(page, &summary)
        }
        if !status.isBehind { exchange.noteCaughtUp() }
        return exchange.next(after: .answered(answer.outcome, isBehind: status.isBehind, outbox: status.outbox))
    }

    /// Sends a push and notes the answer; nil when the relay refused to take it.
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
            let isFollowed = summary.mayFollow && error.annalsError.code == .relayWentBack
            guard error.isDefiniteRefusal, !isFollowed else { throw error.annalsError }
            summary.refusal = error.annalsError
            let settled = try await giveBack(push, isUncertain: isUncertain, error.annalsError, status, &summary.patience)
            status = settled.status
            summary.note(settled, bytes: push.batch.count)
            return nil
        }
    }

    /// Sends a batch, or the parts of a transaction one after another, until an answer settles it or asks to wait.
    ///
    /// Parts whose answers got lost are known to the relay, so it begins with the first again after whatever went wrong. If
    /// the first is in the log all are, and the last one's digest, which covers the others', says whether they are the same.
    /// Where they were dropped, another copy of this file may be pushing: each pauses before it begins anew, so that one of
    /// them gets through.
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
                try await waitForTurn(milliseconds, &patience)
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
        let taken: TakenPage
        do {
            taken = try await applyTryingOlderSnapshots(page, &summary)
        } catch let error as AnnalsError where error.code == .corruptBatch && !summary.droppedParts {
            // Parts that are kept may be of a log that the relay lost. Once; what is damaged then is the log itself.
            guard let status = try await store.dropKeptParts() else { throw error }
            summary.droppedParts = true
            return status
        }
        lastStatus = taken.status
        summary.pulled.transactions += taken.transactions
        summary.pulled.changes += taken.changes
        summary.pulled.bytes += taken.bytes
        summary.conflicts += taken.conflicts
        summary.lost += taken.lost
        if page.isSnapshotDue { summary.isSnapshotDue = true }
        if let position = page.snapshotToCheck { summary.snapshotToCheck = position }
        return taken.status
    }

    /// What was passed over at the relay's word must be explained by its log, which all replicas see.
    func checkVoids(_ status: ExchangeStatus) throws {
        guard let position = status.unexplainedVoids, status.position == status.head, (transport as? LogThrough)?.last == nil else {
            return
        }
        throw Self.leftOut(position)
    }

    static func leftOut(_ position: Position) -> AnnalsError {
        AnnalsError(
            .corruptBatch, operation: "sync",
            "the relay left out the entry at position \(position) as if it had been voided, and its log does not say so",
            hint: "Do not trust what it hands out; ask its operator")
    }

    private static var unfinished: AnnalsError {
        AnnalsError(
            .spaceUnfinished, operation: "sync", "the join that makes the space is not done, or was interrupted",
            hint: "Run annals join again to finish it", isRetryable: true)
    }
}

extension SyncAgent.Summary {
    mutating func note(_ settled: SettledPush, bytes: Int) {
        pushed.transactions += settled.transactions
        pushed.changes += settled.changes
        if settled.transactions > 0 { pushed.bytes += bytes }
    }
}

/// What becomes of a store whose relay was restored from a backup and has less of the log, or another one.
public enum RestoredRelay: Sendable {
    /// Nothing is exchanged, and an error says why.
    case refuse
    /// What the relay lost is sent again from what the store keeps of the log, each transaction once, whichever replica sends it.
    case follow
}

/// Which way an exchange goes.
public enum SyncDirection: Sendable {
    case both, pushOnly, pullOnly

    var exchange: Exchange.Direction {
        switch self {
        case .both: .both
        case .pushOnly: .pushOnly
        case .pullOnly: .pullOnly
        }
    }
}
