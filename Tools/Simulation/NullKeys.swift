import AnnalsCore

/// A program writes rows with NULL in their key. They stay in their file and are not synced: a row that loses its key counts as deleted,
/// and a row that gets one as inserted.
struct NullKeys: Fault {
    var statements: [String]
    var isTolerant: Bool
    /// Whether the program uses the library.
    var isManaged: Bool

    static let name = "null keys"
    /// Percent of worlds.
    private static let share = 8
    private static let firstStep = 950

    /// SQLite accepts NULL in the key of a table with a rowid, unless the table is STRICT or its key is the rowid.
    static func allow(in schema: inout Schema, seed: UInt64) {
        var dice = Dice(seed: seed, 20)
        guard dice.chance(share) else { return }
        for place in schema.tables.indices {
            let table = schema.tables[place]
            schema.tables[place].keyMayBeNull = !table.hasIntegerKey && !table.isWithoutRowid && !table.isStrict
        }
    }

    static func add(to plan: inout Plan, _ features: Features) {
        let tables = plan.schema.tables.filter(\.keyMayBeNull)
        guard !tables.isEmpty else { return }
        var dice = Dice(seed: plan.seed, 21)
        var workload = Workload(schema: plan.schema, features: features, dice: Dice(seed: plan.seed, 22))
        let steps = (0..<dice.number(1...5)).map { number in
            let statements = (0..<dice.number(1...3)).map { _ in workload.withNullKey(dice.one(of: tables)) }
            let fault = NullKeys(
                statements: statements, isTolerant: dice.chance(75), isManaged: !features.strangers || dice.chance(40))
            return Step(
                number: firstStep + number, at: Int64(dice.number(0...Int(plan.length))),
                replica: dice.number(0...plan.replicas.count - 1), action: .fault(fault))
        }
        plan.insert(steps)
    }

    var text: String {
        "\(isManaged ? "writes" : "stranger writes")\(isTolerant ? "" : ", all or nothing"): \(statements.joined(separator: "; "))"
    }

    func perform(on number: Int, in space: SimulatedSpace) async throws {
        let replica = space.replicas[number]
        guard isManaged else { return try space.strangerWrites(replica, statements, isTolerant, true) }
        if let store = replica.store { try await space.write(store, replica, statements, isTolerant) }
    }

    /// Such a row has a value that an entry needs.
    static func explains(_ error: AnnalsError, in space: SimulatedSpace) -> Bool {
        error.code == .constraint && error.message.contains("rows with NULL in their key")
    }

    /// The program deletes the rows that may be in the way.
    static func end(in space: SimulatedSpace) async throws {
        let tables = space.plan.schema.tables.filter { $0.keyMayBeNull && (!$0.uniques.isEmpty || !$0.references.isEmpty) }
        guard !tables.isEmpty else { return }
        for replica in space.replicas {
            try space.strangerWrites(replica, tables.map { "DELETE FROM \($0.name) WHERE NOT (\($0.hasWholeKeySQL))" }, false, true)
        }
    }
}

extension Workload {
    /// A statement about rows with NULL in their key.
    fileprivate mutating func withNullKey(_ table: Table) -> String {
        let keyPlace = dice.one(of: table.key)
        let key = table.columns[keyPlace].name
        let place = dice.one(of: Array(table.columns.indices))
        switch dice.number(0...9) {
        case 0...3:
            let values = table.columns.indices.map { $0 == keyPlace ? Cell.null.literal : value(table, $0).literal }
            return "INSERT INTO \(table.name) (\(table.names(Array(table.columns.indices)))) VALUES (\(values.joined(separator: ", ")))"
        case 4, 5: return "UPDATE \(table.name) SET \(key) = NULL WHERE \(key) = \(value(table, keyPlace).literal)"
        case 6, 7: return "UPDATE OR IGNORE \(table.name) SET \(key) = \(value(table, keyPlace).literal) WHERE \(key) IS NULL"
        case 8: return "UPDATE \(table.name) SET \(table.columns[place].name) = \(value(table, place).literal) WHERE \(key) IS NULL"
        default: return "DELETE FROM \(table.name) WHERE \(key) IS NULL"
        }
    }
}
