import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rule 25: the key of an insert is taken.
@Suite struct PlannedInsertTests {
    static let invoices = TableForm("invoice", "id title", isNumbered: true, rows: [[1, "old"]])
    static let items = TableForm("item", "id v n")

    @Test func `Rule 25: a taken number gives way to one above every number ever used or wanted`() throws {
        let story = RebaseStory([Self.invoices])
        try story.others(.insert("invoice", [2, "theirs"]), .insert("invoice", [9, "gone"]))
        try story.others(.delete("invoice", [9]))
        try story.own(.insert("invoice", [2, "mine"]))
        try story.own(.insert("invoice", [12, "wanted"]))
        let end = try story.rebase()
        #expect(end.rows("invoice") == ["12|wanted", "13|mine", "1|old", "2|theirs"])
        #expect(end.lines == ["renumber invoice(2) id: stored 2, incoming 13; incoming by renumber"])
    }

    @Test func `Rule 25: where the last number was used, a free number of the upper half is chosen`() throws {
        let story = RebaseStory([Self.invoices])
        try story.others(.insert("invoice", [.integer(.max), "last"]), .insert("invoice", [2, "theirs"]))
        try story.own(.insert("invoice", [2, "mine"]), .insert("invoice", [.integer(.max), "mine too"]))
        let end = try story.rebase()
        let own = end.inserted("invoice").compactMap { $0[0].integer }
        #expect(own.count == 2 && Set(own).count == 2 && own.allSatisfy { $0 > 1 << 62 && $0 < .max })
    }

    @Test func `Rule 25: another taken key means one row, and each column goes to the later writer`() throws {
        for (time, row, side) in [(2_000, "a|mine|2", "incoming"), (500, "a|theirs|1", "stored")] as [(Int64, String, String)] {
            let story = RebaseStory([Self.items])
            try story.others(.insert("item", ["a", "theirs", 1]))
            try story.own(.insert("item", ["a", "mine", 2]), time: time)
            let end = try story.rebase()
            #expect(end.rows("item") == [row])
            #expect(end.lines.first == "insert item(a) v: stored theirs, incoming mine; \(side) by lastWriterWins")
        }
    }

    @Test func `Rule 25: a number under mergeRows means one row`() throws {
        let story = RebaseStory([Self.invoices], MergePolicies(standard: .init(key: .mergeRows)))
        try story.others(.insert("invoice", [2, "theirs"]))
        try story.own(.insert("invoice", [2, "mine"]))
        #expect(try story.rebase().rows("invoice") == ["1|old", "2|mine"])
    }

    @Test func `Rule 25: a number that is a reference itself is not renumbered`() throws {
        let photo = TableForm("photo", "id file", isNumbered: true, references: [.init("id", "invoice", .cascade)])
        let story = RebaseStory([Self.invoices, photo])
        try story.others(.insert("photo", [1, "theirs"]))
        try story.own(.insert("photo", [1, "mine"]))
        #expect(try story.rebase().rows("photo") == ["1|mine"])
    }

    @Test func `Rule 25: sum does not add two inserts of one key, because that would double a copy`() throws {
        let story = RebaseStory([Self.items], MergePolicies(standard: .init(columns: ["n": .sum])))
        try story.others(.insert("item", ["a", "x", 5]))
        try story.own(.insert("item", ["a", "x", 7]))
        #expect(try story.rebase().rows("item") == ["a|x|7"])
    }

    @Test func `Rule 25: two renumberings of one row each use the next free number`() throws {
        let story = RebaseStory([Self.invoices])
        try story.others(.insert("invoice", [13, "theirs"]))
        try story.others(.insert("invoice", [14, "another author's, was 13"]))
        try story.own(.insert("invoice", [14, "mine, was 13"]))
        #expect(try story.rebase().rows("invoice").contains("15|mine, was 13"))
    }
}
