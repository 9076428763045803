import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rules 22 to 24: which row a key means, and what references follow.
@Suite struct PlannedNameTests {
    static let items = TableForm("item", "id v w", rows: [["a", "old", "old"], ["b", "old", "old"]])
    static let team = TableForm("team", "id name", isNumbered: true, rows: [[7, "first"], [8, "second"]])

    static func person(_ action: MergeTable.DeleteAction) -> TableForm {
        TableForm("person", "id team", references: [.init("team", "team", action)], rows: [["p", .null]])
    }

    // MARK: Rule 22

    @Test func `Rule 22: a row that others inserted under a dead row's key is another row`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.delete("item", ["a"]))
        try story.others(.insert("item", ["a", "new", "new"]))
        try story.own(.update("item", ["a"], ["v": "mine"]), time: 500)
        try story.own(.delete("item", ["a"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|new|new", "b|old|old"])
        #expect(end.lines == ["updateOfDeleted item(a) v: old → stored –, incoming mine; stored by lastWriterWins"])
    }

    @Test func `Rule 22: a row that moved is followed, through a swap and a further move`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.update("item", ["a"], ["id": "b"]), .update("item", ["b"], ["id": "a"]))
        try story.others(.update("item", ["b"], ["id": "d"]))
        try story.own(.update("item", ["a"], ["v": "mine"]))
        #expect(try story.rebase().rows("item") == ["a|old|old", "d|mine|old"])
    }

    @Test func `Rule 22: a row that was set aside is not changed, and not deleted twice`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.delete("item", ["a"], mark: .setAside), .delete("item", ["b"], mark: .setAside))
        try story.own(.update("item", ["a"], ["v": "mine"]), .delete("item", ["b"]))
        let end = try story.rebase()
        #expect(end.rows("item") == [])
        #expect(end.lines == ["updateOfDeleted item(a) v: old → stored –, incoming mine; stored by lastWriterWins"])
    }

    @Test func `Rule 22: a row that was revived is the old row`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.delete("item", ["a"]))
        try story.others(.insert("item", ["a", "theirs", "old"], mark: .revived(Position(11), changed: [])))
        try story.own(.update("item", ["a"], ["w": "mine"]))
        #expect(try story.rebase().rows("item") == ["a|theirs|mine", "b|old|old"])
    }

    // MARK: Rule 23

    @Test func `Rule 23: a later transaction means the row that an earlier one renumbered`() throws {
        let story = RebaseStory([Self.team, Self.person(.refuse)])
        try story.others(.insert("team", [9, "theirs"]))
        try story.own(.insert("team", [9, "mine"]))
        try story.own(.update("team", [9], ["name": "renamed"]), .update("person", ["p"], ["team": 9]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["10|renamed", "7|first", "8|second", "9|theirs"])
        #expect(end.rows("person") == ["p|10"])
        #expect(end.rebased[0].result.renamed.map { [$0.old, $0.new] } == [[[9], [10]]])
    }

    @Test func `Rule 23: what means a row that was set aside goes with it, also in a later transaction`() throws {
        let person = TableForm("person", "id email", unique: ["email"])
        let badge = TableForm("badge", "id person", notNull: "person", references: [.init("person", "person", .refuse)])
        let story = RebaseStory([person, badge])
        try story.others(.insert("person", ["p", "a@x"]))
        try story.own(.insert("person", ["q", "a@x"]))
        try story.own(.insert("badge", ["b", "q"]), .update("person", ["q"], ["email": "b@x"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["p|a@x"] && end.rows("badge") == [])
        #expect(
            end.lines == [
                "unique person(q): stored –, incoming q|a@x; stored by keepFirst",
                "foreignKey badge(b): stored –, incoming b|q; stored by declared",
                "updateOfDeleted person(q) email: a@x → stored –, incoming b@x; stored by lastWriterWins",
            ])
    }

    @Test func `Rule 23: a later transaction means the row with which an insert was joined`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.insert("item", ["c", "theirs", "theirs"]))
        try story.own(.insert("item", ["c", "mine", "theirs"]))
        try story.own(.update("item", ["c"], ["w": "later"]))
        #expect(try story.rebase().rows("item") == ["a|old|old", "b|old|old", "c|mine|later"])
    }

    // MARK: Rule 24

    @Test func `Rule 24: a reference follows its parent to the key that others gave it`() throws {
        let story = RebaseStory([Self.team, Self.person(.setNull)])
        try story.others(.update("team", [7], ["id": 70]))
        try story.own(.update("person", ["p"], ["team": 7]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["p|70"])
        #expect(end.lines == [])
    }

    @Test func `Rule 24: a reference to a dead team means that one, though another team has its key now`() throws {
        let story = RebaseStory([Self.team, Self.person(.setNull)])
        try story.others(.delete("team", [7]))
        try story.others(.insert("team", [7, "another"]))
        try story.own(.update("person", ["p"], ["team": 7]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["p|NULL"])
        #expect(end.lines == ["foreignKey person(p) team: NULL → stored NULL, incoming 7; stored by declared"])
    }

    @Test func `Rule 24: a reference within the key follows its parent`() throws {
        let photo = TableForm("photo", "team name", key: "team name", references: [.init("team", "team", .cascade)])
        let story = RebaseStory([Self.team, photo])
        try story.others(.insert("team", [9, "theirs"]))
        try story.own(.insert("team", [9, "mine"]), .insert("photo", [9, "front"]))
        #expect(try story.rebase().rows("photo") == ["10|front"])
    }

    @Test func `Rule 24: a reference to a row that was merged into another names that one`() throws {
        let story = RebaseStory([Self.team, Self.person(.setNull)])
        try story.others(.delete("team", [7], mark: .merged(into: [8])))
        try story.own(.update("person", ["p"], ["team": 7]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["p|8"])
        #expect(end.lines == [])
    }

    @Test func `Rule 24: a reference by a unique value follows the value that others gave the parent`() throws {
        let team = TableForm("team", "id code", unique: ["code"], rows: [["t", "ops"]])
        let person = TableForm("person", "id team", references: [.init("team", "team", .setNull, to: "code")])
        let story = RebaseStory([team, person])
        try story.others(.update("team", ["t"], ["code": "OPS"]))
        try story.own(.insert("person", ["p", "ops"]))
        #expect(try story.rebase().rows("person") == ["p|OPS"])
    }
}
