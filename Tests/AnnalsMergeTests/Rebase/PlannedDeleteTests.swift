import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rules 28 and 29: a delete and an update of one row, on either side.
@Suite struct PlannedDeleteTests {
    static let items = TableForm("item", "id v w", rows: [["a", "old", "old"]])

    private func story(_ rule: DeleteRule, _ forms: [TableForm] = [items]) -> RebaseStory {
        RebaseStory(forms, MergePolicies(standard: .init(delete: rule)))
    }

    // MARK: Rule 28

    @Test func `Rule 28: a row without marks is deleted`() throws {
        let story = story(.updateWins)
        try story.others(.insert("item", ["b", "theirs", "theirs"]))
        try story.own(.delete("item", ["a"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["b|theirs|theirs"])
        #expect(end.lines == [])
    }

    @Test(arguments: [
        (DeleteRule.lastWriterWins, Int64(2_000), true), (.lastWriterWins, 500, false), (.deleteWins, 500, true),
        (.updateWins, 2_000, false), (.manual, 2_000, false),
    ])
    func `Rule 28: a delete of a row that others changed goes by the delete rule`(rule: DeleteRule, time: Int64, isDeleted: Bool) throws {
        let story = story(rule)
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.own(.delete("item", ["a"]), time: time)
        let end = try story.rebase()
        #expect(end.rows("item") == (isDeleted ? [] : ["a|theirs|old"]))
        let sides = "a|old|old → stored a|theirs|old, incoming –; \(isDeleted ? "incoming" : "stored")"
        #expect(end.lines == ["deleteOfUpdated item(a): \(sides) by \(rule.rawValue)"])
    }

    @Test func `Rule 28: lastWriterWins compares a delete with the latest mark of the row`() throws {
        let story = story(.lastWriterWins)
        try story.others(.update("item", ["a"], ["v": "late"]), time: 3_000)
        try story.others(.update("item", ["a"], ["w": "early"]), time: 1_000)
        try story.own(.delete("item", ["a"]), time: 2_000)
        #expect(try story.rebase().rows("item") == ["a|late|early"])
    }

    @Test func `Rule 28: a row that is dead already stays dead, without a journal entry`() throws {
        let story = story(.updateWins)
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.others(.delete("item", ["a"]))
        try story.own(.delete("item", ["a"]))
        let end = try story.rebase()
        #expect(end.rows("item") == [] && end.lines == [])
    }

    @Test func `Rule 28: a row that was merged into another is not deleted, which is journaled`() throws {
        let forms = [TableForm("item", "id v", rows: [["a", "1"], ["b", "2"]])]
        let story = story(.deleteWins, forms)
        try story.others(.delete("item", ["a"], mark: .merged(into: ["b"])))
        try story.own(.delete("item", ["a"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["b|2"])
        #expect(end.lines == ["deleteOfUpdated item(a): a|1 → stored –, incoming –; stored by mergeRows"])
    }

    // MARK: Rule 29

    @Test(arguments: [
        (DeleteRule.lastWriterWins, Int64(2_000), true), (.lastWriterWins, 500, false), (.deleteWins, 2_000, false),
        (.updateWins, 500, true), (.manual, 2_000, false),
    ])
    func `Rule 29: an update of a row that others deleted goes by the delete rule`(rule: DeleteRule, time: Int64, isBack: Bool) throws {
        let story = story(rule)
        try story.others(.delete("item", ["a"]))
        try story.own(.update("item", ["a"], ["v": "mine"]), time: time)
        let end = try story.rebase()
        #expect(end.rows("item") == (isBack ? ["a|mine|old"] : []))
        let winner = isBack ? "incoming" : "stored"
        #expect(end.lines == ["updateOfDeleted item(a) v: old → stored –, incoming mine; \(winner) by \(rule.rawValue)"])
    }

    @Test func `Rule 29: the row is restored whole, and marked with the position of the delete`() throws {
        let story = story(.updateWins)
        try story.others(.update("item", ["a"], ["w": "theirs"]))
        try story.others(.delete("item", ["a"]))
        try story.own(.update("item", ["a"], ["v": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|mine|theirs"])
        #expect(end.marks == [.revived(Position(12), changed: [ColumnChange(column: 1, old: "old", new: "mine")])])
    }

    @Test func `Rule 29: the author's columns are merged into the restored row by the column policies`() throws {
        let counters = TableForm("counter", "id n v", rows: [["a", 10, "old"]])
        let story = RebaseStory([counters], MergePolicies(standard: .init(columns: ["n": .sum], delete: .updateWins)))
        try story.others(.update("counter", ["a"], ["n": 11, "v": "theirs"]))
        try story.others(.delete("counter", ["a"]))
        try story.own(.update("counter", ["a"], ["n": 15, "v": "mine"]), time: 500)
        #expect(try story.rebase().rows("counter") == ["a|16|theirs"])
    }

    @Test func `Rule 29: the update loses where another row has the key now`() throws {
        let story = story(.updateWins)
        try story.others(.delete("item", ["a"]))
        try story.others(.insert("item", ["a", "another", "row"]))
        try story.own(.update("item", ["a"], ["v": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|another|row"])
        #expect(end.lines == ["updateOfDeleted item(a) v: old → stored –, incoming mine; stored by updateWins"])
    }

    @Test func `Rule 29: in a second rebase a revived insert is an update, if others revived the same row`() throws {
        let (seen, now) = (RowMark.revived(Position(5), changed: [ColumnChange(column: 1, old: "old", new: "theirs")]), "mine")
        let own = RowMark.revived(Position(5), changed: [ColumnChange(column: 2, old: "old", new: .text(now))])
        let story = RebaseStory([TableForm("item", "id v w")])
        try story.others(.insert("item", ["a", "theirs", "old"], mark: seen))
        try story.own(.insert("item", ["a", "old", "mine"], mark: own))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|theirs|mine"])
        #expect(end.rebased[0].changes.map(\.mark) == [nil] && end.lines == [])
    }

    @Test func `Rule 29: in a second rebase a revived insert is set aside, if others put another row under its key`() throws {
        let own = RowMark.revived(Position(5), changed: [ColumnChange(column: 2, old: "old", new: "mine")])
        for mark in [nil, RowMark.revived(Position(6), changed: [])] {
            let story = RebaseStory([TableForm("item", "id v w")])
            try story.others(.insert("item", ["a", "another", "row"], mark: mark))
            try story.own(.insert("item", ["a", "old", "mine"], mark: own))
            let end = try story.rebase()
            #expect(end.rows("item") == ["a|another|row"])
            #expect(end.lines.count == 1)
        }
    }

    @Test func `Rule 29: a row is not restored if this replica lacks columns of its table`() throws {
        let story = story(.updateWins)
        story.log.lacking = ["item"]
        try story.others(.delete("item", ["a"]))
        try story.own(.update("item", ["a"], ["v": "mine"]))
        #expect(try story.rebase().rows("item") == [])
    }

    @Test func `Rule 29: a restored row whose unique value is taken stays dead, and the update is set aside`() throws {
        let people = TableForm("person", "id email name", unique: ["email"], rows: [["a", "a@x", "Ann"]])
        let story = story(.updateWins, [people])
        try story.others(.delete("person", ["a"]))
        try story.others(.insert("person", ["b", "a@x", "Bob"]))
        try story.own(.update("person", ["a"], ["name": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["b|a@x|Bob"])
        #expect(end.lines.count == 1)
    }
}
