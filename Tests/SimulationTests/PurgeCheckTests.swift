import AnnalsCore
import Testing

@testable import Simulation

@Suite("The judge sees what a purge did wrong")
struct PurgeCheckTests {
    typealias Small = SmallSchema

    private func purge(to number: Int64, from before: Int64 = 0, isForced: Bool = false, readerAt reader: Int64 = 9) -> PurgeCheck {
        PurgeCheck(before: before, now: number, isForced: isForced, readers: [0: .init(number: reader)])
    }

    @Test("It passes a reader that has not read, work that is not pushed, or goes back: law 10")
    func purges() {
        #expect(purge(to: 9).complaint == nil)
        #expect(purge(to: 10).complaint == "and reader 0 is at 9")
        #expect(purge(to: 10, isForced: true).complaint == nil && purge(to: 10, isForced: true).passed == [0])
        #expect(purge(to: 3, from: 4, isForced: true).complaint != nil)
        var unpushed = purge(to: 5)
        unpushed.unpushed = [7, 6]
        #expect(unpushed.complaint == nil)
        unpushed.unpushed = [7, 5]
        #expect(unpushed.complaint == "and its transaction 5 is not pushed")
    }

    @Test("A purge before a token takes the transaction that it names, stops before it, or does not tell that the token has expired")
    func tokens() {
        func law(to now: Int64, from before: Int64 = 0, isForced: Bool = false, isExpired: Bool = false) -> String? {
            let check = TokenPurgeCheck(token: 5, before: before, now: now, isForced: isForced, isExpired: isExpired)
            return check.complaint?.law
        }
        #expect(law(to: 4) == nil && law(to: 4, isForced: true) == nil)
        #expect(law(to: 5) == "law 10" && law(to: 5, isForced: true) == "law 10")
        #expect(law(to: 3) == nil && law(to: 3, isForced: true) == "law 10")
        #expect(law(to: 5, from: 5) == nil && law(to: 6, from: 5) == "law 10")
        #expect(law(to: 6, from: 6) == "law 8" && law(to: 6, from: 6, isForced: true, isExpired: true) == nil)
        #expect(law(to: 7, from: 6, isExpired: true) == "law 10" && law(to: 4, isExpired: true) == "law 8")
    }

    @Test("A reader misses something, gets it twice, or is not told what it missed: law 10")
    func readers() {
        var reader = Replica.Reader(number: 3)
        #expect(reader.complaint([4, 5], limit: 2, newest: 9, isReported: false) == nil)
        #expect(reader.complaint([4, 5, 6], limit: 9, newest: 6, isReported: false) == nil)
        #expect(reader.complaint([], limit: 9, newest: 3, isReported: false) == nil)
        for wrong in [[5, 6], [4], [3, 4], [5, 4], [4, 5, 6]] as [[Int64]] {
            #expect(reader.complaint(wrong, limit: 2, newest: 9, isReported: false) != nil)
        }
        #expect(reader.complaint([], limit: 2, newest: 9, isReported: true) != nil)
        reader.isExpired = true
        #expect(reader.complaint([], limit: 2, newest: 9, isReported: true) == nil)
        #expect(reader.complaint([4, 5], limit: 2, newest: 9, isReported: false) != nil)
    }

    @Test("Of a journal that was purged the lines that remain are in their order")
    func journals() {
        #expect([1, 3].isContained(inOrderIn: [1, 2, 3]) && [Int]().isContained(inOrderIn: [1]))
        #expect(![3, 1].isContained(inOrderIn: [1, 2, 3]) && ![1, 1].isContained(inOrderIn: [1, 2]) && ![4].isContained(inOrderIn: [1]))
    }

    // MARK: Coming back

    /// Others deleted a's row and set b's column, and nobody knows when.
    private var snapshot: Oracle.Entry {
        let before = Small.rows([Small.row("a", 1), Small.row("b", 1)])
        let changes = before.differences(to: Small.rows([Small.row("b", 5)])).compactMap { Change($0) }
        return Oracle.Entry(
            position: 1, span: 1...1, replica: Small.identifier(20), base: 0, receivedAt: 100_000, info: Small.info(100, at: 2_000),
            changes: changes, journal: [], isSnapshot: true)
    }

    private func laws(_ wanted: Change, became: [Change], journal: [JournalEntry] = []) -> [String] {
        let (before, after) = (Small.body(1, at: 3_000, [wanted]), Small.body(1, at: 3_000, became, journal))
        let rewrite = Rebase.Rewrite(before: before, after: after)
        let rebase = Rebase(
            replica: Small.identifier(10), rewrites: [rewrite], pulled: [snapshot], start: Small.rows([Small.row("b", 5)]))
        var laws: [String] = []
        do { try LossChecks(schema: Small.schema, rebase: rebase).run() } catch { laws.append(error.law) }
        do {
            var judge = Judge(schema: Small.schema, rebase: rebase)
            try judge.run()
        } catch { laws.append(error.law) }
        return laws
    }

    @Test("What a returning replica loses without a journal entry: law 5; either side may win, because nobody knows which was later")
    func returning() {
        let mine = Small.update("b", 1, .integer(1), .integer(7))
        let line = JournalEntry(
            kind: .update, table: "t1", key: [.text("b")], columns: ["a"], policy: "lastWriterWins", stored: [.integer(5)],
            incoming: [.integer(7)], winner: .stored)
        #expect(laws(mine, became: []) == ["law 5 (asked)"])
        #expect(laws(mine, became: [], journal: [line]) == [])
        #expect(laws(mine, became: [Small.update("b", 1, .integer(5), .integer(7))]) == ["law 5 (stored)"])
        #expect(laws(mine, became: [Small.update("b", 1, .integer(5), .integer(7))], journal: [line]) == [])
    }

    @Test("Work that both halves of a copied file held may come twice, where the log of the first was gone; other work may not")
    func repeated() throws {
        var oracle = try Oracle(schema: Small.schema, rows: Rows())
        try oracle.absorb([Small.frame(1, transaction: 1, inserting: [[.text("a"), .integer(1), .null]])])
        let again = try Small.frame(2, transaction: 1, inserting: [[.text("b"), .integer(1), .null]])
        #expect(throws: Violation.self) {
            var other = oracle
            try other.absorb([again])
        }
        oracle.allowRepeating(Small.identifier(1))
        try oracle.absorb([again])
        #expect(oracle.head == 2)
        let third = try Small.frame(3, transaction: 1, inserting: [[.text("c"), .integer(1), .null]])
        #expect(throws: Violation.self) { try oracle.absorb([third]) }
    }

    // MARK: Plans

    @Test("Purges, snapshots and scenes are drawn in a share of the worlds, and nowhere when they are switched off")
    func plans() {
        let plans = (1...200).map { PlanMaker.make(seed: $0, features: Features()) }
        func count(_ matches: (Step.Action) -> Bool) -> Int { plans.count { $0.steps.contains { matches($0.action) } } }
        #expect(20...50 ~= plans.count { $0.snapshots != nil })
        #expect(20...50 ~= count { if case .purgeRelay = $0 { true } else { false } })
        #expect(20...50 ~= count { if case .purgeHistory = $0 { true } else { false } })
        #expect(80...120 ~= plans.count { $0.steps.contains { 800..<900 ~= $0.number } })
        var features = Features()
        (features.relayPurges, features.historyPurges, features.scenes) = (false, false, false)
        // Faults have numbers beyond all others.
        features.faultsLeftOut = Set(Faults.all.map { $0.name })
        for seed in 1...200 as ClosedRange<UInt64> {
            let plan = PlanMaker.make(seed: seed, features: features)
            #expect(plan.snapshots == nil && plan.steps.allSatisfy { $0.number < 740 })
        }
    }
}
