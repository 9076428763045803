import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
import GRDB

/// One try at laying one transaction on top.
///
/// It plans before it writes, so that everything is decided by the rows as they were found: `rows` are all rows in play,
/// `verdicts` what the changes came to. A change that cannot stand does not end the try at once; what else breaks is
/// found in the same try, so that a bulk load with a thousand duplicates needs two tries and not a thousand.
final class RebaseAttempt {
    package let rebase: Rebase
    package let transaction: OutboxTransaction
    package let decisions: Decisions
    /// Decisions that this try lacked.
    package var missing: [Decisions.Decision] = []
    package var rows: [RebasedRow] = []
    var verdicts: [Verdict]
    package var highestKeys: [String: Int64]

    /// Rows in play by the names they had when the try began.
    package var found: [CandidateKey: Int] = [:]
    /// Rows that come back, by their lives.
    package var returned: [RowLineage.ID: Int] = [:]
    /// Whom the transaction calls by the names that it gave.
    package var asked: [CandidateKey: Asked] = [:]
    /// Rows in play by the names that they had and have no more, as they are written.
    package var left: [CandidateKey: Int] = [:]
    /// Rows in play by their present keys, as they are written.
    package var written: [CandidateKey: Int] = [:]

    /// The changes that ask something of a row, by the row's number, once that is known.
    var askersOfRows: [Int: [Int]] = [:]
    /// Per entry, what it deleted by CASCADE together with a parent.
    var cascades: [Position: [RowLineage.ID: [RowLineage.ID]]] = [:]

    enum Asked {
        case row(Int)
        case life(RowLineage.ID)
    }

    init(_ rebase: Rebase, _ transaction: OutboxTransaction, _ decisions: Decisions) {
        self.rebase = rebase
        self.transaction = transaction
        self.decisions = decisions
        verdicts = Array(repeating: Verdict(), count: transaction.changes.count)
        rows.reserveCapacity(transaction.changes.count)
        found.reserveCapacity(transaction.changes.count)
        written.reserveCapacity(transaction.changes.count)
        highestKeys = rebase.highestKeys
    }

    package var lineage: RowLineage { rebase.lineage }
    package var session: MergeSession { rebase.session }

    /// Lays the transaction, or says which decisions it lacked for that.
    package func run() throws -> [Decisions.Decision] {
        try plan()
        guard missing.isEmpty else { return missing }
        try write()
        guard missing.isEmpty else { return missing }
        try doWhatKeysDeclare()
        if missing.isEmpty, let reason = try lossInWholeTable() { missing.append(.setAsideAll(reason)) }
        return missing
    }

    /// Notes what the transactions after this one must know, and gives what is left of it.
    package func finish() throws -> Rebase.RebasedTransaction {
        let settled = try journalEntries()
        var net = WriteSet()
        for row in rows where row.after == nil && row.before != nil { net.record(row.table, old: row.before, new: nil, mark: row.mark) }
        for row in rows where row.before != row.after {
            guard let after = row.after else { continue }
            net.record(row.table, old: row.before, new: after, mark: try mark(of: row))
            session.noteHighestKey(row.table, after)
        }
        noteNames()
        rebase.highestKeys = highestKeys
        let kept = try transaction.journal.filter { try !isTakenBack($0) }
        return Rebase.RebasedTransaction(rows: net, journal: kept + settled, conflicts: settled.count, renamed: renamings())
    }

    // MARK: Planning

    private func plan() throws {
        for index in verdicts.indices { try meet(index) }
        try bringStoredRowsIn()
        try refuseWhatCameWithRefusedDeletes()
        for index in verdicts.indices { try mergeOwnColumns(index) }
        for index in verdicts.indices { try numberInsert(index) }
        for index in verdicts.indices { try joinByOwnKey(index) }
        var number = 0
        while number < rows.count {
            try settleReferences(ofRow: number)
            number += 1
        }
        askersOfRows = [:]
    }

    /// Finds out what a change means, and what becomes of it by itself.
    private func meet(_ index: Int) throws {
        let change = transaction.changes[index]
        let table = try rebase.table(change.table)
        switch change.change {
        case .insert(let row):
            if case .revived(let position, let changed)? = change.mark {
                try meetReturning(index, table, row, position, changed)
            } else {
                meetInsert(index, table, row)
            }
        case .update(let key, let columns): try meetUpdate(index, table, key, columns)
        case .delete(let old): try meetDelete(index, table, old)
        }
    }

    private func meetUpdate(_ index: Int, _ table: RowTable, _ key: [Value], _ columns: [ColumnChange]) throws {
        verdicts[index].asked = columns.map { AskedColumn($0.column, old: $0.old, new: $0.new) }
        let name = table.keyName(key)
        switch try fate(of: name, key: key, in: table) {
        case .alive(let row, let life):
            let number = rowNumber(table, row, life, Cause(index))
            verdicts[index].row = number
            verdicts[index].loss = decisions.setAside(index)
            noteAskedNames(index, table, number, key)
        case .dead(let life, let tombstone):
            try meetUpdateOfDead(index, table, life, tombstone)
            if let number = verdicts[index].row { noteAskedNames(index, table, number, key) }
        case .merged, .setAside, .nothing:
            verdicts[index].loss = decisions.setAside(index) ?? Reason(kind: .updateOfDeleted, policy: rules(table).delete.rawValue)
        }
    }

    /// What an update makes of the row's names, for references in this transaction and those after it.
    private func noteAskedNames(_ index: Int, _ table: RowTable, _ number: Int, _ key: [Value]) {
        guard verdicts[index].asked.contains(where: { table.namePlaces.contains($0.column) }),
            let found = rows[number].after ?? rows[number].before
        else { return }
        var row = found
        for (place, value) in zip(table.definition.primaryKey, key) { row[place] = value }
        for column in verdicts[index].asked { row[column.column] = column.new }
        ask(table.names(of: row), for: number)
    }

    package func ask(_ names: [CandidateKey], for number: Int) {
        for name in names { asked[name] = .row(number) }
        rows[number].asked += names
    }

    // MARK: Rows in play

    /// The number of a row of the store, which comes into play if it was not.
    func rowNumber(_ table: RowTable, _ row: [Value], _ life: RowLineage.ID?, _ cause: Cause) -> Int {
        let names = table.names(of: row)
        if let number = found[names[0]] { return number }
        var entry = RebasedRow(table: table, before: row, after: row, cause: cause)
        entry.life = life ?? self.life(of: names[0])
        rows.append(entry)
        for name in names { found[name] = rows.count - 1 }
        return rows.count - 1
    }

    private func life(of name: CandidateKey) -> RowLineage.ID? {
        if case .life(let id) = lineage.occupant(of: name) { id } else { nil }
    }

    package func rules(_ table: RowTable) -> MergePolicies.Table { rebase.rules(table) }

    func lack(_ decision: Decisions.Decision) {
        missing.append(decision)
    }

    /// Rows that earlier tries decided to set aside, or to make one with others (merge rule 33).
    private func bringStoredRowsIn() throws {
        for (change, name) in decisions.evicted where verdicts[change].loss == nil {
            let table = try rebase.table(name.table)
            guard let row = try session.row(named: name, in: table) else { continue }
            let number = rowNumber(table, row, nil, Cause(change, .eviction(name)))
            rows[number].after = nil
            rows[number].end = .setAside
            rows[number].mark = .setAside
            rows[number].cause = Cause(change, .eviction(name))
            rows[number].removal = Reason(kind: .unique, policy: UniqueRule.keepLast.rawValue)
        }
        for index in verdicts.indices {
            guard let name = decisions.merge(index), let number = verdicts[index].row else { continue }
            let table = rows[number].table
            guard decisions.setAside(index) == nil, let row = try session.row(named: name, in: table) else { continue }
            try merge(index, number, into: rowNumber(table, row, nil, Cause(index, .merge)))
        }
    }
}
