import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB

/// The actions of a plan's steps.
extension SimulatedSpace {
    func perform(_ step: Step) async throws {
        // Some steps belong to a replica that may be added during the run.
        guard replicas.indices.contains(step.replica) else { return }
        let replica = replicas[step.replica]
        trace.note(step.text)
        switch step.action {
        case .write(let statements, let isTolerant):
            guard let store = replica.store else { return }
            try await write(store, replica, statements, isTolerant)
        case .strangerWrites(let statements, let isTolerant, let checksParents):
            try strangerWrites(replica, statements, isTolerant, checksParents)
        case .strangerRebuilds(let rebuild, let statements, let isTolerant):
            try strangerRebuilds(replica, rebuild, statements, isTolerant)
        case .backUpRelay:
            try await startRelay()
            backup = (try await machine.backUp(), oracle, frames)
        case .restoreRelay:
            try await restoreRelay()
        case .fault(let fault):
            try await fault.perform(on: step.replica, in: self)
        case .sync(let direction):
            try await beginExchange(step.replica, step.number, direction)
        case .look:
            guard let store = replica.store else { return }
            try await attempt(replica) { _ = try await store.status() }
            try observe(replica, after: .seal)
        case .remember:
            guard let store = replica.store else { return }
            try await remember(store, replica)
        case .crash(let point, let down):
            guard replica.isRunning else { return }
            replica.power.die(at: point)
            if point == .now { try await crash(step.replica, downFor: down) }
        case .cut(let duration):
            replica.cutUntil = time.now + duration
        case .turnClock(let duration):
            replica.clock.turn(by: duration)
        case .copy:
            if replicas.count < Self.mostReplicas { try addCopy(of: step.replica) }
        case .setPolicy(let setting, let isOverride):
            guard let store = replica.store else { return }
            try await setPolicy(store, replica, setting, isOverride)
        case .resolve(let number, let side):
            guard let store = replica.store else { return }
            try await resolve(store, replica, number, side)
        case .purgeRelay(let purge):
            try await purgeRelay(purge)
        case .purgeHistory(let aim, let isForced):
            guard let store = replica.store else { return }
            try await purgeHistory(store, replica, aim, isForced)
        case .setRetention(let age):
            guard let store = replica.store else { return }
            try await setRetention(store, replica, age)
        case .consume(let reader, let limit):
            guard let store = replica.store else { return }
            try await consume(store, replica, reader, limit)
        case .newcomer:
            if replicas.count < Self.mostReplicas { try await addNewcomer() }
        }
    }

    func write(_ store: Store, _ replica: Replica, _ statements: [String], _ isTolerant: Bool) async throws {
        var isRefused = false
        do {
            try await store.write(author: replica.name) { db in try Replica.run(statements, isTolerant, db) }
        } catch let error as AnnalsError {
            guard error.code == .constraint || replica.power.isDead else { throw Violation("write", "\(replica.name): \(error)") }
            isRefused = true
        }
        try observe(replica, after: isRefused ? .nothing : .write)
    }

    func strangerWrites(_ replica: Replica, _ statements: [String], _ isTolerant: Bool, _ checksParents: Bool) throws {
        if replica.rowsBeforeStrangers == nil { replica.rowsBeforeStrangers = replica.look.rows }
        do {
            try replica.asStranger(statements, isTolerant: isTolerant, checksParents: checksParents)
        } catch let error as DatabaseError where Replica.isRefusal(error) {
            // A refused write is a valid result.
        }
        try observe(replica, after: .strangers)
    }

    private func setPolicy(_ store: Store, _ replica: Replica, _ setting: PolicySetting, _ isOverride: Bool) async throws {
        var isSet = false
        try await attempt(replica) {
            do {
                try await store.setPolicies([setting], isOverride: isOverride)
                isSet = true
            } catch let error as AnnalsError where error.code == .usage && setting.policy == "sum" {
                // A column of the random schema may be declared as text, or hold texts.
            }
        }
        if isOverride, isSet { replica.overrides.append(setting) }
        try observe(replica, after: isSet && !isOverride ? .decision : .nothing)
    }

    /// If the conflict cannot be resolved in this way, because the row was deleted or a constraint forbids it, nothing changes.
    private func resolve(_ store: Store, _ replica: Replica, _ number: Int, _ side: JournalEntry.Side) async throws {
        var isResolved = false
        do {
            // Some people change a decision.
            let open = try await store.conflicts().filter { number % 3 == 0 || !$0.isResolved }
            guard !open.isEmpty else { return }
            try await store.resolve(open[number % open.count].id, taking: side, again: true)
            isResolved = true
        } catch let error as AnnalsError {
            guard replica.power.isDead || [.usage, .constraint].contains(error.code) else {
                throw Violation("store", "\(replica.name) cannot resolve: \(error)")
            }
        }
        try observe(replica, after: isResolved ? .decision : .nothing)
    }

    private func remember(_ store: Store, _ replica: Replica) async throws {
        var token: HistoryToken?
        try await attempt(replica) { token = try await store.latestToken() }
        try observe(replica, after: .seal)
        if let token, !replica.mayHoldUnseen { replica.memories.append((token, replica.look.rows)) }
    }

    /// A store may fail only if its process has died.
    func attempt(_ replica: Replica, _ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch {
            guard replica.power.isDead else { throw Violation("store", "\(replica.name): \(error)") }
        }
    }

    // MARK: Crashes

    func crash(_ number: Int, downFor duration: Int64) async throws {
        let replica = replicas[number]
        trace.note("+\(time.now) \(replica.name) is dead")
        replica.power.die(at: .now)
        await replica.exchange?.session.abandon()
        replica.shutDown()
        try observe(replica, after: .nothing)
        queue.add(.restart(replica: number), at: time.now + duration)
    }

    func restart(_ number: Int) throws {
        let replica = replicas[number]
        guard !replica.isRunning else { return }
        trace.note("+\(time.now) \(replica.name) starts")
        try replica.start()
    }
}
