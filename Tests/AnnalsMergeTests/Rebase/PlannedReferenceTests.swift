import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rules 31 and 32: parents that are dead, deleted or set aside.
@Suite struct PlannedReferenceTests {
    typealias Action = MergeTable.DeleteAction

    static let team = TableForm("team", "id name", rows: [["t", "ops"], ["u", "dev"]])

    private func person(_ action: Action, default value: Value = .null, notNull: String = "") -> TableForm {
        TableForm(
            "person", "id team name", notNull: notNull, references: [.init("team", "team", action)], defaults: ["team": value],
            rows: [["old", "u", "old"]])
    }

    // MARK: Rule 31, the parent is dead

    @Test(arguments: [
        (Action.cascade, ["u|dev"], ["old|u|old"]), (.setNull, ["u|dev"], ["new|NULL|x", "old|u|old"]),
        (.setDefault, ["u|dev"], ["new|u|x", "old|u|old"]), (.refuse, ["t|ops", "u|dev"], ["new|t|x", "old|u|old"]),
    ])
    func `Rule 31: a new child of a dead parent does what its foreign key declares`(action: Action, team: [String], person: [String]) throws
    {
        let story = RebaseStory([Self.team, self.person(action, default: "u")])
        try story.others(.delete("team", ["t"]))
        try story.own(.insert("person", ["new", "t", "x"]))
        let end = try story.rebase()
        #expect(end.rows("team") == team && end.rows("person") == person)
        #expect(end.lines.count == 1)
    }

    @Test func `Rule 31: SET NULL of a column that may not be NULL sets the child aside`() throws {
        let story = RebaseStory([Self.team, person(.setNull, notNull: "team")])
        try story.others(.delete("team", ["t"]))
        try story.own(.insert("person", ["new", "t", "x"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["old|u|old"])
        #expect(end.lines == ["foreignKey person(new): stored –, incoming new|t|x; stored by declared"])
    }

    @Test func `Rule 31: an update that refers to a dead parent by a CASCADE key keeps its other columns`() throws {
        let story = RebaseStory([Self.team, person(.cascade)])
        try story.others(.delete("team", ["t"]))
        try story.own(.update("person", ["old"], ["team": "t", "name": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["old|u|mine"])
        #expect(end.lines == ["foreignKey person(old) team: u → stored u, incoming t; stored by declared"])
    }

    @Test func `Rule 31: a parent comes back with its own parents, and with what its delete removed by CASCADE`() throws {
        let firm = TableForm("firm", "id", rows: [["f"]])
        let team = TableForm("team", "id firm", references: [.init("firm", "firm", .refuse)], rows: [["t", "f"]])
        let room = TableForm("room", "id team", references: [.init("team", "team", .cascade)], rows: [["r", "t"]])
        let chair = TableForm("chair", "id room", references: [.init("room", "room", .cascade)], rows: [["c", "r"]])
        let person = TableForm("person", "id team", references: [.init("team", "team", .refuse)])
        let story = RebaseStory([firm, team, room, chair, person])
        try story.others(.delete("chair", ["c"]), .delete("room", ["r"]), .delete("team", ["t"]), .delete("firm", ["f"]))
        try story.own(.insert("person", ["p", "t"]))
        let end = try story.rebase()
        #expect(["firm", "team", "room", "chair", "person"].map(end.rows) == [["f"], ["t|f"], ["r|t"], ["c|r"], ["p|t"]])
        #expect(end.marks.count == 4 && end.marks.allSatisfy { $0 == .revived(Position(11), changed: []) })
    }

    @Test func `Rule 31: a child that an earlier entry deleted does not come back with its parent`() throws {
        let room = TableForm("room", "id team", references: [.init("team", "team", .cascade)], rows: [["r", "t"]])
        let story = RebaseStory([Self.team, room, person(.refuse)])
        try story.others(.delete("room", ["r"]))
        try story.others(.delete("team", ["t"]))
        try story.own(.insert("person", ["new", "t", "x"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["t|ops", "u|dev"] && end.rows("room") == [])
    }

    @Test func `Rule 31: a dead parent whose key another row has stays dead, and the child is set aside`() throws {
        let story = RebaseStory([Self.team, person(.refuse)])
        try story.others(.delete("team", ["t"]))
        try story.others(.insert("team", ["t", "another"]))
        try story.own(.insert("person", ["new", "t", "x"]), .update("person", ["old"], ["team": "t", "name": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["t|another", "u|dev"] && end.rows("person") == ["old|u|mine"])
        #expect(
            end.lines == [
                "foreignKey person(new): stored –, incoming new|t|x; stored by declared",
                "foreignKey person(old) team: u → stored u, incoming t; stored by declared",
            ])
    }

    @Test func `Rule 31: a dead parent whose unique value another row has stays dead, and the child is set aside`() throws {
        var team = Self.team
        team.unique = [["name"]]
        let story = RebaseStory([team, person(.refuse)])
        try story.others(.delete("team", ["t"]))
        try story.others(.insert("team", ["v", "ops"]))
        try story.own(.insert("person", ["new", "t", "x"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["u|dev", "v|ops"] && end.rows("person") == ["old|u|old"])
    }

    // MARK: Rule 31, the parent is deleted

    @Test(arguments: [
        (Action.cascade, ["u|dev"], ["old|u|old"]), (.setNull, ["u|dev"], ["new|NULL|x", "old|u|old"]),
        (.setDefault, ["u|dev"], ["new|u|x", "old|u|old"]), (.refuse, ["t|ops", "u|dev"], ["new|t|x", "old|u|old"]),
    ])
    func `Rule 31: a delete of a parent that got an unseen child does what the foreign key declares`(
        action: Action, team: [String], person: [String]
    ) throws {
        let story = RebaseStory([Self.team, self.person(action, default: "u")])
        try story.others(.insert("person", ["new", "t", "x"]))
        try story.own(.delete("team", ["t"]))
        let end = try story.rebase()
        #expect(end.rows("team") == team && end.rows("person") == person)
        #expect(end.lines.count == 1)
    }

    @Test func `Rule 31: a default that names the deleted parent, or no parent, refuses the delete`() throws {
        for value in ["t", "nobody"] as [Value] {
            let story = RebaseStory([Self.team, person(.setDefault, default: value)])
            try story.others(.insert("person", ["new", "t", "x"]))
            try story.own(.delete("team", ["t"]))
            #expect(try story.rebase().rows("team") == ["t|ops", "u|dev"], "\(value)")
        }
    }

    @Test func `Rule 31: a cascade runs on to the unseen children of unseen children`() throws {
        let node = TableForm("node", "id parent", references: [.init("parent", "node", .cascade)], rows: [["a", .null], ["z", .null]])
        let story = RebaseStory([node])
        try story.others(.insert("node", ["b", "a"]), .insert("node", ["c", "b"]), .insert("node", ["d", "c"]))
        try story.own(.delete("node", ["a"]))
        let end = try story.rebase()
        #expect(end.rows("node") == ["z|NULL"] && end.lines.count == 3)
    }

    @Test func `Rule 31: where a delete is refused, the deletes and SET NULLs that came with it are too`() throws {
        let room = TableForm("room", "id team", references: [.init("team", "team", .cascade)], rows: [["r", "t"], ["s", "u"]])
        let chair = TableForm("chair", "id room", references: [.init("room", "room", .cascade)], rows: [["c", "r"]])
        let note = TableForm("note", "id team text", references: [.init("team", "team", .setNull)], rows: [["n", "t", "old"]])
        let story = RebaseStory([Self.team, room, chair, note, person(.refuse)])
        try story.others(.insert("person", ["new", "t", "x"]))
        try story.own(
            .delete("team", ["t"]), .delete("room", ["r"]), .delete("chair", ["c"]), .delete("room", ["s"]),
            .update("note", ["n"], ["team": .null, "text": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["t|ops", "u|dev"] && end.rows("room") == ["r|t"] && end.rows("chair") == ["c|r"])
        #expect(end.rows("note") == ["n|t|mine"] && end.lines.count == 4)
    }

    @Test func `Rule 31: an unseen child is one of the deleted parent, though the transaction gave another row its key`() throws {
        let story = RebaseStory([Self.team, person(.setNull)])
        try story.others(.insert("person", ["new", "t", "x"]))
        try story.own(.delete("team", ["t"]), .update("team", ["u"], ["id": "t"]), .update("person", ["old"], ["team": "t"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["t|dev"])
        #expect(end.rows("person") == ["new|NULL|x", "old|t|old"])
    }

    // MARK: Rule 32

    @Test(arguments: [
        (Action.setNull, ["new|NULL|x", "old|NULL|mine"]), (.cascade, ["old|u|mine"]), (.refuse, ["old|u|mine"]),
    ])
    func `Rule 32: of a parent that is set aside, a child loses the reference, or goes with it`(action: Action, person: [String]) throws {
        var team = Self.team
        team.unique = [["name"]]
        let story = RebaseStory([team, self.person(action)])
        try story.others(.insert("team", ["v", "art"]))
        try story.own(
            .insert("team", ["w", "art"]), .insert("person", ["new", "w", "x"]),
            .update("person", ["old"], ["team": "w", "name": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["t|ops", "u|dev", "v|art"] && end.rows("person") == person)
        #expect(end.lines.count == 3)
    }

    @Test(arguments: [(Action.setNull, ["new|NULL|x", "old|u|old"]), (.refuse, ["old|u|old"])])
    func `Rule 32: a parent that others set aside is not restored, and no other row with its key is meant`(
        action: Action, person: [String]
    ) throws {
        let story = RebaseStory([Self.team, self.person(action)])
        try story.others(.delete("team", ["t"], mark: .setAside))
        try story.others(.insert("team", ["t", "another"]))
        try story.own(.insert("person", ["new", "t", "x"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["t|another", "u|dev"] && end.rows("person") == person)
        #expect(end.lines.count == 1)
    }

    @Test func `Rule 32: the child of a child goes with a parent that is set aside`() throws {
        let node = TableForm("node", "id parent tag", unique: ["tag"], references: [.init("parent", "node", .refuse)])
        let story = RebaseStory([node])
        try story.others(.insert("node", ["a", .null, 1]))
        try story.own(.insert("node", ["d", "c", 4]), .insert("node", ["c", "b", 3]), .insert("node", ["b", .null, 1]))
        let end = try story.rebase()
        #expect(end.rows("node") == ["a|NULL|1"] && end.lines.count == 3)
    }
}
