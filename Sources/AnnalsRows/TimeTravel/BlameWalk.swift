package import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// Reads the history of one row backward, newest transaction first, until every column has a writer.
///
/// Raw changes have no index by key. SQLite scans the table's raw changes for the row's key, newest first, and stops where the
/// row was inserted. Each transaction that it finds is folded to its net change. If the key changed, the scan continues with
/// the old key.
///
/// The time of a value is that of the raw change that wrote it. The raw changes of the writer's transaction are searched for the
/// row's key too, newest first.
///
/// A rebase undoes transactions and repeats them. A value that a rebase wrote is attributed to the earlier transaction that
/// wrote the same value, if there is one. A value that the rebase made, as with the policy `sum`, is attributed to the rebase. If the
/// rebase gave the row another key, the scan continues under the key that the row had before the rebase undid it.
package struct BlameWalk {
    private let db: Database
    private let entry: TrackedTables.Entry
    private let changes: NetChanges
    private let reader: HistoryReader
    private let rule: IdentityRule
    /// Newest first.
    private let searches: [KeySearch]
    /// The table's history is complete only after this transaction.
    private let floor: Int64
    private var key: [Value]
    private var values: [Value] = []
    private var writers: [Int: Blame.Writer] = [:]
    /// The time of the write of each column whose writer, or newest rebase, is known.
    private var times: [Int: Date] = [:]
    /// The newest rebase that wrote a column's value. It is the writer if no earlier transaction wrote the value.
    private var rebases: [Int: HistoryTransaction] = [:]

    /// - Throws: `AnnalsError` with code `notTracked`, or `usage` if the key does not fit the table.
    package init(_ db: Database, table name: String, key given: [Value]) throws {
        self.db = db
        let tables = try TrackedTables.load(db)
        let entry = try NamedRow.table(name, in: tables, operation: "blame")
        let definition = entry.definition
        key = try NamedRow.stored(given, of: entry, tables, db, operation: "blame")
        self.entry = entry
        let changes = try NetChanges(db, tables: tables)
        self.changes = changes
        reader = try HistoryReader(db)
        rule = IdentityRule(definition)
        (searches, floor) = try KeySearch.all(db, of: definition, changes)
    }

    /// - Throws: `AnnalsError` with code `usage` if no row has the key now or had it in history.
    package mutating func run() throws -> Blame {
        let definition = entry.definition
        var end: Blame.End?
        var number = Int64.max
        if let row = try ManualEdit(db: db, table: definition, tables: changes.tables).find(key) {
            values = row
        } else {
            guard let found = try findEnd() else {
                throw AnnalsError(
                    .usage, operation: "blame", "no row of \(entry.definition.name) has this key, and none had it in history",
                    hint: "Check the values of the key",
                    commandHint: "Check the values of the key; annals history lists the rows that changed")
            }
            (values, end, number) = (found.row, found.end, found.number)
            key = definition.primaryKey.map { values[$0] }
            if let transaction = try reader.transaction(number) { try noteLastWrites(in: transaction) }
        }
        key = definition.primaryKey.map { values[$0] }
        let asked = key
        try walk(before: number)
        let columns = definition.columns.enumerated().map { columnIndex, column in
            Blame.Column(
                name: column.name, value: values[columnIndex],
                writer: writers[columnIndex] ?? rebases[columnIndex].map { .transaction($0) } ?? .beforeHistory, time: times[columnIndex])
        }
        return Blame(
            table: definition.name, keyColumns: definition.primaryKey.map { definition.columns[$0].name }, key: asked, columns: columns,
            end: end)
    }

    // MARK: A deleted or moved row

    /// The last row with the key, and the transaction that deleted it; nil if history does not have them, or if the row got another
    /// key. Called only if no row has the key now.
    package mutating func deletedRow() throws -> (row: [Value], by: HistoryTransaction)? {
        guard let found = try findEnd(), case .deleted(let transaction) = found.end else { return nil }
        values = found.row
        try noteLastWrites(in: transaction)
        return (values, transaction)
    }

    private func findEnd() throws -> (row: [Value], end: Blame.End, number: Int64)? {
        let identity = identity(key)
        var number = Int64.max
        while let found = try newest(before: number) {
            number = found
            guard let left = try change(in: number, where: { $0.old.map { rule.identity(of: $0) } == identity }), let old = left.old,
                let transaction = try reader.transaction(number)
            else { continue }
            let moved = left.new.map { new in Blame.End.moved(to: entry.definition.primaryKey.map { new[$0] }, transaction) }
            return (old, moved ?? .deleted(transaction), number)
        }
        return nil
    }

    /// The transaction that deleted a row, or gave it another key, may have changed its values before, if it has several commits of other
    /// programs. `values` has the values from before the transaction, and gets the last ones.
    private mutating func noteLastWrites(in transaction: HistoryTransaction) throws {
        let sections = try changes.sections(of: transaction.number)
        var last: [Value]?
        for search in searches where last == nil {
            guard let section = sections.first(where: { $0.layout == search.list }) else { continue }
            try search.forEachWrite(key, first: section.first, last: section.last) { change, _ in
                guard let old = change.old, rule.identity(of: old) == identity(key) else { return key }
                // A change of another row that took the key comes after.
                if let new = change.new, rule.identity(of: new) == identity(key) { return key }
                last = old
                return nil
            }
        }
        guard let last, last.count == values.count else { return }
        let written = Set(values.indices.filter { last[$0] != values[$0] })
        values = last
        for columnIndex in written { writers[columnIndex] = .transaction(transaction) }
        try noteTimes(of: written, in: transaction)
    }

    // MARK: Backward through history

    private mutating func walk(before last: Int64) throws {
        var number = last
        while writers.count < values.count, let found = try newest(before: number) {
            number = found
            let identity = identity(key)
            noteColumnsAdded(since: number)
            guard let arrival = try change(in: number, where: { $0.new.map { rule.identity(of: $0) } == identity }), let new = arrival.new,
                let transaction = try reader.transaction(number)
            else { continue }
            try note(transaction, old: arrival.old, new: new)
            if let old = arrival.old {
                key = entry.definition.primaryKey.map { old[$0] }
            } else if transaction.origin != .rebase {
                return try noteRest(transaction)
            } else if let (old, undone) = try before(renumbering: key, in: number) {
                (key, number) = (old, undone)
            }
        }
    }

    /// The key that a row had before a rebase gave it another one, and the transaction in which the rebase undid the row. In between, the
    /// old key belongs to the row of another replica. nil if the rebase gave the row no other key.
    private func before(renumbering key: [Value], in number: Int64) throws -> (key: [Value], undone: Int64)? {
        let name = entry.definition.name
        let renumbered = try RenumberedRows.load(db, after: number - 1).last {
            $0.number == number && $0.new.key == key && $0.new.table.isSameIdentifier(as: name)
        }
        guard let old = renumbered?.old.key else { return nil }
        let identity = identity(old)
        var undone = number + 1
        while let found = try newest(old, before: undone) {
            undone = found
            guard try reader.transaction(found)?.origin == .rebase,
                try change(in: found, where: { $0.new == nil && $0.old.map { rule.identity(of: $0) } == identity }) != nil
            else { continue }
            return (old, found)
        }
        return nil
    }

    private mutating func note(_ transaction: HistoryTransaction, old: [Value]?, new: [Value]) throws {
        var written: Set<Int> = []
        for columnIndex in values.indices where writers[columnIndex] == nil && (old.map { $0[columnIndex] != new[columnIndex] } ?? true) {
            // After a rebase was found, only a transaction that wrote this same value is the writer.
            guard new[columnIndex] == values[columnIndex] else { continue }
            if transaction.origin != .rebase {
                writers[columnIndex] = .transaction(transaction)
            } else if rebases[columnIndex] == nil {
                rebases[columnIndex] = transaction
            } else {
                continue
            }
            written.insert(columnIndex)
        }
        try noteTimes(of: written, in: transaction)
    }

    /// To be called when the row's insert is found. No earlier transaction can have written its columns.
    private mutating func noteRest(_ transaction: HistoryTransaction) throws {
        let rest = Set(values.indices.filter { writers[$0] == nil })
        for columnIndex in rest { writers[columnIndex] = .transaction(rebases[columnIndex] ?? transaction) }
        try noteTimes(of: rest.filter { rebases[$0] == nil }, in: transaction)
    }

    // MARK: The times of writes

    /// Notes when a transaction wrote the values of some columns. `key` must be the row's key after the transaction.
    private mutating func noteTimes(of columns: Set<Int>, in transaction: HistoryTransaction) throws {
        guard !columns.isEmpty else { return }
        for columnIndex in columns { times[columnIndex] = transaction.timestamp }
        var (pending, key) = (columns, self.key)
        let sections = try changes.sections(of: transaction.number)
        for search in searches {
            guard let section = sections.first(where: { $0.layout == search.list }) else { continue }
            try search.forEachWrite(key, first: section.first, last: section.last) { change, time in
                guard let new = change.new, rule.identity(of: new) == identity(key) else { return key }
                for columnIndex in pending where new[columnIndex] == values[columnIndex] && change.old?[columnIndex] != new[columnIndex] {
                    if let time { times[columnIndex] = time }
                    pending.remove(columnIndex)
                }
                if let old = change.old { key = entry.definition.primaryKey.map { old[$0] } }
                return pending.isEmpty ? nil : key
            }
        }
    }

    /// Columns that the table did not have yet at that time.
    private mutating func noteColumnsAdded(since number: Int64) {
        guard let layout = searches.first(where: { $0.lastFound == number }) else { return }
        for columnIndex in values.indices
        where writers[columnIndex] == nil && rebases[columnIndex] == nil && !layout.translation.holds(columnIndex) {
            writers[columnIndex] = .columnDefault
        }
    }

    // MARK: Finding

    private func identity(_ key: [Value]) -> RowIdentity { NamedRow.identity(of: key, rule) }

    /// The newest transaction before `number` with a raw change of a row with the key.
    private func newest(before number: Int64) throws -> Int64? { try newest(key, before: number) }

    private func newest(_ key: [Value], before number: Int64) throws -> Int64? {
        for search in searches {
            if let found = try search.newest(key, before: number) { return found > floor ? found : nil }
        }
        return nil
    }

    /// The net change of a transaction to the first row of the table that fulfils a condition.
    private func change(in number: Int64, where isMeant: (NetChange) -> Bool) throws -> NetChange? {
        var found: NetChange?
        for part in try changes.parts(of: number) where part.entry.id == entry.id {
            try changes.forEachRow(in: part) { if found == nil, isMeant($0) { found = $0 } }
        }
        return found
    }
}
