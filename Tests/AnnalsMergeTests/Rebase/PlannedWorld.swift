import AnnalsCore
import AnnalsMerge
import SeededRandom

/// Three authors of one log, drawn from a seed. Each writes to its own rows, repeats its work on top of the log, and sends
/// it. So plans meet the marks, keys and journals that earlier plans made.
struct PlannedWorld {
    struct Broken: Error { var what: String }

    private struct Unsent {
        var edits: [RowEdit]
        var id: UInt64
        var time: Int64
        var journal: [JournalEntry] = []
    }

    private struct Author {
        var rows: DictionaryRows
        /// The number of entries that it has seen.
        var base = 0
        var outbox: [Unsent] = []
    }

    private let policies: MergePolicies
    private var log: [(edits: [RowEdit], mark: WriteMark)] = []
    private var rows: DictionaryRows
    private var authors: [Author]
    private var highestKeys = ["team": Int64(2)]
    private var written: UInt64 = 0

    init(_ random: inout SeededGenerator) {
        policies = Self.policies(&random)
        rows = DictionaryRows(Self.forms(&random))
        authors = (0..<3).map { [rows] _ in Author(rows: rows.copy()) }
    }

    // MARK: Its tables

    private static func forms(_ random: inout SeededGenerator) -> [TableForm] {
        func action() -> MergeTable.DeleteAction { random.one(of: [.cascade, .setNull, .setDefault, .refuse]) }
        return [
            TableForm("team", "id name", isNumbered: true, unique: ["name"], rows: [[1, "a"], [2, "b"]]),
            TableForm(
                "person", "id email team boss n", unique: ["email", "team n"],
                references: [.init("team", "team", action()), .init("boss", "person", action())], defaults: ["team": 1],
                check: { ($0[4].integer ?? 0) <= 6 }, rows: [["p", "a", 1, .null, 1], ["q", "b", 1, "p", 2]]),
            // A row with NULL in its key is not synced, so no plan meets one.
            TableForm(
                "tag", "person label", key: "person label", notNull: "person label", references: [.init("person", "person", action())],
                rows: [["p", "red"]]),
            TableForm(
                "note", "id team", notNull: random.chance(30) ? "team" : "", references: [.init("team", "team", action(), to: "name")]),
        ]
    }

    private static func policies(_ random: inout SeededGenerator) -> MergePolicies {
        var policies = MergePolicies()
        for name in ["team", "person", "tag", "note"] {
            policies[name] = MergePolicies.Table(
                row: random.chance(20) ? random.one(of: [.overwrite, .rollback, .manual]) : nil,
                column: random.one(of: [.lastWriterWins, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump]),
                columns: random.chance(50) ? ["n": .sum] : [:], delete: random.one(of: DeleteRule.allCases),
                unique: random.one(of: UniqueRule.allCases), key: random.one(of: KeyRule.allCases), isWhole: random.chance(10))
        }
        return policies
    }

    // MARK: Steps

    mutating func step(_ random: inout SeededGenerator) throws {
        let author = Int.random(in: authors.indices, using: &random)
        switch Int.random(in: 0..<10, using: &random) {
        case 0: try pull(author)
        case 1:
            try pull(author)
            try push(author)
        default: write(author, &random)
        }
    }

    /// All send what they have, and see all that was sent.
    mutating func settle() throws {
        for author in authors.indices {
            try pull(author)
            try push(author)
        }
        for author in authors.indices {
            try pull(author)
            guard authors[author].rows.nonempty == rows.nonempty else { throw Broken(what: "author \(author) has other rows than the log") }
        }
    }

    private mutating func write(_ author: Int, _ random: inout SeededGenerator) {
        var draft = RandomEdits(authors[author].rows)
        for _ in 0..<Int.random(in: 1...3, using: &random) { draft.draw(&random) }
        let after = authors[author].rows.copy()
        // Such a write its own store would have refused.
        guard draft.isLegal, !draft.edits.isEmpty, (try? after.apply(draft.edits)) != nil else { return }
        authors[author].rows = after
        written += 1
        let time = Int64(written) + Int64.random(in: -20...20, using: &random)
        authors[author].outbox.append(Unsent(edits: draft.edits, id: written, time: time))
        noteKeys(draft.edits)
    }

    private mutating func noteKeys(_ edits: [RowEdit]) {
        for edit in edits where edit.table.name == "team" {
            highestKeys["team"] = max(highestKeys["team"] ?? 0, edit.new?[0].integer ?? 0)
        }
    }

    private mutating func pull(_ author: Int) throws {
        var identities = RowIdentities()
        for entry in log[authors[author].base...] { identities.note(entry.edits.map(\.noted), by: entry.mark) }
        let context = RebaseContext(
            rowIdentities: identities, policies: policies, replica: replica(author), relayTime: 1_000_000, highestKeys: highestKeys)
        let view = rows.copy()
        var outbox: [Unsent] = []
        for unsent in authors[author].outbox {
            let transaction = UnsentTransaction(unsent.edits, id: unsent.id, time: unsent.time, journal: unsent.journal)
            let rebased = try view.rebaseVerbatim(transaction, context)
            if let what = view.breach() ?? lost(unsent.edits, rebased, view) { throw Broken(what: what) }
            noteKeys(rebased.changes)
            guard !rebased.changes.isEmpty || !rebased.result.journal.isEmpty else { continue }
            outbox.append(Unsent(edits: rebased.changes, id: unsent.id, time: unsent.time, journal: rebased.result.journal))
        }
        authors[author] = Author(rows: view, base: log.count, outbox: outbox)
    }

    /// What an insert or an update wanted, and what is neither in a row nor in the journal (merge rule 34). Values that
    /// follow or combine are left out. nil if nothing is lost.
    private func lost(_ edits: [RowEdit], _ rebased: RebaseStory.Rebased, _ view: DictionaryRows) -> String? {
        let conflicts = rebased.result.journal.filter { $0.kind != .renumber }.suffix(rebased.result.conflicts)
        for edit in edits {
            guard let new = edit.new else { continue }
            let (table, key) = (edit.table, edit.table.key(of: edit.old ?? new))
            let isJournaled = conflicts.contains { $0.table == table.name && $0.key == key }
            var columns = Set(new.indices.filter { edit.old?[$0] != new[$0] })
            if case .revived(_, let changed)? = edit.mark { columns = Set(changed.map(\.column)) }
            columns.subtract(table.referenceColumns.union(table.primaryKey))
            let wanted = columns.filter { policies[table.name].policy(ofColumn: table.columns[$0].name) != .sum }
            if isJournaled || wanted.isEmpty { continue }
            if !view.rows(table.name).contains(where: { row in wanted.allSatisfy { row[$0] == new[$0] } }) {
                return "\(table.name) lost \(JournalText.text(new)) without a journal entry"
            }
        }
        return nil
    }

    private mutating func push(_ author: Int) throws {
        for unsent in authors[author].outbox {
            try rows.apply(unsent.edits)
            let mark = WriteMark(
                time: HybridTime(milliseconds: unsent.time), replica: replica(author), position: Position(Int64(log.count + 1)))
            log.append((unsent.edits, mark))
        }
        authors[author].outbox = []
        authors[author].base = log.count
    }

    private func replica(_ author: Int) -> ReplicaID { ReplicaID(high: UInt64(author), low: 0) }
}

extension DictionaryRows {
    /// The first row that breaks a constraint. nil if none does.
    func breach() -> String? {
        for (name, rows) in nonempty.sorted(by: { $0.key < $1.key }) {
            for (key, row) in rows {
                guard self[name].keyName(of: row) == key else { return "\(name) has a row under another key: \(row)" }
                remove(row, from: self[name])
                defer { put(row, in: self[name]) }
                if refusal(of: row, in: self[name]) != nil { return "\(name) would refuse its row \(row)" }
            }
        }
        return dangling().first.map { "\($0.table.name) has a row without its parent: \($0.row)" }
    }

    var nonempty: [String: [CandidateKey: [Value]]] { content.filter { !$0.value.isEmpty } }
}
