import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB

/// Replicas, their relay, the network between and the time, all in one task: what happens next is always the earliest
/// thing that was arranged.
///
/// Faults come first, while the plan's steps are carried out. Then everything heals, and it must settle in a few rounds.
final class World {
    enum Event {
        case step(Step)
        /// A request gets to the relay; `isCopy`: again, after the first.
        case arrival(replica: Int, step: Int, request: Int, Session.Request, Fate, isCopy: Bool)
        /// Something comes back, or the pause is over.
        case reply(replica: Int, step: Int, request: Int, Session.Reply)
        case restart(replica: Int)
    }

    let plan: Plan
    let time = VirtualTime()
    let relay: MemoryRelay
    let relayClock: WallClock
    var replicas: [Replica] = []
    var oracle: Oracle
    var ledger = Ledger()
    var queue = Queue<Event>()
    var trace: Trace
    /// As the plan says, until everything heals.
    var network: NetworkPlan

    /// Runs a plan to its end, or to the first law that does not hold.
    static func run(_ plan: Plan, keepsLines: Bool = false) async -> (trace: Trace, violation: Violation?) {
        var world: World?
        do {
            let folder = try SimulationFolder()
            let made = try await World(plan, folder, keepsLines: keepsLines)
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

    // MARK: The beginning

    private init(_ plan: Plan, _ folder: SimulationFolder, keepsLines: Bool) async throws {
        self.plan = plan
        network = plan.network
        trace = Trace(keepsLines: keepsLines)
        let time = time
        let relayClock = WallClock(time)
        self.relayClock = relayClock
        let lineages = Identities(Dice(seed: plan.seed, 5))
        guard let space = SpaceName("world") else { throw Violation("simulator", "no name for the space") }
        relay = MemoryRelay(
            space: space, wall: { relayClock.milliseconds }, monotonic: { time.now }, lineage: { Lineage(high: lineages.next(), low: 1) })
        let database = try Self.database(plan, relayClock)
        oracle = try Oracle(schema: plan.schema, rows: try Self.rows(database, plan.schema))
        for number in plan.replicas.indices { try await addReplica(number, space, number == 0 ? database : nil, folder) }
        try await absorbLog()
    }

    private static func database(_ plan: Plan, _ clock: WallClock) throws -> DatabaseQueue {
        let database = try Replica.open(nil, clock)
        try database.writeWithoutTransaction { db in
            for statement in plan.schema.statements { try db.execute(sql: statement) }
            for row in plan.rows {
                try? db.inTransaction {
                    try db.execute(sql: row)
                    return .commit
                }
            }
        }
        return database
    }

    private static func rows(_ database: DatabaseQueue, _ schema: Schema) throws -> Rows {
        try database.read { db in try Look.rows(db, schema) }
    }

    /// The first replica makes the space from its rows, the others are cloned from it.
    private func addReplica(_ number: Int, _ space: SpaceName, _ first: DatabaseQueue?, _ folder: SimulationFolder) async throws {
        let plan = plan.replicas[number]
        let name = "r\(number)"
        let clock = WallClock(time, offset: plan.clockOffset, drift: plan.clockDrift)
        let identities = Identities(Dice(seed: self.plan.seed, 6, UInt64(number)))
        let path = folder.path + "/\(name).db"
        let joining = Joining(
            transport: relay, address: "http://127.0.0.1:1", space: space, name: name,
            configuration: Replica.configuration(name, clock, identities),
            environment: .init(pause: { _ in throw CancellationError() }, random: { 0.5 }))
        if let first {
            let file = try DatabaseQueue(path: path)
            try Self.copy(first, to: file)
            let store = try Store(wrapping: file, configuration: Replica.configuration(name, clock, identities))
            _ = try await store.track(.tables(self.plan.schema.tables.map(\.name)))
            _ = try await joining.join(store)
            try file.close()
        } else {
            _ = try await joining.clone(to: path)
        }
        let database = try Replica.open(plan.isInFile ? path : nil, clock)
        if !plan.isInFile { try Self.load(path, into: database) }
        try fillCopies(database)
        let replica = try Replica(
            name: name, clock: clock, identities: identities, database: database, path: plan.isInFile ? path : nil)
        replica.tableNumbers = try replica.read { try Look.tableNumbers($0) }
        replica.id = try await replica.store?.replicaState()?.replica ?? replica.id
        replicas.append(replica)
        replica.look = try look(replica)
        replica.seenNumber = replica.look.recorded.last?.number ?? 0
    }

    private func fillCopies(_ database: DatabaseQueue) throws {
        try database.writeWithoutTransaction { db in
            for copy in plan.schema.copies { try db.execute(sql: copy.fill) }
        }
    }

    private static func load(_ path: String, into database: DatabaseQueue) throws {
        let file = try DatabaseQueue(path: path)
        try copy(file, to: database)
        try file.close()
    }

    private static func copy(_ source: DatabaseQueue, to target: DatabaseQueue) throws {
        try source.backup(to: target)
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
            case .arrival(let replica, let step, let request, let content, let fate, let isCopy):
                try await arrive(replica, step, request, content, fate, isCopy: isCopy)
            case .reply(let replica, let step, let request, let reply):
                try await deliver(reply, to: replica, step: step, request: request)
            case .restart(let replica):
                try restart(replica)
            }
            for number in replicas.indices where replicas[number].power.isDead && replicas[number].isRunning {
                try await crash(number, downFor: plan.steps.isEmpty ? 0 : 300)
            }
        }
    }

    /// What the log has gained since the last time is judged at once.
    func absorbLog() async throws {
        let lineage = try await relay.describe().lineage
        let page = try await relay.pull(after: Position(oracle.head), lineage: lineage, byteLimit: .max, wait: nil)
        let known = oracle.head
        try oracle.absorb(page.frames)
        for position in known..<oracle.head where position > 0 { try ledger.check(oracle.entry(at: position + 1)) }
    }

    private func end() async {
        for replica in replicas {
            await replica.exchange?.session.abandon()
            replica.shutDown()
        }
    }
}

/// A folder for files that need not outlive the run, in memory where the system has such a place.
final class SimulationFolder {
    let path: String

    init() throws {
        let memory = "/dev/shm"
        let parent = FileManager.default.isWritableFile(atPath: memory) ? memory : FileManager.default.temporaryDirectory.path
        path = "\(parent)/annals-simulation-\(UInt64.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }
}
