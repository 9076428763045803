import AnnalsCore
import AnnalsStore
import GRDB

/// Programs add a constraint to a table, or remove one, on some replicas and at different times, with unsent work on all of them. The
/// other stores rebuild the table when the schema entry reaches them. From this entry on the rows of the log have the new constraints.
struct Migrations: Fault {
    var text: String

    static let name = "migrations"
    /// Percent of worlds.
    private static let share = 10
    private static let firstStep = 930

    static func add(to plan: inout Plan, _ features: Features) {
        var dice = Dice(seed: plan.seed, 24)
        // Schema entries are tried without functions of a program.
        guard features.migrations, dice.chance(share), !plan.schema.usesProgram else { return }
        // A rebuilt table starts history again, which the checks of readers do not expect.
        guard !plan.steps.contains(where: \.action.readsHistory), let change = ConstraintChange.draw(plan.schema, &dice) else { return }
        plan.schema.change = change
        let text = "migrates \(change.after.name), \(change.isAdded ? "adds" : "removes") \(change.text)"
        let steps = (0..<dice.number(1...3)).map { number in
            Step(
                number: firstStep + number, at: Int64(dice.number(0...Int(plan.length))), replica: dice.number(0...plan.replicas.count - 1),
                action: .fault(Migrations(text: text)))
        }
        plan.insert(steps)
    }

    func perform(on number: Int, in space: SimulatedSpace) async throws {
        let replica = space.replicas[number]
        guard let change = space.plan.schema.change, let store = replica.store else { return }
        try await space.migrate(store, replica, from: change.before, to: change.after, change.correction)
    }

    /// Rows of the space violate the new constraint, so its entry cannot be sent. Or a table was rebuilt while a sync was under way.
    static func explains(_ error: AnnalsError, in space: SimulatedSpace) -> Bool {
        guard let change = space.plan.schema.change else { return false }
        if error.code == .busy { return space.replicas.contains { $0.hasMigrated } }
        guard change.isAdded, !space.oracle.isChanged else { return false }
        return error.code == .waitingForMigration
    }

    /// If the constraint is not in the log, the programs that added it remove it again.
    static func end(in space: SimulatedSpace) async throws {
        guard let change = space.plan.schema.change, change.isAdded, !space.oracle.isChanged else { return }
        space.oracle.mayBeUndone = true
        for (number, replica) in space.replicas.enumerated() where replica.hasMigrated {
            if replica.isRunning { replica.power.restore() } else { try space.restart(number) }
            guard let store = replica.store else { continue }
            try await space.migrate(store, replica, from: change.after, to: change.before, [])
        }
    }
}

extension Step.Action {
    fileprivate var readsHistory: Bool {
        if case .consume = self { true } else { false }
    }
}

extension SimulatedSpace {
    fileprivate func migrate(_ store: Store, _ replica: Replica, from old: Table, to new: Table, _ correction: [String]) async throws {
        let (declaration, indexes) = ConstraintChange.statements(from: old, to: new)
        let name = new.name
        var mayBeDone = false
        do {
            try await store.migrate(label: "constraint", rebuilding: declaration == nil ? [] : [name]) { db in
                try Replica.run(correction, false, db)
                if let declaration { try Self.rebuild(name, as: declaration, db) }
                try Replica.run(indexes, false, db)
            }
            mayBeDone = true
        } catch let error as DatabaseError where Replica.isRefusal(error) {
            // The correction violates another constraint.
        } catch let error as AnnalsError {
            guard replica.power.isDead || error.code == .constraint else { throw Violation("migration", "\(replica.name): \(error)") }
            mayBeDone = replica.power.isDead
        }
        if mayBeDone { replica.hasMigrated = true }
        try observe(replica, after: mayBeDone ? .migration : .nothing)
    }
}
