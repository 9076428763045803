import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Finds columns that probably refer to another table. The work is bounded: names, triggers, and a sample of the values.
struct ReferenceSuggesting {
    private let db: Database
    private let tables: [DeclaredTable]
    private let decided: [ReferenceSetting]
    private let lookups: [ReferenceTriggers.Lookup]
    /// The indices of tables with a key of one column, by the texts of `ReferenceName.texts(of:key:)`.
    private let parents: [String: [Int]]

    init(db: Database, tables: [DeclaredTable], decided: [ReferenceSetting]) throws {
        self.db = db
        self.tables = tables.filter { $0.kind == .table }
        self.decided = decided
        lookups = try ReferenceTriggers(db, tables: self.tables).lookups
        var parents: [String: [Int]] = [:]
        for (index, table) in self.tables.enumerated() where table.primaryKey.count == 1 {
            for text in Set(ReferenceName.texts(of: table.name, key: table.columns[table.primaryKey[0]].name)) {
                parents[text, default: []].append(index)
            }
        }
        self.parents = parents
    }

    /// Sorted by table and column, the strongest first for one column.
    func suggestions() throws -> [ReferenceSuggestion] {
        var suggestions: [ReferenceSuggestion] = []
        for (index, table) in tables.enumerated() {
            for columnIndex in table.columns.indices where isOpen(table, columnIndex) {
                suggestions += try self.suggestions(index, columnIndex)
            }
        }
        return suggestions
    }

    /// Whether nothing is known about a column. A key of one column names the row itself.
    private func isOpen(_ table: DeclaredTable, _ columnIndex: Int) -> Bool {
        let name = table.columns[columnIndex].name
        guard table.primaryKey != [columnIndex] else { return false }
        guard !table.foreignKeys.contains(where: { $0.columns.contains { $0.isSameIdentifier(as: name) } }) else { return false }
        return !decided.contains { setting in
            setting.table.isSameIdentifier(as: table.name) && setting.columns.contains { $0.isSameIdentifier(as: name) }
        }
    }

    private func suggestions(_ index: Int, _ columnIndex: Int) throws -> [ReferenceSuggestion] {
        let table = tables[index]
        let found = lookups.filter { $0.table == table.name && $0.columnIndex == columnIndex }
        if !found.isEmpty { return try found.map { try byTrigger($0, table) } }
        let name = ReferenceName(table.columns[columnIndex].name)
        let candidates = Set(name.texts.flatMap { parents[$0] ?? [] } + [index]).sorted()
        var matches = candidates.compactMap { number -> (parent: DeclaredTable, match: ReferenceName.Match)? in
            let parent = tables[number]
            guard parent.primaryKey.count == 1, fits(table.columns[columnIndex], parent) else { return nil }
            let key = parent.columns[parent.primaryKey[0]].name
            return name.match(parent.name, key: key, isSelf: parent.name == table.name).map { (parent, $0) }
        }
        if matches.contains(where: { $0.match == .exact }) { matches.removeAll { $0.match != .exact } }
        guard matches.isEmpty else {
            let isUnique = matches.count == 1
            return try matches.compactMap { try byName(table, columnIndex, $0.parent, name, $0.match, isUnique: isUnique) }
        }
        return try byValues(table, columnIndex, name).map { [$0] } ?? []
    }

    /// Whether the column can hold the parent's key as it is stored.
    private func fits(_ column: DeclaredTable.Column, _ parent: DeclaredTable) -> Bool {
        let key = parent.columns[parent.primaryKey[0]]
        switch (column.affinity, key.affinity) {
        case (.text, .text), (.blob, _), (_, .blob), (.any, _), (_, .any): return true
        case (.text, _), (_, .text): return false
        default: return true
        }
    }

    // MARK: Triggers

    private func byTrigger(_ lookup: ReferenceTriggers.Lookup, _ table: DeclaredTable) throws -> ReferenceSuggestion {
        let parent = lookup.parent
        let sample = try sample(table, lookup.columnIndex, parent, lookup.parentColumn)
        let reason = "the trigger \(lookup.trigger) looks \(parent.name) up"
        return suggestion(
            table, lookup.columnIndex, parent, lookup.parentColumn, sample, reason, .strong, onDelete: lookup.onDelete)
    }

    // MARK: Names

    private func byName(
        _ table: DeclaredTable, _ columnIndex: Int, _ parent: DeclaredTable, _ name: ReferenceName, _ match: ReferenceName.Match,
        isUnique: Bool
    ) throws -> ReferenceSuggestion? {
        let sample = try sample(table, columnIndex, parent, parent.primaryKey[0])
        let isContained = sample.distinct >= ReferenceSample.enough && (sample.coverage ?? 0) >= 0.95
        let strength: ReferenceSuggestion.Strength
        if name.hasSuffix, match == .exact {
            strength = isUnique && (sample.coverage ?? 1) >= 0.5 ? .strong : .weak
        } else {
            if !name.hasSuffix, let coverage = sample.coverage, coverage < 0.5 { return nil }
            strength = isUnique && isContained ? .strong : .weak
        }
        let reason = "\(table.columns[columnIndex].name) is named after \(parent.name)"
        return suggestion(table, columnIndex, parent, parent.primaryKey[0], sample, reason, strength)
    }

    // MARK: Values

    /// Small numbers exist in every table, so values alone say something only if keys are sparse, like times and UUIDs.
    private func byValues(_ table: DeclaredTable, _ columnIndex: Int, _ name: ReferenceName) throws -> ReferenceSuggestion? {
        guard name.mayBeReference else { return nil }
        var found: ReferenceSuggestion?
        for parent in tables.prefix(ReferenceSample.parents)
        where parent.primaryKey.count == 1 && parent.name != table.name && fits(table.columns[columnIndex], parent) {
            let key = parent.primaryKey[0]
            let sample = try sample(table, columnIndex, parent, key)
            guard sample.distinct >= ReferenceSample.many, sample.coverage == 1, try hasSparseKeys(parent, key) else { continue }
            guard found == nil else { return nil }
            let reason = "all sampled values are keys of \(parent.name)"
            found = suggestion(table, columnIndex, parent, key, sample, reason, name.hasSuffix ? .strong : .weak)
        }
        return found
    }

    private func hasSparseKeys(_ parent: DeclaredTable, _ columnIndex: Int) throws -> Bool {
        let (name, key) = (SQL.quote(parent.name), SQL.quote(parent.columns[columnIndex].name))
        guard parent.rowidAlias == columnIndex else { return parent.columns[columnIndex].affinity == .text }
        // Both ends of the key and a bounded count.
        let sql = """
            SELECT (SELECT max(\(key)) FROM \(name)) / 4.0 - (SELECT min(\(key)) FROM \(name)) / 4.0
            > (SELECT count(*) FROM (SELECT 1 FROM \(name) LIMIT \(ReferenceSample.countedRows)))
            """
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    private func sample(
        _ table: DeclaredTable, _ columnIndex: Int, _ parent: DeclaredTable, _ parentColumn: Int
    ) throws -> ReferenceSample {
        try ReferenceSample(db, table, columnIndex, parent, parentColumn)
    }

    private func suggestion(
        _ table: DeclaredTable, _ columnIndex: Int, _ parent: DeclaredTable, _ parentColumn: Int, _ sample: ReferenceSample,
        _ reason: String, _ strength: ReferenceSuggestion.Strength, onDelete: ReferenceTarget.DeleteAction = .noAction
    ) -> ReferenceSuggestion {
        ReferenceSuggestion(
            table: table.name, columns: [table.columns[columnIndex].name],
            target: ReferenceTarget(table: parent.name, columns: [parent.columns[parentColumn].name], onDelete: onDelete),
            coverage: sample.coverage, reason: reason, strength: strength, isRenumbered: parent.rowidAlias == parentColumn)
    }
}

/// A bounded sample of a column's values, looked up in another table.
struct ReferenceSample {
    /// The distinct values from which a coverage means something, and from which values alone do.
    static let enough = 5
    static let many = 20
    /// The tables to which the values of a column without a telling name are compared.
    static let parents = 50
    static let countedRows = 100_000
    private static let probes: Int64 = 200
    private static let rowsOfProbe = 5
    private static let longestKey = 200

    private(set) var distinct = 0
    private(set) var coverage: Double?

    init(_ db: Database, _ table: DeclaredTable, _ columnIndex: Int, _ parent: DeclaredTable, _ parentColumn: Int) throws {
        let values = try Self.values(db, table, columnIndex)
        guard !values.isEmpty else { return }
        let (name, key) = (SQL.quote(parent.name), SQL.quote(parent.columns[parentColumn].name))
        let lookup = try PreparedStatement(db, "SELECT 1 FROM \(name) WHERE \(key) = ?1")
        var found = 0
        for value in values {
            lookup.bind(1, value)
            if try lookup.step() { found += 1 }
            lookup.reset()
        }
        distinct = values.count
        coverage = Double(found) / Double(values.count)
    }

    /// Distinct values other than NULL, 0 and the empty text, which programs write for "none".
    private static func values(_ db: Database, _ table: DeclaredTable, _ columnIndex: Int) throws -> Set<Value> {
        let (name, column) = (SQL.quote(table.name), SQL.quote(table.columns[columnIndex].name))
        var values: Set<Value> = []
        func read(_ statement: PreparedStatement) throws {
            defer { statement.reset() }
            while try statement.step() {
                let value = statement.value(0)
                if value != .null, value != .integer(0), value != .text(ByteString("")) { values.insert(value) }
            }
        }
        let count = Int(probes) * rowsOfProbe
        // A file or a text of a megabyte is no key, and is not read.
        let selected = "CASE WHEN length(\(column)) <= \(longestKey) THEN \(column) END"
        try read(PreparedStatement(db, "SELECT \(selected) FROM \(name) LIMIT \(count)"))
        guard let rowid = table.rowidAlias.map({ SQL.quote(table.columns[$0].name) }) else { return values }
        guard let last = try Int64.fetchOne(db, sql: "SELECT max(\(rowid)) FROM \(name)"), last > Int64(count) else { return values }
        // A few rows from every part of the table.
        let probe = try PreparedStatement(db, "SELECT \(selected) FROM \(name) WHERE \(rowid) >= ?1 ORDER BY \(rowid) LIMIT \(rowsOfProbe)")
        for number in 1...probes {
            probe.bind(1, .integer(last / probes * (number - 1)))
            try read(probe)
        }
        return values
    }
}
