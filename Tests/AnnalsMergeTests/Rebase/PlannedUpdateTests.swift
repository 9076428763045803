import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rules 26 and 27: columns that two authors changed, and rows that get another key.
@Suite struct PlannedUpdateTests {
    static let items = TableForm("item", "id v w", rows: [["a", "old", "old"]])
    static let counters = TableForm("counter", "id n", rows: [["a", 10]])

    // MARK: Rule 26

    @Test func `Rule 26: a column that only the author changed gets the author's value`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.own(.update("item", ["a"], ["w": "mine"]), time: 500)
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|theirs|mine"])
        #expect(end.lines == [])
    }

    @Test func `Rule 26: two equal values are no conflict`() throws {
        let story = RebaseStory([Self.items])
        try story.others(.update("item", ["a"], ["v": "same"]))
        try story.own(.update("item", ["a"], ["v": "same"]), time: 500)
        let end = try story.rebase()
        #expect(end.rebased[0].changes.isEmpty && end.lines == [])
    }

    @Test func `Rule 26: lastWriterWins goes by time, and ties by replica id`() throws {
        let greatest = ReplicaID(high: 3, low: 0)
        for (time, replica, v) in [
            (2_000, RebaseStory.other, "mine"), (500, RebaseStory.other, "theirs"), (1_000, RebaseStory.other, "mine"),
            (1_000, greatest, "theirs"),
        ] as [(Int64, ReplicaID, String)] {
            let story = RebaseStory([Self.items])
            try story.others(.update("item", ["a"], ["v": "theirs"]), time: 1_000, by: replica)
            try story.own(.update("item", ["a"], ["v": "mine"]), time: time)
            #expect(try story.rebase().rows("item") == ["a|\(v)|old"], "\(time) \(replica)")
        }
    }

    @Test func `Rule 26: a time counts as at most 60 seconds beyond the relay's clock`() throws {
        let limit = RebaseStory.relayTime + 60_000
        let story = RebaseStory([Self.items])
        try story.others(.update("item", ["a"], ["v": "theirs"]), time: limit + 1)
        try story.own(.update("item", ["a"], ["v": "mine"]), time: limit + 5_000_000)
        #expect(try story.rebase().rows("item") == ["a|theirs|old"])
    }

    @Test(arguments: [
        (ColumnPolicy.mergeByPropertyStoreTrump, Int64(2_000), "theirs"), (.mergeByPropertyObjectTrump, 500, "mine"),
    ])
    func `Rule 26: the trumps go by side, and not by time`(policy: ColumnPolicy, time: Int64, v: String) throws {
        let story = RebaseStory([Self.items], MergePolicies(standard: .init(column: policy)))
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.own(.update("item", ["a"], ["v": "mine"]), time: time)
        #expect(try story.rebase().rows("item") == ["a|\(v)|old"])
    }

    @Test func `Rule 26: sum adds both differences, also if both sides reached the same value`() throws {
        let story = RebaseStory([Self.counters], MergePolicies(standard: .init(columns: ["n": .sum])))
        try story.others(.update("counter", ["a"], ["n": 15]))
        try story.own(.update("counter", ["a"], ["n": 15]))
        let end = try story.rebase()
        #expect(end.rows("counter") == ["a|20"])
        #expect(end.lines == [])
    }

    @Test func `Rule 26: what a policy cannot combine goes to the later writer`() throws {
        let story = RebaseStory([Self.counters], MergePolicies(standard: .init(columns: ["n": .sum])))
        try story.others(.update("counter", ["a"], ["n": "many"]))
        try story.own(.update("counter", ["a"], ["n": 15]), time: 500)
        let end = try story.rebase()
        #expect(end.rows("counter") == ["a|many"])
        #expect(end.lines == ["update counter(a) n: 10 → stored many, incoming 15; stored by lastWriterWins"])
    }

    @Test(arguments: [RowPolicy.rollback, .manual])
    func `Rule 26: rollback and manual drop the author's changes of the row if others wrote any cell of it`(policy: RowPolicy) throws {
        let story = RebaseStory([Self.items], MergePolicies(standard: .init(row: policy)))
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.own(.update("item", ["a"], ["w": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|theirs|old"])
        #expect(end.lines == ["update item(a) w: old → stored old, incoming mine; stored by \(policy)"])
    }

    @Test func `Rule 26: overwrite writes the author's whole row`() throws {
        let story = RebaseStory([Self.items], MergePolicies(standard: .init(row: .overwrite)))
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.own(.update("item", ["a"], ["w": "mine"]), time: 500)
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|old|mine"])
        #expect(end.lines == ["update item(a) v: old → stored theirs, incoming old; incoming by overwrite"])
    }

    @Test func `Rule 26: a row policy does not apply to a row that nobody else wrote`() throws {
        let story = RebaseStory([Self.items], MergePolicies(standard: .init(row: .rollback)))
        try story.others(.insert("item", ["b", "theirs", "theirs"]))
        try story.own(.update("item", ["a"], ["w": "mine"]))
        #expect(try story.rebase().rows("item") == ["a|old|mine", "b|theirs|theirs"])
    }

    // MARK: Rule 27

    static let team = TableForm("team", "id name", rows: [["t", "ops"], ["u", "dev"]])

    static func person(_ action: MergeTable.DeleteAction = .refuse) -> TableForm {
        TableForm("person", "id team", references: [.init("team", "team", action)], rows: [["seen", "t"]])
    }

    @Test func `Rule 27: a move keeps what others wrote, and children follow, seen or not`() throws {
        let story = RebaseStory([Self.team, Self.person()])
        try story.others(.update("team", ["t"], ["name": "theirs"]), .insert("person", ["unseen", "t"]))
        try story.own(.update("team", ["t"], ["id": "z"]), .update("person", ["seen"], ["team": "z"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["u|dev", "z|theirs"])
        #expect(end.rows("person") == ["seen|z", "unseen|z"])
        #expect(end.lines == [])
    }

    @Test func `Rule 27: the key of a row that two authors moved goes to the later one`() throws {
        for (time, key) in [(2_000, "mine"), (500, "theirs")] as [(Int64, String)] {
            let story = RebaseStory([Self.items])
            try story.others(.update("item", ["a"], ["id": "theirs"]))
            try story.own(.update("item", ["a"], ["id": "mine", "v": "mine"]), time: time)
            #expect(try story.rebase().rows("item") == ["\(key)|mine|old"])
        }
    }

    @Test func `Rule 27: both columns of a key are given up, if another row has taken one of them`() throws {
        let plots = TableForm("plot", "field number crop", key: "field number", unique: ["number"], rows: [["f", 1, "rye"]])
        let story = RebaseStory([plots])
        try story.others(.insert("plot", ["h", 2, "theirs"]))
        try story.own(.update("plot", ["f", 1], ["field": "g", "number": 2, "crop": "oat"]))
        let end = try story.rebase()
        #expect(end.rows("plot") == ["f|1|oat", "h|2|theirs"])
        #expect(end.lines == ["unique plot(f|1) field,number: f|1 → stored f|1, incoming g|2; stored by keepFirst"])
    }

    @Test func `Rule 27: unseen children whose key has the reference follow, and their children too`() throws {
        let room = TableForm("room", "team n", key: "team n", references: [.init("team", "team", .cascade)])
        let chair = TableForm("chair", "id team n", references: [.init("team n", "room", .cascade, to: "team n")])
        let story = RebaseStory([Self.team, room, chair])
        try story.others(.insert("room", ["t", 1]), .insert("chair", ["c", "t", 1]))
        try story.own(.update("team", ["t"], ["id": "z"]))
        let end = try story.rebase()
        #expect(end.rows("room") == ["z|1"] && end.rows("chair") == ["c|z|1"])
    }

    @Test func `Rule 27: unseen children follow two parents that swap their keys`() throws {
        let story = RebaseStory([Self.team, Self.person()])
        try story.others(.insert("person", ["unseen", "t"]))
        try story.own(
            .update("team", ["t"], ["id": "u"]), .update("team", ["u"], ["id": "t"]), .update("person", ["seen"], ["team": "u"]))
        let end = try story.rebase()
        #expect(end.rows("team") == ["t|dev", "u|ops"])
        #expect(end.rows("person") == ["seen|u", "unseen|u"])
    }
}
