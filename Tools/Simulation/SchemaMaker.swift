/// Draws a schema: two to four related tables, with every kind of constraint that a run's features allow.
struct SchemaMaker {
    private let seed: UInt64
    private let features: Features
    private var dice: Dice
    private var schema = Schema()

    static func make(seed: UInt64, features: Features) -> Schema {
        var maker = SchemaMaker(seed: seed, features: features)
        maker.run()
        return maker.schema
    }

    private init(seed: UInt64, features: Features) {
        self.seed = seed
        self.features = features
        dice = Dice(seed: seed, 1)
    }

    private mutating func run() {
        for number in 1...dice.weighted([(45, 2), (38, 3), (17, 4)]) { schema.tables.append(table(number)) }
        if features.cycles, dice.chance(20) { closeCycle() }
        for place in schema.tables.indices {
            if features.checks, dice.chance(40) { addCheck(place) }
            if features.uniques { for _ in 0..<dice.weighted([(35, 0), (45, 1), (20, 2)]) { addUnique(place) } }
        }
        addTriggers()
        if features.undeclaredReferences { leaveReferencesUndeclared(Dice(seed: seed, 18)) }
        schema.usesProgram = ProgramFunctions.mayUse(seed, features, schema)
        if features.nullKeys { NullKeys.allow(in: &schema, seed: seed) }
    }

    /// In one world of eight. They have dice of their own, so that the other worlds stay as they are.
    private mutating func leaveReferencesUndeclared(_ other: Dice) {
        var dice = other
        guard dice.chance(12) else { return }
        for table in schema.tables.indices {
            for number in schema.tables[table].references.indices where dice.chance(60) {
                let reference = schema.tables[table].references[number]
                // Keys that refer to each other are refused.
                guard Set(reference.columns).isDisjoint(with: schema.tables[table].key) else { continue }
                schema.tables[table].references[number].isDeclared = false
                if reference.onDelete == .setNull, reference.columns.contains(where: { schema.tables[table].columns[$0].isNotNull }) {
                    schema.tables[table].references[number].onDelete = .noAction
                }
            }
        }
    }

    // MARK: Columns

    private mutating func table(_ number: Int) -> Table {
        var table = Table(name: "t\(number)", columns: [], key: [], hasIntegerKey: false)
        table.isStrict = dice.chance(25)
        addKey(&table)
        for name in ["a", "b", "c"].prefix(dice.number(1...3)) { table.columns.append(column(name, isStrict: table.isStrict)) }
        guard features.foreignKeys else { return table }
        for name in ["p", "q"].prefix(dice.weighted([(25, 0), (55, 1), (20, 2)])) {
            let candidates = schema.tables + (features.selfReferences && dice.chance(25) ? [table] : [])
            if !candidates.isEmpty { addReference(&table, to: dice.one(of: candidates), prefix: name) }
        }
        return table
    }

    private mutating func addKey(_ table: inout Table) {
        let canReference = features.referenceKeys && features.foreignKeys && !schema.tables.isEmpty
        enum Form { case integer, text, compound, reference, compoundReference }
        let form = dice.weighted([
            (45, Form.integer), (features.textKeys ? 20 : 0, .text), (features.compoundKeys ? 12 : 0, .compound),
            (canReference ? 8 : 0, .reference), (canReference && features.compoundKeys ? 15 : 0, .compoundReference),
        ])
        switch form {
        case .integer:
            table.columns = [Column(name: "k", kind: .integer, isNotNull: true, domain: Self.numbers(1...8))]
            table.hasIntegerKey = true
        case .text:
            table.columns = [text("k", isNotNull: true)]
        case .compound:
            table.columns = [
                Column(name: "k", kind: .integer, isNotNull: true, domain: Self.numbers(1...3)), text("l", isNotNull: true),
            ]
        case .reference:
            addReference(&table, to: dice.one(of: schema.tables), prefix: "k", inKey: true)
        case .compoundReference:
            addReference(&table, to: dice.one(of: schema.tables), prefix: "k", inKey: true)
            table.columns.append(text("l", isNotNull: true))
        }
        table.key = Array(table.columns.indices)
        if form == .reference, table.columns.count == 1, table.columns[0].kind == .integer, dice.chance(50) { table.hasIntegerKey = true }
        if table.key.count > 1, dice.chance(30) { table.key.reverse() }
        table.isWithoutRowid = !table.hasIntegerKey && dice.chance(40)
    }

    private mutating func column(_ name: String, isStrict: Bool) -> Column {
        var column: Column =
            switch dice.number(0...9) {
            case 0...4: Column(name: name, kind: .integer, domain: Self.numbers(1...6))
            case 5...7: text(name)
            case 8: Column(name: name, kind: .real, domain: [.real(0.5), .real(1), .real(2.5)])
            default:
                Column(name: name, kind: .any, domain: [.integer(1), .real(1), .text("1"), .blob([49]), .text("a"), .blob([0, 255])])
            }
        column.isNotNull = dice.chance(25)
        if column.isNotNull ? dice.chance(50) : dice.chance(20) { column.defaultValue = dice.one(of: column.domain) }
        return column
    }

    private mutating func text(_ name: String, isNotNull: Bool = false) -> Column {
        let collation = dice.weighted([(70, Collation.binary), (22, .noCase), (8, .trimmed)])
        let letters =
            switch collation {
            case .binary: ["a", "b", "c", "d", "A"]
            case .noCase: ["a", "b", "c", "A", "B"]
            case .trimmed: ["a", "b", "a ", "c"]
            }
        return Column(name: name, kind: .text, collation: collation, isNotNull: isNotNull, domain: letters.map { .text($0) })
    }

    private static func numbers(_ range: ClosedRange<Int64>) -> [Cell] {
        range.map { .integer($0) }
    }

    // MARK: References

    /// Adds columns that refer to a row of `parent` by its key, and the foreign key over them.
    private mutating func addReference(_ table: inout Table, to parent: Table, prefix: String, inKey: Bool = false) {
        let isNotNull = inKey || dice.chance(20)
        let first = table.columns.count
        let actions = Action.allCases.filter { $0 != .setDefault || features.setDefault }
        let onDelete = dice.one(of: actions)
        let onUpdate = dice.chance(60) ? .cascade : dice.one(of: actions)
        let wantsDefault = onDelete == .setDefault || onUpdate == .setDefault
        for (number, place) in parent.key.enumerated() {
            var column = parent.columns[place]
            column.name = number == 0 ? prefix : "\(prefix)\(number)"
            column.isNotNull = isNotNull
            column.defaultValue = wantsDefault && dice.chance(70) ? dice.one(of: column.domain) : nil
            if column.collation != .binary, dice.chance(20) { column.collation = .binary }
            table.columns.append(column)
        }
        table.references.append(
            Reference(
                columns: Array(first..<table.columns.count), parent: parent.name, parentColumns: parent.key,
                parentNames: parent.key.map { parent.columns[$0].name }, collations: parent.key.map { parent.columns[$0].collation },
                onDelete: onDelete, onUpdate: onUpdate, isDeferred: dice.chance(30)))
    }

    /// Adds a reference from an earlier table to a later one. It is deferred, because otherwise the first rows could not be
    /// written.
    private mutating func closeCycle() {
        guard schema.tables.count > 1 else { return }
        let later = schema.tables[schema.tables.count - 1]
        var table = schema.tables[0]
        addReference(&table, to: later, prefix: "z")
        table.references[table.references.count - 1].isDeferred = true
        for place in table.references[table.references.count - 1].columns { table.columns[place].isNotNull = false }
        schema.tables[0] = table
    }

    // MARK: Constraints on rows

    private mutating func addCheck(_ place: Int) {
        let numbers = plainPlaces(schema.tables[place], .integer)
        guard let first = numbers.first else { return }
        let name = schema.tables[place].columns[first].name
        if numbers.count > 1, dice.chance(60) {
            let second = numbers[1]
            schema.tables[place].checks.append(
                Check(sql: "\(name) <= \(schema.tables[place].columns[second].name)") { row in
                    guard let left = row[first].integer, let right = row[second].integer else { return true }
                    return left <= right
                })
        } else {
            schema.tables[place].checks.append(Check(sql: "\(name) <> 3") { row in row[first] != .integer(3) })
        }
    }

    private mutating func addUnique(_ place: Int) {
        let table = schema.tables[place]
        let plain = table.columns.indices.filter { !table.key.contains($0) }
        guard let first = plain.isEmpty ? nil : dice.one(of: plain) else { return }
        let number = table.uniques.count + 1
        let index = "u_\(table.name)_\(number)"
        switch dice.number(0...9) {
        case 0...3:
            schema.tables[place].uniques.append(Unique(parts: [part(table, first)], index: dice.chance(50) ? index : nil))
        case 4, 5:
            let second = dice.one(of: plain)
            guard second != first else { return }
            schema.tables[place].uniques.append(Unique(parts: [part(table, first), part(table, second)], index: nil))
        case 6:
            guard table.columns[first].kind == .text else { return }
            var folded = part(table, first)
            folded.sql += " COLLATE NOCASE"
            folded.collation = .noCase
            schema.tables[place].uniques.append(Unique(parts: [folded], index: index))
        default:
            addCoarseUnique(place, index)
        }
    }

    private mutating func addCoarseUnique(_ place: Int, _ index: String) {
        let table = schema.tables[place]
        let numbers = plainPlaces(table, .integer)
        guard let first = numbers.first else { return }
        let name = table.columns[first].name
        let rest: @Sendable ([Cell]) -> Cell = { row in row[first].integer.map { .integer($0 % 4) } ?? .null }
        if features.generatedColumns, dice.chance(35) {
            guard table.generated.isEmpty else { return }
            let kind = dice.chance(50) ? "STORED" : "VIRTUAL"
            schema.tables[place].generated.append("g INTEGER AS (\(name) % 4) \(kind)")
            schema.tables[place].uniques.append(Unique(parts: [Part(sql: "g", collation: .binary, value: rest)], index: nil))
        } else if features.coarseUniques, dice.chance(50) {
            schema.tables[place].uniques.append(
                Unique(parts: [Part(sql: "\(name) % 4", collation: .binary, value: rest)], index: index))
        } else if features.coarseUniques, let other = plainPlaces(table, .text).first {
            let condition: @Sendable ([Cell]) -> Bool = { row in row[first].integer.map { $0 > 2 } ?? false }
            schema.tables[place].uniques.append(
                Unique(parts: [part(table, other)], index: index, condition: ("\(name) > 2", condition)))
        }
    }

    private func part(_ table: Table, _ place: Int) -> Part {
        Part(sql: table.columns[place].name, collation: table.columns[place].collation) { $0[place] }
    }

    /// Columns that belong neither to the key nor to a reference.
    private func plainPlaces(_ table: Table, _ kind: Kind) -> [Int] {
        let taken = Set(table.key + table.references.flatMap(\.columns))
        return table.columns.indices.filter { !taken.contains($0) && table.columns[$0].kind == kind }
    }

    // MARK: Triggers of the user

    private mutating func addTriggers() {
        if features.triggersOnTracked, dice.chance(15) { addTriggerOnTracked() }
        if features.triggersOnUntracked, dice.chance(15) { addCopy() }
    }

    private mutating func addTriggerOnTracked() {
        let source = dice.one(of: schema.tables)
        let target = dice.one(of: schema.tables)
        guard source.name != target.name, let place = plainPlaces(target, .integer).first else { return }
        let column = target.columns[place].name
        let key = target.columns[target.key[0]]
        let event = dice.one(of: ["INSERT", "UPDATE", "DELETE"])
        let timing = dice.one(of: ["BEFORE", "AFTER"])
        schema.extras.append(
            """
            CREATE TRIGGER own \(timing) \(event) ON \(source.name) BEGIN \
            UPDATE OR IGNORE \(target.name) SET \(column) = 1 + \(column) % 6 WHERE \(key.name) = \(dice.one(of: key.domain).literal); END
            """)
    }

    private mutating func addCopy() {
        let table = dice.one(of: schema.tables)
        let plain = table.columns.indices.filter { !table.key.contains($0) }
        guard let place = plain.first else { return }
        let column = table.columns[place].name
        let names = table.key.map { table.columns[$0].name }
        let list = names.joined(separator: ", ")
        func values(_ row: String) -> String { names.map { "\(row).\($0)" }.joined(separator: ", ") }
        func match(_ row: String) -> String { names.map { "\($0) IS \(row).\($0)" }.joined(separator: " AND ") }
        let isOld = match("OLD")
        // The conflict clause of the outer statement also applies in the trigger. With OR IGNORE a copy of a row that a REPLACE
        // removed would remain.
        let write = "DELETE FROM kept WHERE \(match("NEW")); INSERT INTO kept (\(list), value) VALUES (\(values("NEW")), NEW.\(column));"
        let declared = table.key.map { "\(table.columns[$0].name) COLLATE \(table.columns[$0].collation.rawValue)" }.joined(separator: ", ")
        schema.extras += [
            "CREATE TABLE kept (\(declared), value, PRIMARY KEY (\(list)))",
            "CREATE TRIGGER keep_insert AFTER INSERT ON \(table.name) BEGIN \(write) END",
            "CREATE TRIGGER keep_update AFTER UPDATE ON \(table.name) BEGIN DELETE FROM kept WHERE \(isOld); \(write) END",
            "CREATE TRIGGER keep_delete AFTER DELETE ON \(table.name) BEGIN DELETE FROM kept WHERE \(isOld); END",
        ]
        let fill = "INSERT OR REPLACE INTO kept (\(list), value) SELECT \(list), \(column) FROM \(table.name)"
        schema.copies.append(Schema.Copy(table: table.name, name: "kept", column: column, fill: fill))
    }
}
