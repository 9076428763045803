/// Adds scenes of a few steps. Such steps are drawn in only one of hundreds of worlds, and they often reveal defects.
struct Scenes {
    private enum Kind { case none, orphan, copy, otherLog, acceptedAndLost, unseenDelete }

    private static let firstStep = 800

    private let plan: Plan
    private var dice: Dice
    private var workload: Workload
    private var steps: [Step] = []
    /// Time passes from step to step, so that exchanges usually end in between.
    private var time: Int64
    private let pause: Int64

    static func add(to plan: inout Plan, _ features: Features) {
        guard plan.length > 0 else { return }
        var scenes = Scenes(plan, features)
        scenes.run(features)
        plan.leaveOut(scenes.steps.count, &scenes.dice)
        plan.insert(scenes.steps)
    }

    private init(_ plan: Plan, _ features: Features) {
        self.plan = plan
        dice = Dice(seed: plan.seed, 13)
        workload = Workload(schema: plan.schema, features: features, dice: Dice(seed: plan.seed, 14))
        time = Int64(dice.number(0...Int(plan.length)))
        pause = Int64(4 * plan.network.delay + 50)
    }

    private mutating func run(_ features: Features) {
        let kind = dice.weighted([
            (50, Kind.none), (18, .orphan), (features.copies ? 12 : 0, .copy), (features.relayRestores ? 7 : 0, .otherLog),
            (features.relayRestores ? 5 : 0, .acceptedAndLost), (features.unseenWrites ? 8 : 0, .unseenDelete),
        ])
        let one = dice.number(0...plan.replicas.count - 1)
        let other = (one + dice.number(1...plan.replicas.count - 1)) % plan.replicas.count
        if let (child, reference) = undeclared() { return sameParent(one, other, child, reference) }
        switch kind {
        case .none: return
        case .orphan: orphan(one, other)
        case .copy: copy(one)
        case .otherLog: otherLog(one, other)
        case .acceptedAndLost: acceptedAndLost(one, other)
        case .unseenDelete: unseenDelete(one, other)
        }
    }

    private mutating func add(_ replica: Int, _ action: Step.Action) {
        steps.append(Step(number: Self.firstStep + steps.count, at: time, replica: replica, action: action))
        time += 1
    }

    private mutating func write(_ replica: Int, _ statements: [String]) {
        add(replica, .write(statements: statements, isTolerant: true))
    }

    private mutating func sync(_ replica: Int, _ direction: Step.Direction = .both) {
        add(replica, .sync(direction))
        time += pause
    }

    // MARK: The scenes

    /// One replica writes children of a row while another deletes the row (merge rules 7 and 31).
    private mutating func orphan(_ one: Int, _ other: Int) {
        guard let family = workload.family() else { return }
        write(one, family.parent)
        sync(one)
        sync(other)
        write(one, family.children)
        write(other, family.ends)
        for replica in dice.chance(50) ? [one, other] : [other, one] { sync(replica) }
    }

    /// Two replicas insert a parent with the same integer key, and children that refer to it although the schema declares no reference
    /// (merge rule 47).
    private mutating func sameParent(_ one: Int, _ other: Int, _ child: Table, _ reference: Reference) {
        for replica in [one, other] { sync(replica) }
        // Keys that no other step draws.
        let name = reference.parentColumns.map { _ in Cell.integer(Int64(dice.number(60...62))) }
        for replica in [one, other] {
            guard let family = workload.family(child, reference, name) else { return }
            write(replica, family.parent + family.children)
        }
        for replica in dice.chance(50) ? [one, other] : [other, one] { sync(replica) }
    }

    /// In half of the worlds with a reference to an integer key that the schema does not declare, such a reference. It has dice of its
    /// own, so that the other worlds do not change.
    private func undeclared() -> (Table, Reference)? {
        var dice = Dice(seed: plan.seed, 19)
        let references = plan.schema.tables.flatMap { table in table.references.map { (table, $0) } }.filter { table, reference in
            !reference.isDeclared && reference.parent != table.name && plan.schema.table(reference.parent)?.hasIntegerKey == true
        }
        guard !references.isEmpty, dice.chance(50) else { return nil }
        return dice.one(of: references)
    }

    /// A file with unsent transactions is copied, and both copies continue (merge rule 39).
    private mutating func copy(_ one: Int) {
        // The first replica that is added while the plan runs.
        let copy = plan.replicas.count
        if dice.chance(75) { for _ in 0..<dice.number(1...2) { write(one, workload.transaction() + workload.rows(2)) } }
        add(one, .copy)
        if dice.chance(50) { write(dice.one(of: [one, copy]), workload.transaction() + workload.rows(1)) }
        sync(one)
        sync(copy, dice.one(of: [.pullOnly, .both]))
        write(copy, workload.transaction() + workload.rows(1))
        sync(copy)
        sync(one)
    }

    /// The relay is restored after one replica has pushed, and others push as much before it syncs again (merge rule 41).
    private mutating func otherLog(_ one: Int, _ other: Int) {
        add(one, .backUpRelay)
        for _ in 0..<dice.number(1...2) { write(one, workload.transaction() + workload.rows(2)) }
        sync(one)
        add(one, .restoreRelay)
        for _ in 0..<3 { write(other, workload.transaction() + workload.rows(2)) }
        sync(other)
        sync(one, dice.weighted([(50, .both), (50, .pullOnly)]))
    }

    /// The relay is restored after it accepted entries of one replica behind an entry of another that the first has not pulled
    /// (merge rule 41).
    private mutating func acceptedAndLost(_ one: Int, _ other: Int) {
        let tables = plan.schema.tables
        sync(one)
        add(one, .backUpRelay)
        write(other, workload.rows(4, of: tables[0]))
        sync(other)
        write(one, workload.rows(4, of: tables[tables.count - 1]))
        sync(one, .pushOnly)
        add(one, .restoreRelay)
        if dice.chance(40) {
            write(other, workload.transaction() + workload.rows(1))
            sync(other)
        }
        if dice.chance(50) { write(one, workload.transaction() + workload.rows(2)) }
        sync(one, dice.one(of: [.pushOnly, .pullOnly, .both]))
    }

    /// Rows that every replica has are deleted without capture while a table is rebuilt, and others write to them meanwhile.
    private mutating func unseenDelete(_ one: Int, _ other: Int) {
        let table = dice.one(of: plan.schema.tables)
        write(one, workload.rows(5))
        sync(one)
        sync(other)
        let rebuild = Step.Rebuild(table: table.name, dropsOnlyTriggers: dice.chance(70))
        let delete = "DELETE FROM \(table.name)" + (dice.chance(50) ? "" : " WHERE rowid % 2 = 0")
        let statements = [table.isWithoutRowid ? "DELETE FROM \(table.name)" : delete] + (dice.chance(40) ? workload.transaction() : [])
        add(one, .strangerRebuilds(rebuild, statements: statements, isTolerant: true))
        if dice.chance(50) {
            write(other, workload.transaction())
            sync(other)
        }
        sync(one)
    }
}

extension Plan {
    /// Removes steps, so that worlds with scenes are not larger than others.
    mutating func leaveOut(_ count: Int, _ dice: inout Dice) {
        for _ in 0..<min(count, steps.count / 2) { steps.remove(at: dice.number(0...steps.count - 1)) }
    }
}

extension Workload {
    /// A row, children that refer to it, and the deletes of both.
    struct Family {
        var parent: [String]
        var children: [String]
        var ends: [String]
    }

    /// Several attempts for each, because values of other columns may be refused; nil if no table refers to another.
    mutating func family() -> Family? {
        let references = schema.tables.flatMap { table in table.references.filter { $0.parent != table.name }.map { (table, $0) } }
        guard !references.isEmpty else { return nil }
        let (child, reference) = dice.one(of: references)
        guard let parent = schema.table(reference.parent) else { return nil }
        return family(child, reference, reference.parentColumns.map { dice.one(of: parent.columns[$0].domain) })
    }

    /// The same for one reference and one parent.
    mutating func family(_ child: Table, _ reference: Reference, _ name: [Cell]) -> Family? {
        guard let parent = schema.table(reference.parent) else { return nil }
        func condition(_ table: Table, _ columnIndexes: [Int]) -> String {
            zip(columnIndexes, name).map { "\(table.columns[$0].name) = \($1.literal)" }.joined(separator: " AND ")
        }
        return Family(
            parent: rows(2) + (0..<4).map { _ in row(parent, Dictionary(zip(reference.parentColumns, name)) { $1 }) },
            children: (0..<5).map { _ in row(child, Dictionary(zip(reference.columns, name)) { $1 }) },
            ends: [
                "DELETE FROM \(child.name) WHERE \(condition(child, reference.columns))",
                "DELETE FROM \(parent.name) WHERE \(condition(parent, reference.parentColumns))",
            ])
    }

    /// This number of rows of any tables, or of one table.
    mutating func rows(_ count: Int, of table: Table? = nil) -> [String] {
        (0..<count).map { _ in row(table ?? dice.one(of: schema.tables), [:]) }
    }

    private mutating func row(_ table: Table, _ given: [Int: Cell]) -> String {
        let cells = table.columns.indices.map { (given[$0] ?? value(table, $0)).literal }
        let columns = table.names(Array(table.columns.indices))
        return "INSERT OR IGNORE INTO \(table.name) (\(columns)) VALUES (\(cells.joined(separator: ", ")))"
    }
}
