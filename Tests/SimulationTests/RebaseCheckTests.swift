import AnnalsCore
import Testing

@testable import Simulation

/// One rebase made by hand: T set a row's column, and another replica's entry did before. What the checks say to it
/// depends on what became of T.
@Suite("The judge and the loss checks see what a rebase did wrong")
struct RebaseCheckTests {
    typealias Small = SmallSchema

    static let row = Small.row("a", 5, "x")
    static let mine = Small.update("a", 1, .integer(1), .integer(7))

    private func entry(_ changes: [Change], at milliseconds: Int64) -> Oracle.Entry {
        Oracle.Entry(
            position: 1, span: 1...1, replica: Small.identifier(20), base: 0, receivedAt: 100_000, info: Small.info(100, at: milliseconds),
            changes: changes, journal: [])
    }

    /// Another set a from 1 to 5, at 2,000.
    private var theirs: Oracle.Entry { entry([Small.update("a", 1, .integer(1), .integer(5))], at: 2_000) }

    private func rebase(
        _ wanted: Change, at milliseconds: Int64, pulled: Oracle.Entry, start: Rows = Small.rows([row]), became: [Change],
        journal: [JournalEntry] = []
    ) -> Rebase {
        let before = Small.body(1, at: milliseconds, [wanted])
        let after = Small.body(1, at: milliseconds, became, journal)
        return Rebase(
            replica: Small.identifier(10), rewrites: [Rebase.Rewrite(before: before, after: after)], pulled: [pulled], start: start)
    }

    private func line(
        _ kind: JournalEntry.Kind, _ columns: [String], stored: Value? = nil, incoming: Value? = nil, _ winner: JournalEntry.Side
    ) -> JournalEntry {
        JournalEntry(
            kind: kind, table: "t1", key: [.text("a")], columns: columns, policy: "lastWriterWins", stored: stored.map { [$0] },
            incoming: incoming.map { [$0] }, winner: winner)
    }

    private func laws(_ rebase: Rebase) -> [String] {
        var laws: [String] = []
        do { try LossChecks(schema: Small.schema, rebase: rebase).run() } catch { laws.append(error.law) }
        do {
            var judge = Judge(schema: Small.schema, rebase: rebase)
            try judge.run()
        } catch { laws.append(error.law) }
        return laws
    }

    @Test("The later writer wins, and the earlier value is in the journal")
    func right() {
        let wins = line(.update, ["a"], stored: .integer(5), incoming: .integer(7), .incoming)
        let became = [Small.update("a", 1, .integer(5), .integer(7))]
        #expect(laws(rebase(Self.mine, at: 3_000, pulled: theirs, became: became, journal: [wins])) == [])
        let loses = line(.update, ["a"], stored: .integer(5), incoming: .integer(7), .stored)
        #expect(laws(rebase(Self.mine, at: 1_000, pulled: theirs, became: [], journal: [loses])) == [])
    }

    @Test("The earlier writer wins: merge rule 26")
    func wrongWinner() {
        let wins = line(.update, ["a"], stored: .integer(5), incoming: .integer(7), .incoming)
        let became = [Small.update("a", 1, .integer(5), .integer(7))]
        #expect(laws(rebase(Self.mine, at: 1_000, pulled: theirs, became: became, journal: [wins])) == ["merge rule 26"])
        let loses = line(.update, ["a"], stored: .integer(5), incoming: .integer(7), .stored)
        #expect(laws(rebase(Self.mine, at: 3_000, pulled: theirs, became: [], journal: [loses])) == ["merge rule 26"])
    }

    @Test("A value that loses and is not in the journal: law 5, on both sides")
    func lost() {
        #expect(laws(rebase(Self.mine, at: 1_000, pulled: theirs, became: [])) == ["law 5 (asked)"])
        let became = [Small.update("a", 1, .integer(5), .integer(7))]
        #expect(laws(rebase(Self.mine, at: 3_000, pulled: theirs, became: became)) == ["law 5 (stored)"])
    }

    /// A copied file that comes back: equal keys are equal rows, and nothing may be left of a transaction.
    @Test("A new row is one with the snapshot's, and what the snapshot has otherwise is in the journal: law 5")
    func joined() {
        let wanted = Small.change("t1", .insert(Self.row))
        func snapshot(_ row: [Cell]) -> Oracle.Entry {
            var snapshot = entry([Small.change("t1", .insert(row))], at: 2_000)
            snapshot.isSnapshot = true
            return snapshot
        }
        #expect(laws(rebase(wanted, at: 3_000, pulled: snapshot(Self.row), became: [])) == [])
        let other = Small.row("a", 9, "x")
        let start = Small.rows([other])
        #expect(laws(rebase(wanted, at: 3_000, pulled: snapshot(other), start: start, became: [])) == ["law 5 (asked)"])
        let loses = line(.insert, ["a"], stored: .integer(9), incoming: .integer(5), .stored)
        #expect(laws(rebase(wanted, at: 3_000, pulled: snapshot(other), start: start, became: [], journal: [loses])) == [])
        #expect(laws(rebase(wanted, at: 3_000, pulled: entry([], at: 2_000), start: Rows(), became: [])) == ["law 5 (key)"])
    }

    @Test("A delete against a later update, and what the journal must say of it: merge rule 28")
    func deletes() {
        let wanted = Small.change("t1", .delete(Small.row("a", 1, "x")))
        let refused = line(.deleteOfUpdated, [], stored: .integer(5), .stored)
        #expect(laws(rebase(wanted, at: 1_000, pulled: theirs, became: [], journal: [refused])) == [])
        #expect(laws(rebase(wanted, at: 1_000, pulled: theirs, became: [])) == ["law 5 (delete)"])
        let done = [Small.change("t1", .delete(Self.row))]
        let gone = line(.deleteOfUpdated, ["a"], stored: .integer(5), .incoming)
        #expect(laws(rebase(wanted, at: 3_000, pulled: theirs, became: done, journal: [gone])) == [])
        #expect(laws(rebase(wanted, at: 1_000, pulled: theirs, became: done, journal: [gone])) == ["merge rule 28"])
    }

    @Test("An update of a row that was deleted later comes to nothing, of one deleted before brings it back: merge rule 29")
    func revivals() {
        let death = entry([Small.change("t1", .delete(Small.row("a", 1, "x")))], at: 2_000)
        let loses = line(.updateOfDeleted, ["a"], incoming: .integer(7), .stored)
        #expect(laws(rebase(Self.mine, at: 1_000, pulled: death, start: Small.rows([]), became: [], journal: [loses])) == [])
        #expect(laws(rebase(Self.mine, at: 3_000, pulled: death, start: Small.rows([]), became: [], journal: [loses])) == ["merge rule 29"])
        let back = [Small.change("t1", .insert(Small.row("a", 7, "x")))]
        #expect(laws(rebase(Self.mine, at: 3_000, pulled: death, start: Small.rows([]), became: back)) == [])
        #expect(laws(rebase(Self.mine, at: 1_000, pulled: death, start: Small.rows([]), became: back)) == ["merge rule 29"])
    }

    @Test("An update of a row that a constraint's rule set aside comes to nothing")
    func setAside() {
        var withdrawn = Small.change("t1", .delete(Small.row("a", 1, "x")))
        withdrawn.isSetAside = true
        let loses = line(.updateOfDeleted, ["a"], incoming: .integer(7), .stored)
        let pulled = entry([withdrawn], at: 2_000)
        #expect(laws(rebase(Self.mine, at: 3_000, pulled: pulled, start: Small.rows([]), became: [], journal: [loses])) == [])
        #expect(laws(rebase(Self.mine, at: 3_000, pulled: pulled, start: Small.rows([]), became: [])) == ["law 5 (asked)"])
    }

    @Test("A key that became its default is that row, in this transaction and in later ones; the rest is held against it")
    func defaultedKey() {
        let insert = Small.change("t1", .insert(Small.row("b", 1, "x")))
        let reference = JournalEntry(
            kind: .foreignKey, table: "t1", key: [.text("b")], columns: ["k"], policy: "declared", stored: [.text("a")],
            incoming: [.text("b")], winner: .stored)
        let later = Small.update("b", 1, .integer(1), .integer(7))
        func rebase(_ changed: [Change], _ journal: [JournalEntry]) -> Rebase {
            let first = Rebase.Rewrite(before: Small.body(1, at: 3_000, [insert]), after: Small.body(1, at: 3_000, [], journal))
            let second = Rebase.Rewrite(before: Small.body(2, at: 3_000, [later]), after: Small.body(2, at: 3_000, changed))
            return Rebase(
                replica: Small.identifier(10), rewrites: [first, second], pulled: [entry([], at: 2_000)],
                start: Small.rows([Small.row("a", 1, "x")]))
        }
        #expect(laws(rebase([Small.update("a", 1, .integer(1), .integer(7))], [reference])) == [])
        #expect(laws(rebase([Small.update("a", 1, .integer(1), .integer(7))], [])) == ["law 5 (key)"])
        #expect(laws(rebase([], [reference])) == ["law 5 (asked)"])
    }

    @Test("A delete of a row that another copy of the file brought in under another number means that row")
    func duplicates() {
        func row(_ key: Int64) -> Change { Small.change("t2", .insert([.integer(key), .null])) }
        let renumbered = JournalEntry(
            kind: .renumber, table: "t2", key: [.integer(1)], columns: ["k"], policy: "renumber", stored: [.integer(1)],
            incoming: [.integer(2)], winner: .incoming)
        var pulled = entry([row(2)], at: 2_000)
        pulled.journal = [renumbered]
        let wanted = Small.change("t2", .delete([.integer(1), .null]))
        let start = Small.rows([], [[.integer(1), .text("stranger")], [.integer(2), .null]])
        var rebase = rebase(wanted, at: 3_000, pulled: pulled, start: start, became: [Small.change("t2", .delete([.integer(2), .null]))])
        #expect(laws(rebase).contains("law 5 (delete)"))
        rebase.known[pulled.info.id] = Small.body(100, at: 2_000, [row(1)])
        #expect(laws(rebase) == [])
    }
}
