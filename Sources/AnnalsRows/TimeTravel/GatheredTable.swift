import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// The changes of one table in the temporary database.
final class GatheredTable {
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
        name = "\(schema).annals_gathered_\(entry.id)"
        looseName = "\(schema).annals_gathered_loose_\(entry.id)"
        let olds = (0..<count).map { "o\($0)" }
        let news = (0..<count).map { "n\($0)" }
        let columns = ["number", "has_old", "has_new", "left_out"] + olds + news
        // Columns without a declared type store each value unchanged.
        let loose = ["step"] + olds
        try db.execute(
            sql: "CREATE TABLE \(name)(\(columns.joined(separator: ", "))); CREATE TABLE \(looseName)(\(loose.joined(separator: ", ")))")
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

    func drop() throws {
        try db.execute(sql: "DROP TABLE \(name); DROP TABLE \(looseName)")
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
        var current: RowIdentity?
        var span: (first: Int64, last: Int64) = (0, 0)
        var change = NetChange(old: nil, new: nil)
        func pass() throws {
            if change.old != change.new { try visit(change) }
        }
        try forEachPut { identity, number, put in
            if identity != current {
                try pass()
                current = identity
                change = NetChange(old: nil, new: nil)
                span = (number, number)
            }
            var next = put
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

    /// One change for each key and transaction. A row that left the key and a row that took it are one change.
    func forEachStep(_ visit: (RowIdentity, Int64, NetChange) throws -> Void) throws {
        var current: (identity: RowIdentity, number: Int64, change: NetChange)?
        try forEachPut { identity, number, put in
            if let known = current, known.identity == identity, known.number == number {
                current?.change.old = known.change.old ?? put.old
                current?.change.new = known.change.new ?? put.new
            } else {
                if let current { try visit(current.identity, current.number, current.change) }
                current = (identity, number, put)
            }
        }
        if let current { try visit(current.identity, current.number, current.change) }
    }

    /// Visits what was put, sorted by key and then by transaction.
    private func forEachPut(_ visit: (RowIdentity, Int64, NetChange) throws -> Void) throws {
        let terms = zip(rule.key, rule.collations).map { columnIndex, collation in
            let known = Collation.isBuiltIn(collation) ? collation : Collation.binary
            return "CASE WHEN has_old THEN o\(columnIndex) ELSE n\(columnIndex) END COLLATE \(known)"
        }
        let rows = try PreparedStatement(db, "SELECT * FROM \(name) ORDER BY \(terms.joined(separator: ", ")), number")
        while try rows.step() {
            let old = rows.integer(Head.hasOld) == 1 ? rows.values(Head.count..<Head.count + count) : nil
            let new = rows.integer(Head.hasNew) == 1 ? rows.values(Head.count + count..<Head.count + 2 * count) : nil
            guard let row = old ?? new else { continue }
            let change = NetChange(old: old, new: new, leftOut: Self.columnIndexes(rows.value(Head.leftOut)))
            try visit(rule.identity(of: row), rows.integer(Head.number), change)
        }
    }

    private static func columnIndexes(_ value: Value) -> [Int] {
        guard case .text(let text) = value else { return [] }
        return (text.string ?? "").split(separator: " ").compactMap { Int($0) }
    }

    /// Rows with equal values follow each other. Only the balance of inserts and deletes counts.
    func forEachLoose(_ visit: (NetChange) throws -> Void) throws {
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
