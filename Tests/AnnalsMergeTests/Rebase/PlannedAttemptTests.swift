import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rules 19, 21 and 30: what is written in which order, whose writes count, and that repeated attempts end.
@Suite struct PlannedAttemptTests {
    static let items = TableForm("item", "id v tag", unique: ["tag"], rows: [["a", "old", "1"], ["b", "old", "2"]])

    // MARK: Rule 19

    @Test func `Rule 19: rows that swap a unique value are all removed before one is written`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.own(.update("item", ["a"], ["tag": "2"]), .update("item", ["b"], ["tag": "1"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|theirs|2", "b|old|1"])
        #expect(end.lines == [] && end.attempts == 1)
    }

    @Test func `Rule 19: rows that swap their keys are all removed before one is written`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.own(.update("item", ["a"], ["id": "b"]), .update("item", ["b"], ["id": "a"]))
        #expect(try story.rebase().rows("item") == ["a|old|2", "b|theirs|1"])
    }

    @Test func `Rule 19: a value that one row gives up in the transaction can be taken by an insert`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.own(.insert("item", ["c", "new", "1"]), .update("item", ["a"], ["tag": .null]), .delete("item", ["b"]))
        #expect(try story.rebase().rows("item") == ["a|theirs|NULL", "c|new|1"])
    }

    @Test func `Rule 19: only rows whose unique values change are displaced`() throws {
        let rows = DictionaryRows([Self.items])
        let edits: [RebaseStory.Edit] = [.update("item", ["a"], ["v": "new"]), .update("item", ["b"], ["tag": "3"])]
        let transaction = UnsentTransaction(RebaseStory.changes(edits, of: rows), id: 1, time: 1)
        let context = RebaseContext(rowIdentities: RowIdentities(), replica: RebaseStory.author, relayTime: 0)
        let plan = try RebasePlanner(transaction, context, rows).plan()
        #expect(plan.deleted.isEmpty)
        #expect(plan.displaced.map(\.after) == [["b", "old", "3"]])
        #expect(plan.written.map(\.after) == [["a", "new", "1"]])
    }

    // MARK: Rule 21

    @Test func `Rule 21: each cell has the time of its last writer`() throws {
        let story = RebaseStory([TableForm("item", "id v w", rows: [["a", "old", "old"]])])
        try story.others(.update("item", ["a"], ["v": "early", "w": "early"]), time: 1_000)
        try story.others(.update("item", ["a"], ["v": "late"]), time: 3_000)
        try story.own(.update("item", ["a"], ["v": "mine", "w": "mine"]), time: 2_000)
        #expect(try story.rebase().rows("item") == ["a|late|mine"])
    }

    @Test func `Rule 21: a revived insert cancels the delete that it answers`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.delete("item", ["a"]))
        try story.others(.insert("item", ["a", "old", "1"], mark: .revived(Position(11), changed: [])))
        try story.own(.update("item", ["a"], ["v": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|mine|1", "b|old|2"])
        #expect(end.lines == [])
    }

    @Test func `Rule 21: only the columns that a row was revived with have a new writer`() throws {
        let story = RebaseStory([TableForm("item", "id v w", rows: [["a", "old", "old"]])])
        let changed = ColumnChange(column: 1, old: "old", new: "theirs")
        try story.others(.delete("item", ["a"]))
        try story.others(.insert("item", ["a", "theirs", "old"], mark: .revived(Position(11), changed: [changed])), time: 3_000)
        try story.own(.update("item", ["a"], ["v": "mine", "w": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|theirs|mine"])
        #expect(end.lines == ["update item(a) v: old → stored theirs, incoming mine; stored by lastWriterWins"])
    }

    // MARK: Rule 30

    @Test func `Rule 30: a bulk load with many duplicates needs few attempts`() throws {
        let story = RebaseStory([TableForm("item", "id v tag", unique: ["tag"])])
        for index in 0..<100 { try story.others(.insert("item", [.text("a\(index)"), "theirs", .integer(Int64(index))])) }
        let edits = (0..<200).map { RebaseStory.Edit.insert("item", [.text("b\($0)"), "mine", .integer(Int64($0))]) }
        try story.own(edits)
        let end = try story.rebase()
        #expect(end.rows("item").count == 200 && end.lines.count == 100)
        #expect(end.attempts == 2)
    }

    @Test func `Rule 30: a chain of unique values that each give way ends, with one attempt for each`() throws {
        let rows: [[Value]] = (0..<20).map { [.text("r\($0 / 10)\($0 % 10)"), .integer($0)] }
        let story = RebaseStory([TableForm("item", "id tag", unique: ["tag"], rows: rows + [["z", 99]])])
        // Each row takes the value of the next one. Another author has taken the last one's new value.
        try story.others(.update("item", ["z"], ["tag": 20]))
        try story.own((0..<20).map { RebaseStory.Edit.update("item", [rows[$0][0]], ["tag": .integer(Int64($0 + 1))]) })
        let end = try story.rebase()
        #expect(end.rows("item") == rows.map(JournalText.text) + ["z|20"])
        #expect(end.lines.count == 20 && end.attempts <= 21)
    }

    @Test func `Rule 30: at worst all of the transaction is set aside, and pulled rows stay`() throws {
        let form = TableForm("item", "id v", check: { $0[1] != "bad" }, rows: [["a", "old"], ["b", "old"]])
        var policies = MergePolicies(standard: .init(column: .sql("x")))
        policies.evaluate = { _, _ in "bad" }
        let story = RebaseStory([form], policies)
        try story.others(.update("item", ["a"], ["v": "theirs"]), .update("item", ["b"], ["v": "theirs"]))
        try story.own(.update("item", ["a"], ["v": "mine"]), .update("item", ["b"], ["v": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|theirs", "b|theirs"])
        #expect(end.rebased[0].changes.isEmpty && end.lines.count == 2)
    }

    @Test func `Rule 30: an effect that violates a constraint costs its cause, and nothing else`() throws {
        let team = TableForm("team", "id name", rows: [["t", "ops"], ["u", "dev"]])
        let person = TableForm("person", "id team", references: [.init("team", "team", .setNull)], check: { $0[1] != .null })
        let story = RebaseStory([team, person])
        try story.others(.insert("person", ["p", "t"]))
        try story.own(.delete("team", ["t"]), .update("team", ["u"], ["name": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["t|ops", "u|mine"] && end.rows("person") == ["p|t"])
        #expect(end.lines == ["check team(t): t|ops → stored t|ops, incoming –; stored by declared"])
    }
}
