public import AnnalsCore
import AnnalsMerge

/// A conflict in a few lines: what others wrote is in the log, and the author, who has not seen it, repeats its own
/// transactions on top.
///
///     let story = RebaseStory([TableForm("item", "id v", rows: [["a", "old"]])])
///     try story.others(.update("item", ["a"], ["v": "theirs"]))
///     try story.own(.delete("item", ["a"]))
///     let end = try story.rebase()
///
/// Each rebased transaction is applied verbatim to a copy of the rows, so every test also checks that receivers can
/// apply it, and that it leaves keys, unique values and references intact.
final class RebaseStory {
    /// One row. A transaction has at most one edit of a row.
    enum Edit {
        case insert(String, [Value], mark: RowMark? = nil)
        case update(String, [Value], [String: Value])
        case delete(String, [Value], mark: RowMark? = nil)
    }

    /// What is left of an own transaction.
    struct Rebased {
        var changes: [RowEdit]
        var result: RebaseResult
        var attempts: Int
    }

    static let author = ReplicaID(high: 2, low: 0)
    /// Another replica. Of equal times the author's is later, because its id is greater.
    static let other = ReplicaID(high: 1, low: 0)
    static let relayTime: Int64 = 10_000

    let log: DictionaryRows
    private let written: DictionaryRows
    private let policies: MergePolicies
    private var identities = RowIdentities()
    private var highestKeys: [String: Int64] = [:]
    private var position = Position(10)
    private var outbox: [UnsentTransaction] = []

    init(_ forms: [TableForm], _ policies: MergePolicies = MergePolicies()) {
        log = DictionaryRows(forms)
        written = log.copy()
        self.policies = policies
        for form in forms { for row in form.rows { noteKey(log[form.name], row) } }
    }

    /// An entry of another replica. The first has position 11.
    func others(_ edits: Edit..., time: Int64 = 1_000, by replica: ReplicaID = RebaseStory.other) throws {
        let changes = Self.changes(edits, of: log)
        try log.apply(changes)
        position = position.next
        let mark = WriteMark(time: HybridTime(milliseconds: time), replica: replica, position: position)
        identities.note(changes.map(\.noted), by: mark)
        for change in changes { noteKey(change.table, change.new) }
    }

    /// A transaction of the author, who has seen none of the others' entries.
    func own(_ edits: Edit..., time: Int64 = 2_000, journal: [JournalEntry] = []) throws {
        try own(edits, time: time, journal: journal)
    }

    func own(_ edits: [Edit], time: Int64 = 2_000, journal: [JournalEntry] = []) throws {
        let changes = Self.changes(edits, of: written)
        try written.apply(changes)
        outbox.append(UnsentTransaction(changes, id: UInt64(outbox.count), time: time, journal: journal))
        for change in changes { noteKey(change.table, change.new) }
    }

    func rebase() throws -> RebaseOutcome {
        let context = RebaseContext(
            rowIdentities: identities, policies: policies, replica: Self.author, relayTime: Self.relayTime, highestKeys: highestKeys)
        return RebaseOutcome(log: log, rebased: try outbox.map { try log.rebaseVerbatim($0, context) })
    }

    private func noteKey(_ table: MergeTable, _ row: [Value]?) {
        guard let column = table.rowidAlias, let key = row?[column].integer else { return }
        highestKeys[table.name] = max(highestKeys[table.name] ?? 0, key)
    }

    /// The rows before and after each edit.
    static func changes(_ edits: [Edit], of rows: DictionaryRows) -> [RowEdit] {
        edits.map { edit in
            switch edit {
            case .insert(let name, let row, let mark): return RowEdit(table: rows[name], old: nil, new: row, mark: mark)
            case .delete(let name, let key, let mark):
                return RowEdit(table: rows[name], old: found(key, name, rows), new: nil, mark: mark)
            case .update(let name, let key, let values):
                let old = found(key, name, rows)
                var new = old
                for (column, value) in values { if let place = rows[name].columnIndex(of: column) { new[place] = value } }
                return RowEdit(table: rows[name], old: old, new: new)
            }
        }
    }

    private static func found(_ key: [Value], _ name: String, _ rows: DictionaryRows) -> [Value] {
        guard let row = rows.row(withKey: key, in: rows[name]) else { preconditionFailure("\(name) has no row \(key)") }
        return row
    }
}

/// The rows and the conflict journal after a rebase, as text.
struct RebaseOutcome {
    let log: DictionaryRows
    let rebased: [RebaseStory.Rebased]

    func rows(_ table: String) -> [String] { log.rows(table).map(JournalText.text) }
    var journal: [JournalEntry] { rebased.flatMap(\.result.journal) }
    var lines: [String] { journal.map(JournalText.line) }
    /// What the rebased transactions insert into a table.
    func inserted(_ table: String) -> [[Value]] {
        rebased.flatMap(\.changes).filter { $0.table.name == table && $0.old == nil }.compactMap(\.new)
    }
    /// The marks of what is sent.
    var marks: [RowMark] { rebased.flatMap(\.changes).compactMap(\.mark) }
    var attempts: Int { rebased.map(\.attempts).max() ?? 0 }
}

extension DictionaryRows {
    /// Repeats a transaction, and checks that what is sent leads from the rows before to the rows after.
    func rebaseVerbatim(_ transaction: UnsentTransaction, _ context: RebaseContext) throws -> RebaseStory.Rebased {
        let receiver = copy()
        let (result, attempts) = try rebase(transaction, context)
        let changes = RowEdit.net(result.rows)
        try receiver.apply(changes)
        guard receiver.content.filter({ !$0.value.isEmpty }) == content.filter({ !$0.value.isEmpty }) else {
            throw Diverged(row: changes.first?.new ?? [])
        }
        return RebaseStory.Rebased(changes: changes, result: result, attempts: attempts)
    }
}

extension RowEdit {
    var noted: NotedChange {
        var into: CandidateKey?
        if case .merged(let key)? = mark { into = table.keyName(key) }
        return NotedChange(old: old.map(table.image), new: new.map(table.image), mark: mark, mergedInto: into)
    }

    var change: RowChange? {
        switch (old, new) {
        case (nil, nil): return nil
        case (nil, let new?): return .insert(new)
        case (let old?, nil): return .delete(old)
        case (let old?, let new?):
            let columns = old.indices.filter { old[$0] != new[$0] }.map { ColumnChange(column: $0, old: old[$0], new: new[$0]) }
            return columns.isEmpty ? nil : .update(key: table.key(of: old), columns: columns)
        }
    }

    /// A delete and an insert of one key are one update (merge rule 4), as in `WriteSet`.
    static func net(_ changes: [RebasedChange]) -> [RowEdit] {
        var edits: [RowEdit] = []
        for change in changes {
            let deleted = edits.firstIndex { edit in
                guard change.old == nil, edit.new == nil, let old = edit.old, let new = change.new else { return false }
                return edit.table === change.table && change.table.key(of: old) == change.table.key(of: new)
            }
            if let deleted {
                edits[deleted].new = change.new
                edits[deleted].mark = nil
            } else {
                edits.append(RowEdit(table: change.table, old: change.old, new: change.new, mark: change.mark))
            }
        }
        return edits.filter { $0.old != $0.new }
    }
}

extension UnsentTransaction {
    init(_ changes: [RowEdit], id: UInt64, time: Int64, journal: [JournalEntry] = []) {
        var whole: [Int: WholeRow] = [:]
        var unsent: [TableChange] = []
        for edit in changes {
            guard let change = edit.change else { continue }
            if let old = edit.old, let new = edit.new { whole[unsent.count] = WholeRow(before: old, after: new) }
            unsent.append(TableChange(table: edit.table.name, change: change, mark: edit.mark))
        }
        let info = TransactionInfo(id: TransactionID(high: 0, low: id), time: HybridTime(milliseconds: time))
        self.init(info: info, changes: unsent, journal: journal, wholeRows: whole)
    }
}

/// Values and journal entries in the form in which tests state them.
enum JournalText {
    static func line(_ entry: JournalEntry) -> String {
        let place = entry.columns.isEmpty ? "" : " " + entry.columns.joined(separator: ",")
        let base = entry.base.map { "\(text($0)) → " } ?? ""
        let sides = "stored \(entry.stored.map(text) ?? "–"), incoming \(entry.incoming.map(text) ?? "–")"
        return "\(entry.kind) \(entry.table)(\(text(entry.key)))\(place): \(base)\(sides); \(entry.winner) by \(entry.policy)"
    }

    static func text(_ values: [Value]) -> String {
        values.map { value in
            switch value {
            case .null: "NULL"
            case .integer(let integer): String(integer)
            case .real(let real): String(real)
            case .text(let text), .blob(let text): text.string ?? "–"
            }
        }.joined(separator: "|")
    }
}

extension Value: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    public init(stringLiteral value: String) { self = .text(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
}
