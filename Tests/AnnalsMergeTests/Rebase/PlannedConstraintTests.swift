import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rule 33: NOT NULL, CHECK, UNIQUE, and transactions that apply completely or not at all.
@Suite struct PlannedConstraintTests {
    static let people = TableForm(
        "person", "id email phone name", unique: ["email", "phone"], rows: [["x", "x@", "1", "X"], ["y", "y@", "2", "Y"]])
    static let badges = TableForm("badge", "id person", notNull: "person", references: [.init("person", "person", .refuse)])

    private func story(_ rule: UniqueRule, _ forms: [TableForm] = [people, badges]) -> RebaseStory {
        RebaseStory(forms, MergePolicies(standard: .init(unique: rule)))
    }

    // MARK: One row

    @Test func `Rule 33: a CHECK that two legal edits break together costs the author's changes of that row`() throws {
        let span = TableForm(
            "span", "id low high name", check: { ($0[1].integer ?? 0) <= ($0[2].integer ?? 0) },
            rows: [["a", 1, 9, "a"], ["b", 1, 9, "b"]])
        let story = RebaseStory([span])
        try story.others(.update("span", ["a"], ["low": 8]))
        try story.own(.update("span", ["a"], ["high": 5, "name": "mine"]), .update("span", ["b"], ["high": 5]))
        let end = try story.rebase()
        #expect(end.rows("span") == ["a|8|9|a", "b|1|5|b"])
        #expect(end.lines == ["check span(a) high,name: 9|a → stored 9|a, incoming 5|mine; stored by declared"])
    }

    @Test func `Rule 33: NOT NULL holds against a value that a policy made`() throws {
        var policies = MergePolicies(standard: .init(column: .sql("NULL")))
        policies.evaluate = { _, _ in .null }
        let story = RebaseStory([TableForm("item", "id v", notNull: "v", rows: [["a", "old"]])], policies)
        try story.others(.update("item", ["a"], ["v": "theirs"]))
        try story.own(.update("item", ["a"], ["v": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("item") == ["a|theirs"])
        #expect(end.lines == ["check item(a) v: old → stored theirs, incoming mine; stored by sql: NULL"])
    }

    // MARK: keepFirst

    @Test func `Rule 33: keepFirst sets an insert aside`() throws {
        let story = story(.keepFirst)
        try story.others(.update("person", ["x"], ["email": "a@"]))
        try story.own(.insert("person", ["q", "a@", .null, "Q"]), .insert("person", ["r", "r@", .null, "R"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["r|r@|NULL|R", "x|a@|1|X", "y|y@|2|Y"])
        #expect(end.lines == ["unique person(q): stored –, incoming q|a@|NULL|Q; stored by keepFirst"])
    }

    @Test func `Rule 33: under keepFirst an update gives up the columns of that index, and keeps the others`() throws {
        let story = story(.keepFirst)
        try story.others(.update("person", ["x"], ["email": "a@"]))
        try story.own(.update("person", ["y"], ["email": "a@", "phone": "9", "name": "mine"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["x|a@|1|X", "y|y@|9|mine"])
        #expect(end.lines == ["unique person(y) email: y@ → stored y@, incoming a@; stored by keepFirst"])
    }

    @Test func `Rule 33: a swap against a row that takes the value gives back both values`() throws {
        let form = TableForm("t", "id email", unique: ["email"], rows: [["x", "a"], ["y", "b"], ["z", "c"]])
        let story = story(.keepFirst, [form])
        try story.others(.update("t", ["x"], ["email": .null]), .update("t", ["z"], ["email": "a"]))
        try story.own(.update("t", ["x"], ["email": "b"]), .update("t", ["y"], ["email": "a"]))
        let end = try story.rebase()
        #expect(end.rows("t") == ["x|NULL", "y|b", "z|a"])
        #expect(
            Set(end.lines) == [
                "unique t(x) email: a → stored NULL, incoming b; stored by keepFirst",
                "unique t(y) email: b → stored b, incoming a; stored by keepFirst",
            ])
    }

    @Test func `Rule 33: of two rows of the transaction the later change gives way`() throws {
        let pair = TableForm("pair", "id a b", unique: ["a b"], rows: [["x", 1, 1], ["y", 2, 2]])
        let story = story(.keepLast, [pair])
        try story.others(.update("pair", ["x"], ["b": 7]), .update("pair", ["y"], ["b": 7]), time: 3_000)
        try story.own(.update("pair", ["x"], ["a": 5]), .update("pair", ["y"], ["a": 5]))
        let end = try story.rebase()
        #expect(end.rows("pair") == ["x|5|7", "y|2|7"])
        #expect(end.lines == ["unique pair(y) a: 2 → stored 2, incoming 5; stored by keepFirst"])
    }

    // MARK: keepLast

    @Test func `Rule 33: keepLast deletes the stored row, marked as set aside`() throws {
        let story = story(.keepLast)
        try story.others(.update("person", ["x"], ["email": "a@"]))
        try story.own(.insert("person", ["q", "a@", .null, "Q"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["q|a@|NULL|Q", "y|y@|2|Y"] && end.marks == [.setAside])
        #expect(end.lines == ["unique person(x): stored x|a@|1|X, incoming –; incoming by keepLast"])
    }

    @Test func `Rule 33: keepLast is keepFirst, if children forbid that the stored row goes`() throws {
        let story = story(.keepLast)
        try story.others(.update("person", ["x"], ["email": "a@"]), .insert("badge", ["b", "x"]))
        try story.own(.insert("person", ["q", "a@", .null, "Q"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["x|a@|1|X", "y|y@|2|Y"] && end.rows("badge") == ["b|x"])
        #expect(end.lines == ["unique person(q): stored –, incoming q|a@|NULL|Q; stored by keepFirst"])
    }

    // MARK: mergeRows

    @Test func `Rule 33: mergeRows makes an insert one with the stored row, and its children refer to that`() throws {
        let story = story(.mergeRows)
        try story.others(.update("person", ["x"], ["email": "a@"]))
        try story.own(.insert("person", ["q", "a@", .null, "Q"]), .insert("badge", ["b", "q"]))
        try story.own(.insert("badge", ["c", "q"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["x|a@|1|X", "y|y@|2|Y"] && end.rows("badge") == ["b|x", "c|x"])
        #expect(end.lines == ["unique person(q): stored –, incoming q|a@|NULL|Q; stored by mergeRows"])
    }

    @Test func `Rule 33: mergeRows deletes an updated row, marked as merged, and unseen children follow`() throws {
        let story = story(.mergeRows)
        try story.others(.update("person", ["x"], ["email": "a@"]), .insert("badge", ["unseen", "y"]))
        try story.own(.update("person", ["y"], ["email": "a@"]))
        let end = try story.rebase()
        #expect(end.rows("person") == ["x|a@|1|X"] && end.rows("badge") == ["unseen|x"])
        #expect(end.marks == [.merged(into: ["x"])])
        #expect(
            Set(end.lines) == [
                "unique person(y) email: y@ → stored –, incoming a@; stored by mergeRows",
                "unique person(y): stored y|y@|2|Y, incoming –; incoming by mergeRows",
            ])
    }

    // MARK: Whole transactions

    private func wholeStory() -> RebaseStory {
        var policies = MergePolicies(standard: .init(columns: ["n": .sum]))
        policies["seat"] = MergePolicies.Table(columns: ["n": .sum], isWhole: true)
        let seat = TableForm("seat", "id guest day n", unique: ["day"], rows: [["s", "old", "sun", 1]])
        return RebaseStory([seat, TableForm("log", "id text")], policies)
    }

    @Test func `Rule 33: in a whole table one change that is set aside takes all of its transaction with it`() throws {
        let story = wholeStory()
        try story.others(.insert("seat", ["1a", "theirs", "mon", 1]))
        try story.own(
            .insert("seat", ["2a", "mine", "tue", 1]), .insert("seat", ["2b", "mine", "mon", 1]), .insert("log", ["l", "booked"]))
        try story.own(.insert("log", ["m", "other"]))
        let end = try story.rebase()
        #expect(end.rows("seat") == ["1a|theirs|mon|1", "s|old|sun|1"] && end.rows("log") == ["m|other"])
        #expect(end.lines.count == 3 && end.lines.allSatisfy { $0.hasSuffix("stored by whole") })
    }

    @Test func `Rule 33: in a whole table one column that loses takes all with it, and a combined one does not`() throws {
        for (guest, rows) in [("mine", ["s|theirs|sun|6"]), ("old", ["s|theirs|sun|9"])] {
            let story = wholeStory()
            try story.others(.update("seat", ["s"], ["guest": "theirs", "n": 6]))
            try story.own(.update("seat", ["s"], ["guest": .text(guest), "n": 4]), .insert("log", ["l", "booked"]), time: 500)
            let end = try story.rebase()
            #expect(end.rows("seat") == rows)
            #expect(end.rows("log") == (guest == "mine" ? [] : ["l|booked"]))
        }
    }
}
