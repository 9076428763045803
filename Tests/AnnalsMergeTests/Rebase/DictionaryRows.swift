import AnnalsCore
import AnnalsMerge

/// Tables in dictionaries: what `StoredRows` and `RebaseWriter` are to SQLite, so that the planner is tested without a
/// database. `RebaseStory` writes the history of a test and has the planner repeat it.
final class DictionaryRows: RowSource {
    private let forms: [String: TableForm]
    private let tables: [String: MergeTable]
    /// The rows of each table by their primary keys.
    var content: [String: [CandidateKey: [Value]]] = [:]
    /// Tables with columns that this replica lacks.
    var lacking: Set<String> = []

    init(_ forms: [TableForm]) {
        self.forms = Dictionary(uniqueKeysWithValues: forms.map { ($0.name, $0) })
        tables = Dictionary(uniqueKeysWithValues: forms.map { ($0.name, $0.mergeTable(among: forms)) })
        for form in forms { for row in form.rows { put(row, in: self[form.name]) } }
    }

    private init(copying other: DictionaryRows) {
        (forms, tables, content) = (other.forms, other.tables, other.content)
    }

    func copy() -> DictionaryRows { DictionaryRows(copying: self) }

    subscript(name: String) -> MergeTable {
        guard let table = tables[name] else { preconditionFailure("no table \(name)") }
        return table
    }

    // MARK: RowSource

    func table(named name: String) -> MergeTable { self[name] }
    func table(canonicalName name: String) -> MergeTable { self[name] }
    func lacksColumns(of table: MergeTable) -> Bool { lacking.contains(table.name) }
    func row(withKey key: [Value], in table: MergeTable) -> [Value]? { content[table.name]?[table.keyName(key)] }
    func asStored(_ value: Value, in table: MergeTable, columnIndex: Int) -> Value { value }

    func row(named name: CandidateKey, in table: MergeTable) -> [Value]? {
        if name.columnIndexes == table.candidateKeys[0].columnIndexes { return content[table.name]?[name] }
        return content[table.name]?.values.first { table.names(of: $0).contains(name) }
    }

    func defaultValue(of columnIndex: Int, in table: MergeTable) -> Value {
        forms[table.name]?.defaults[table.columns[columnIndex].name] ?? .null
    }

    // MARK: Rows and constraints

    func put(_ row: [Value], in table: MergeTable) { content[table.name, default: [:]][table.keyName(of: row)] = row }
    func remove(_ row: [Value], from table: MergeTable) { content[table.name]?[table.keyName(of: row)] = nil }

    /// The rows of a table, in the order of their texts.
    func rows(_ name: String) -> [[Value]] { (content[name] ?? [:]).values.sorted { JournalText.text($0) < JournalText.text($1) } }

    /// Why the table does not take a row. nil if it does.
    func refusal(of row: [Value], in table: MergeTable) -> RowRefusal? {
        let isNullRefused = row.indices.contains { row[$0].isNull && table.columns[$0].isNotNull }
        if isNullRefused || forms[table.name]?.check(row) == false { return .check }
        let collisions = collisions(of: row, in: table)
        return collisions.isEmpty ? nil : .unique(collisions)
    }

    private func collisions(of row: [Value], in table: MergeTable) -> [UniqueCollision] {
        var collisions: [UniqueCollision] = []
        if let holder = content[table.name]?[table.keyName(of: row)] {
            collisions.append(UniqueCollision(holder: holder, columnIndexes: table.primaryKey, isKey: true))
        }
        for index in forms[table.name]?.uniqueIndexes ?? [] {
            guard let name = index.name(of: row), let holder = holder(of: name, index, in: table) else { continue }
            collisions.append(UniqueCollision(holder: holder, columnIndexes: index.columnIndexes, isKey: false))
        }
        return collisions
    }

    private func holder(of name: CandidateKey, _ index: NameIndex, in table: MergeTable) -> [Value]? {
        content[table.name]?.values.first { row in
            index.columnIndexes.indices.allSatisfy { row[index.columnIndexes[$0]] == name.values[$0] }
        }
    }

    /// The references without a parent, in a fixed order.
    func dangling() -> [(table: MergeTable, row: [Value], foreignKey: Int)] {
        tables.values.sorted { $0.name < $1.name }.flatMap { table in
            table.references.indices.flatMap { foreignKey in
                rows(table.name).filter { !hasParent($0, in: table, foreignKey) }.map { (table, $0, foreignKey) }
            }
        }
    }

    func hasParent(_ row: [Value], in table: MergeTable, _ foreignKey: Int) -> Bool {
        guard let name = table.parentName(foreignKey, in: row) else { return true }
        return self.row(named: name, in: self[name.table]) != nil
    }

    // MARK: Verbatim

    struct Diverged: Error { var row: [Value] }

    /// Applies changes as a receiver does (merge rule 19): old values must be the stored ones, and rows that leave are
    /// removed before any is written.
    func apply(_ changes: [RowEdit]) throws {
        for change in changes {
            guard let old = change.old else { continue }
            guard content[change.table.name]?[change.table.keyName(of: old)] == old else { throw Diverged(row: old) }
            remove(old, from: change.table)
        }
        for change in changes {
            guard let new = change.new else { continue }
            guard refusal(of: new, in: change.table) == nil else { throw Diverged(row: new) }
            put(new, in: change.table)
        }
        if let orphan = dangling().first { throw Diverged(row: orphan.row) }
    }
}

/// One row as a transaction found and left it.
struct RowEdit {
    var table: MergeTable
    var old: [Value]?
    var new: [Value]?
    var mark: RowMark?
}

// MARK: - What the planner plans

extension DictionaryRows {
    /// More attempts than this are a defect.
    private static let attempts = 200
    private static let effectRounds = 200

    /// Repeats one transaction, as `Rebase` does: attempt, report, undo, decide, until nothing is refused.
    func rebase(_ transaction: UnsentTransaction, _ context: RebaseContext) throws -> (result: RebaseResult, attempts: Int) {
        let planner = RebasePlanner(transaction, context, self)
        let found = content
        for attempt in 1...Self.attempts {
            try perform(planner)
            if planner.isSettled { return (try planner.finish(), attempt) }
            content = found
            try planner.decide()
        }
        throw planner.unsettled
    }

    private func perform(_ planner: RebasePlanner) throws {
        let plan = try planner.plan()
        guard planner.isSettled else { return }
        for row in plan.deleted {
            if let before = row.before { remove(before, from: row.table) }
            planner.wrote(row.number)
        }
        for row in plan.displaced { if let before = row.before { remove(before, from: row.table) } }
        for row in plan.displaced { write(row, inPlaceOf: nil, planner) }
        for row in plan.written { write(row, inPlaceOf: row.before, planner) }
        guard planner.isSettled else { return }
        try performEffects(planner)
        try planner.complete()
    }

    /// - Parameter inPlace: the stored row, which stays if the new one is refused. A displaced row is removed already, and another row may
    ///   have its old values by now.
    private func write(_ row: RowWrite, inPlaceOf inPlace: [Value]?, _ planner: RebasePlanner) {
        guard let after = row.after else { return }
        if let inPlace { remove(inPlace, from: row.table) }
        if let refusal = refusal(of: after, in: row.table) {
            if let inPlace { put(inPlace, in: row.table) }
            return planner.refused(row.number, refusal)
        }
        put(after, in: row.table)
        planner.wrote(row.number)
    }

    private func performEffects(_ planner: RebasePlanner) throws {
        try followReassignedKeys(planner)
        guard planner.isSettled else { return }
        for _ in 0..<Self.effectRounds {
            var isChanged = false
            for (table, row, foreignKey) in dangling() {
                // An effect may have changed the child meanwhile, or restored its parent's key.
                guard content[table.name]?[table.keyName(of: row)] == row, !hasParent(row, in: table, foreignKey),
                    let effect = try planner.dangling(row, in: table, foreignKey: foreignKey)
                else { continue }
                isChanged = true
                perform(effect, on: row, in: table, planner)
            }
            guard isChanged, planner.isSettled else { return }
        }
        throw planner.unsettled
    }

    private func followReassignedKeys(_ planner: RebasePlanner) throws {
        let tables = tables.values.sorted { $0.name < $1.name }
        let found = planner.reassignedKeys().flatMap { key in
            tables.flatMap { table in
                table.references.indices.flatMap { foreignKey in
                    rows(table.name).filter { table.parentName(foreignKey, in: $0) == key.name }.map { (key, table, foreignKey, $0) }
                }
            }
        }
        for (key, table, foreignKey, row) in found {
            guard let row = content[table.name]?[table.keyName(of: row)],
                let effect = try planner.referring(row, in: table, foreignKey: foreignKey, to: key)
            else { continue }
            perform(effect, on: row, in: table, planner)
        }
    }

    private func perform(_ effect: ForeignKeyEffect, on row: [Value], in table: MergeTable, _ planner: RebasePlanner) {
        remove(row, from: table)
        guard let new = effect.new else { return planner.performed(effect) }
        switch refusal(of: new, in: table) {
        case .unique?: planner.refused(effect, isUnique: true)
        case .check?: planner.refused(effect, isUnique: false)
        case nil:
            put(new, in: table)
            planner.performed(effect)
        }
    }
}
