import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Folds the changes of consecutive transactions into the differences between the first and the last state, row by row.
///
/// Net changes are written to tables of an attached temporary database, and read sorted by key. The first change of a key has
/// the row before, the last change has the row after. So memory stays constant with any number of changes: SQLite sorts on
/// disk if its cache is too small.
///
///     let fold = DifferenceFold(db, schema: "annals_copy", changes: changes, chosen: chosen)
///     for number in 5...17 { try fold.add(transaction: number) }
///     for table in fold.tables { try fold.forEachRow(of: table) { row in … } }
///
/// Rows are identified by their keys, as the key's index compares them. Rows with NULL in the key are identified by all their
/// values and counted.
final class DifferenceFold {
    private let db: Database
    private let schema: String
    private let changes: NetChanges
    private let chosen: ChosenDifference
    private var gathered: [Int64: GatheredTable] = [:]

    init(_ db: Database, schema: String, changes: NetChanges, chosen: ChosenDifference) {
        self.db = db
        self.schema = schema
        self.changes = changes
        self.chosen = chosen
    }

    /// Adds the changes of a transaction to currently tracked tables. Transactions must be added in their order.
    package func add(transaction number: Int64) throws {
        for part in try changes.parts(of: number) where chosen.holds(part.entry) {
            let table = try gathered(part.entry)
            try changes.forEachRow(in: part) { try table.add($0, number) }
        }
    }

    /// The tables with added changes, parents first.
    package var tables: [TrackedTables.Entry] {
        func order(_ entry: TrackedTables.Entry) -> Int { changes.tables.order[entry.definition.name] ?? .max }
        return gathered.values.map(\.entry).sorted { (order($0), $0.id) < (order($1), $1.id) }
    }

    /// Visits the rows of one table that differ, with their values before and after. Can be called again, and does not read the
    /// store.
    package func forEachRow(of entry: TrackedTables.Entry, _ visit: (NetChange) throws -> Void) throws {
        try gathered[entry.id]?.forEachRow(visit)
    }

    private func gathered(_ entry: TrackedTables.Entry) throws -> GatheredTable {
        if let known = gathered[entry.id] { return known }
        let table = try GatheredTable(db, schema: schema, entry, only: chosen.row)
        gathered[entry.id] = table
        return table
    }
}

extension NetChange {
    /// Copies values between two changes of a row, if one leaves a value out and the other holds it. A left-out value is unchanged.
    fileprivate mutating func fill(from next: inout NetChange) {
        guard let before = next.old else { return }
        for columnIndex in leftOut where !next.leftOut.contains(columnIndex) { old?[columnIndex] = before[columnIndex] }
        leftOut.removeAll { !next.leftOut.contains($0) }
        for columnIndex in next.leftOut where !leftOut.contains(columnIndex) {
            if let value = new?[columnIndex] { next.fill(columnIndex, value) }
        }
    }
}

/// The changes of one table in the temporary database.
private final class GatheredTable {
    let entry: TrackedTables.Entry
    private let db: Database
    private let rule: IdentityRule
    /// The only row; nil for all.
    private let only: RowIdentity?
    private let count: Int
    private let name: String
    private let looseName: String
    private let insert: PreparedStatement
    private let insertLoose: PreparedStatement

    /// Columns before the values.
    private enum Head {
        static let number = 0
        static let hasOld = 1
        static let hasNew = 2
        /// Column numbers of the values that history leaves out, separated by spaces.
        static let leftOut = 3
        static let count = 4
    }

    init(_ db: Database, schema: String, _ entry: TrackedTables.Entry, only: RowIdentity?) throws {
        self.db = db
        self.entry = entry
        self.only = only
        rule = IdentityRule(entry.definition)
        count = entry.definition.columns.count
        name = "\(schema).changes_\(entry.id)"
        looseName = "\(schema).loose_\(entry.id)"
        let olds = (0..<count).map { "o\($0)" }
        let news = (0..<count).map { "n\($0)" }
        let columns = ["number", "has_old", "has_new", "left_out"] + olds + news
        // Columns without a declared type store each value unchanged.
        try db.execute(
            sql:
                "CREATE TABLE \(name)(\(columns.joined(separator: ", "))); CREATE TABLE \(looseName)(\((["step"] + olds).joined(separator: ", ")))"
        )
        func placeholders(_ count: Int) -> String { (1...count).map { "?\($0)" }.joined(separator: ", ") }
        insert = try PreparedStatement(db, "INSERT INTO \(name) VALUES (\(placeholders(columns.count)))")
        insertLoose = try PreparedStatement(db, "INSERT INTO \(looseName) VALUES (\(placeholders(count + 1)))")
    }

    // MARK: Adding

    func add(_ change: NetChange, _ number: Int64) throws {
        let old = try keyed(change.old, step: -1)
        let new = try keyed(change.new, step: 1)
        if let old, let new, rule.identity(of: old) != rule.identity(of: new) {
            try put(number, old, nil)
            try put(number, nil, new)
        } else if old != nil || new != nil {
            try put(number, old, new, leftOut: change.leftOut)
        }
    }

    /// The row, if its key identifies it. Any other row is counted by its values, and the result is nil.
    private func keyed(_ row: [Value]?, step: Int64) throws -> [Value]? {
        guard let row, rule.isKeyless(row) else { return row }
        guard only == nil else { return nil }
        insertLoose.bind(1, step)
        for (columnIndex, value) in row.enumerated() { insertLoose.bind(columnIndex + 2, value) }
        try insertLoose.run()
        return nil
    }

    private func put(_ number: Int64, _ old: [Value]?, _ new: [Value]?, leftOut: [Int] = []) throws {
        if let only, let row = old ?? new, rule.identity(of: row) != only { return }
        insert.bind(Head.number + 1, number)
        insert.bind(Head.hasOld + 1, old == nil ? 0 : 1)
        insert.bind(Head.hasNew + 1, new == nil ? 0 : 1)
        insert.bind(Head.leftOut + 1, leftOut.isEmpty ? .null : .text(leftOut.map(String.init).joined(separator: " ")))
        for columnIndex in 0..<count {
            insert.bind(Head.count + columnIndex + 1, old?[columnIndex] ?? .null)
            insert.bind(Head.count + count + columnIndex + 1, new?[columnIndex] ?? .null)
        }
        try insert.run()
    }

    // MARK: Reading

    func forEachRow(_ visit: (NetChange) throws -> Void) throws {
        try forEachKeyed(visit)
        try forEachLoose(visit)
    }

    /// The changes of one key follow each other, the oldest first.
    ///
    /// Within one transaction a row may leave the key and another row may take it. Then the row that left is the row before the
    /// transaction, and the row that came is the row after it.
    private func forEachKeyed(_ visit: (NetChange) throws -> Void) throws {
        let terms = zip(rule.key, rule.collations).map { columnIndex, collation in
            "CASE WHEN has_old THEN o\(columnIndex) ELSE n\(columnIndex) END COLLATE \(Collation.isBuiltIn(collation) ? collation : Collation.binary)"
        }
        let rows = try PreparedStatement(db, "SELECT * FROM \(name) ORDER BY \(terms.joined(separator: ", ")), number")
        var current: RowIdentity?
        var span: (first: Int64, last: Int64) = (0, 0)
        var change = NetChange(old: nil, new: nil)
        func pass() throws {
            if change.old != change.new { try visit(change) }
        }
        while try rows.step() {
            let number = rows.integer(Head.number)
            let old = rows.integer(Head.hasOld) == 1 ? rows.values(Head.count..<Head.count + count) : nil
            let new = rows.integer(Head.hasNew) == 1 ? rows.values(Head.count + count..<Head.count + 2 * count) : nil
            let identity = (old ?? new).map { rule.identity(of: $0) }
            if identity != current {
                try pass()
                current = identity
                change = NetChange(old: nil, new: nil)
                span = (number, number)
            }
            var next = NetChange(old: old, new: new, leftOut: Self.columnIndexes(rows.value(Head.leftOut)))
            change.fill(from: &next)
            if number == span.first, let old = next.old {
                (change.old, change.leftOut) = (old, next.leftOut)
            }
            if number != span.last { change.new = nil }
            span.last = number
            if let new = next.new { change.new = new }
        }
        try pass()
    }

    private static func columnIndexes(_ value: Value) -> [Int] {
        guard case .text(let text) = value else { return [] }
        return (text.string ?? "").split(separator: " ").compactMap { Int($0) }
    }

    /// Rows with equal values follow each other. Only the balance of inserts and deletes counts.
    private func forEachLoose(_ visit: (NetChange) throws -> Void) throws {
        let terms = (0..<count).flatMap { ["typeof(o\($0))", "o\($0)"] }
        let rows = try PreparedStatement(db, "SELECT * FROM \(looseName) ORDER BY \(terms.joined(separator: ", "))")
        var current: [Value]?
        var balance: Int64 = 0
        func pass() throws {
            guard let current else { return }
            for _ in 0..<abs(balance) {
                try visit(balance < 0 ? NetChange(old: current, new: nil) : NetChange(old: nil, new: current))
            }
        }
        while try rows.step() {
            let row = rows.values(1..<count + 1)
            if row != current {
                try pass()
                current = row
                balance = 0
            }
            balance += rows.integer(0)
        }
        try pass()
    }
}
