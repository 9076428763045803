import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import RelayLog

/// Replicas, their relay, the network between them and the time, all in one task. The next event is always the earliest scheduled
/// one.
///
/// First the plan's steps run with faults. Then the faults end, and all replicas must settle in a few rounds.
final class SimulatedSpace {
    enum Event {
        case step(Step)
        /// A request arrives at the relay; `isCopy`: a repetition of the first.
        case arrival(replica: Int, step: Int, request: Int, Session.Request, RequestOutcome, isCopy: Bool)
        /// An answer arrives, or a pause ends.
        case reply(replica: Int, step: Int, request: Int, Session.Reply)
        case restart(replica: Int)
        case relayStarts
    }

    static let mostReplicas = 6

    let plan: Plan
    let time = VirtualTime()
    let machine: RelayMachine
    /// The relay's process is dead.
    var relayIsDown = false
    /// It was dead at some time, so exchanges may have failed because of it.
    var relayWasDown = false
    /// The milliseconds until it is started again after its next death.
    var relayIsDownFor: Int64 = 0
    /// The log after its horizon, as it arrived.
    var frames: [LogFrame] = []
    private(set) var lineage = Lineage(high: 0, low: 0)
    let relayClock: WallClock
    let space: SpaceName
    /// nil if the space is not encrypted.
    let spaceKeys: SpaceKeyRing?
    let folder: SimulationFolder
    var replicas: [Replica] = []
    var oracle: Oracle
    var ledger = Ledger()
    /// The log begins after this position.
    var horizon: Int64 = 0
    /// A store deleted old entries of its conflict journal, so its snapshots do not have them either.
    var areJournalsPurged = false
    var queue = Queue<Event>()
    var trace: Trace
    /// A backup of the relay's data, with the log at that time.
    var backup: (folder: String, log: Oracle, frames: [LogFrame])?
    /// The head of the log after the relay was restored; nil if it was not restored.
    var restoredHead: Int64?
    /// The relay's log before it was restored.
    var wholeLog: Oracle?
    /// The plan's network, until the faults end.
    var network: NetworkPlan

    /// Runs a plan to its end, or to the first violated law.
    static func run(_ plan: Plan, keepsLines: Bool = false) async -> (trace: Trace, violation: Violation?) {
        var world: SimulatedSpace?
        do {
            let folder = try SimulationFolder()
            let made = try await SimulatedSpace(plan, folder, keepsLines: keepsLines)
            world = made
            for step in plan.steps { made.queue.add(.step(step), at: step.at) }
            try await made.runQueue()
            try await made.settle()
            try await FinalChecks(world: made, folder: folder).run()
            await made.end()
            return (made.trace, nil)
        } catch {
            await world?.end()
            return (world?.trace ?? Trace(keepsLines: false), error as? Violation ?? Violation("simulator", "\(error)"))
        }
    }

    // MARK: The start

    private init(_ plan: Plan, _ folder: SimulationFolder, keepsLines: Bool) async throws {
        self.plan = plan
        network = plan.network
        trace = Trace(keepsLines: keepsLines)
        let time = time
        let relayClock = WallClock(time)
        self.relayClock = relayClock
        let lineages = Identities(Dice(seed: plan.seed, 5))
        guard let space = SpaceName("world") else { throw Violation("simulator", "no name for the space") }
        self.space = space
        self.folder = folder
        // The relay's timers run with its next request.
        let clock = RelayClock(
            wall: { relayClock.milliseconds }, monotonic: { time.now }, sleep: { _ in throw CancellationError() })
        machine = try RelayMachine(
            folder, space: space, clock: clock, limits: plan.snapshots?.limits ?? RelayLogLimits(), lineages: lineages)
        let firstClock = WallClock(time, offset: plan.replicas[0].clockOffset, drift: plan.replicas[0].clockDrift)
        let database = try Self.firstDatabase(plan, firstClock, folder)
        spaceKeys = plan.isSealed ? Self.spaceKeys(plan.seed) : nil
        oracle = try Oracle(schema: plan.schema, rows: try Self.rows(database, plan.schema), cipher: spaceKeys?.cipher(for: space))
        try await addFirst(database, firstClock)
        lineage = try await relay.describe().lineage
        try await absorbLog()
        try await addReplicas()
    }

    private static func spaceKeys(_ seed: UInt64) -> SpaceKeyRing? {
        var dice = Dice(seed: seed, 9)
        return SpaceKey(bytes: (0..<SpaceKey.byteCount).map { _ in UInt8(dice.number(0...255)) }).map { SpaceKeyRing($0) }
    }

    func look(_ replica: Replica) throws -> Look {
        try replica.read { db in
            try Look(db, plan.schema, tables: replica.tableNumbers, after: replica.seenNumber)
        }
    }

    // MARK: The run

    func runQueue() async throws {
        while let (at, event) = queue.next() {
            time.move(to: at)
            switch event {
            case .step(let step):
                try await perform(step)
            case .arrival(let replica, let step, let request, let content, let outcome, let isCopy):
                try await arrive(replica, step, request, content, outcome, isCopy: isCopy)
            case .reply(let replica, let step, let request, let reply):
                try await deliver(reply, to: replica, step: step, request: request)
            case .restart(let replica):
                try restart(replica)
            case .relayStarts:
                try await startRelay()
            }
            for number in replicas.indices where replicas[number].power.isDead && replicas[number].isRunning {
                try await crash(number, downFor: plan.steps.isEmpty ? 0 : 300)
            }
        }
    }

    /// Checks the new entries of the log at once.
    func absorbLog() async throws {
        let description = try await relay.describe()
        horizon = description.horizon.rawValue
        let mark = LogMark(lineage: description.lineage)
        let page = try await relay.pull(after: Position(oracle.head), seen: mark, byteLimit: .max, wait: nil)
        let known = oracle.head
        try oracle.absorb(page.frames)
        frames.removeAll { $0.lastPosition.rawValue <= horizon }
        frames += page.frames.filter { $0.firstPosition.rawValue > known }
        noteReturned()
        for position in known..<oracle.head where position > 0 {
            try ledger.check(oracle.entry(at: oracle.entry(at: position + 1).span.upperBound))
        }
    }

    private func end() async {
        for replica in replicas {
            await replica.exchange?.session.abandon()
            replica.shutDown()
        }
        await machine.stop()
    }
}
