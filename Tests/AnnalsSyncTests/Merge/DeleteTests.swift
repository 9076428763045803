import AnnalsMerge
import Testing

/// Merge rules 28 and 29: a delete and an update of one row.
@Suite("Merge rules 28 and 29: deletes") struct DeleteTests {
    static let schema = """
        CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL, v TEXT, w TEXT);
        INSERT INTO item VALUES ('a', 'v', 'w');
        """
    static let update = "UPDATE item SET v = 'new' WHERE id = 'a'"
    static let delete = "DELETE FROM item WHERE id = 'a'"

    private func policies(_ rule: DeleteRule) -> MergePolicies { MergePolicies(standard: .init(delete: rule)) }

    @Test(
        "A delete of a row that others changed",
        arguments: [
            (DeleteRule.lastWriterWins, Story.Later.second, true), (.lastWriterWins, .first, false), (.deleteWins, .first, true),
            (.updateWins, .second, false), (.manual, .second, false),
        ])
    func deleteOfUpdated(rule: DeleteRule, later: Story.Later, isDeleted: Bool) async throws {
        let outcome = try await Story.conflict(Self.schema, first: Self.update, second: Self.delete, later: later, policies(rule))
        #expect(try await outcome.rows("item") == (isDeleted ? [] : ["a|new|w"]))
        #expect(
            outcome.lines == [
                "deleteOfUpdated item(a): a|v|w → stored a|new|w, incoming –; \(isDeleted ? "incoming" : "stored") by \(rule.rawValue)"
            ])
    }

    @Test(
        "An update of a row that others deleted",
        arguments: [
            (DeleteRule.lastWriterWins, Story.Later.second, true), (.lastWriterWins, .first, false), (.deleteWins, .second, false),
            (.updateWins, .first, true), (.manual, .second, false),
        ])
    func updateOfDeleted(rule: DeleteRule, later: Story.Later, isBack: Bool) async throws {
        let outcome = try await Story.conflict(Self.schema, first: Self.delete, second: Self.update, later: later, policies(rule))
        #expect(try await outcome.rows("item") == (isBack ? ["a|new|w"] : []))
        #expect(
            outcome.lines == [
                "updateOfDeleted item(a) v: v → stored –, incoming new; \(isBack ? "incoming" : "stored") by \(rule.rawValue)"
            ])
    }

    @Test("Two deletes of one row are one, without a word")
    func twoDeletes() async throws {
        let outcome = try await Story.conflict(Self.schema, first: Self.delete, second: Self.delete)
        #expect(try await outcome.rows("item") == [])
        #expect(outcome.lines == [])
    }

    @Test("The row comes back whole, with what others wrote before they deleted it")
    func whole() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: ["UPDATE item SET w = 'theirs' WHERE id = 'a'", Self.delete], second: [Self.update])
        #expect(try await outcome.rows("item") == ["a|new|theirs"])
    }

    @Test("A sum goes on from the value with which the row died")
    func sumOfDead() async throws {
        var policies = policies(.updateWins)
        policies["counter"].columns["n"] = .sum
        policies["counter"].delete = .updateWins
        let outcome = try await Story.conflict(
            "CREATE TABLE counter (id TEXT PRIMARY KEY NOT NULL, n INTEGER); INSERT INTO counter VALUES ('a', 10);",
            first: ["UPDATE counter SET n = n + 1", "DELETE FROM counter"], second: ["UPDATE counter SET n = n + 5"], policies)
        #expect(try await outcome.rows("counter") == ["a|16"])
    }

    @Test("A row cannot come back where another life has its key")
    func keyTaken() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: [Self.delete, "INSERT INTO item VALUES ('a', 'second', 'life')"], second: [Self.update],
            policies(.updateWins))
        #expect(try await outcome.rows("item") == ["a|second|life"])
        #expect(outcome.lines == ["updateOfDeleted item(a) v: v → stored –, incoming new; stored by updateWins"])
    }

    @Test("An insert after a delete of one's own makes a second life, also where the first is deleted by both")
    func secondLifeOfOnesOwn() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: [Self.delete],
            second: [Self.delete, "INSERT INTO item VALUES ('a', 'mine', 'mine')", "UPDATE item SET v = 'more' WHERE id = 'a'"])
        #expect(try await outcome.rows("item") == ["a|more|mine"])
        #expect(outcome.lines == [])
    }

    @Test("A row comes back under a new key where its update moved it")
    func movedBack() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE node (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES node (id) ON UPDATE CASCADE, v TEXT);
            INSERT INTO node VALUES (1, NULL, 'x');
            """, first: "DELETE FROM node WHERE id = 1",
            second: "UPDATE node SET id = 5 WHERE id = 1; INSERT INTO node VALUES (6, 5, 'child')")
        #expect(try await outcome.rows("node") == ["5|NULL|x", "6|5|child"])
    }

    // MARK: Restored twice

    /// Replica 0 deletes the row, and replicas 1 and 2 both restore it.
    @Test("Two authors bring the same life back: it is one row, with both sides' columns")
    func sameLife() async throws {
        let story = try await Story(Self.schema, replicas: 3)
        try await story.write(0, Self.delete)
        try await story.write(1, "UPDATE item SET v = 'one' WHERE id = 'a'")
        try await story.write(2, "UPDATE item SET w = 'two' WHERE id = 'a'")
        let outcome = try await story.end()
        #expect(try await outcome.rows("item") == ["a|one|two"])
    }

    @Test("A second rebase of a row brought back: alive again, only the author's columns are compared")
    func secondRebase() async throws {
        let story = try await Story(Self.schema, replicas: 3)
        try await story.write(0, Self.delete)
        try await story.write(1, "UPDATE item SET v = 'one' WHERE id = 'a'")
        try await story.write(2, "UPDATE item SET v = 'two' WHERE id = 'a'")
        try await story.world.sync(0)
        // Replica 2 repeats its work on the delete, and cannot send it. Meanwhile replica 1 restores the row too.
        try await story.pull(2)
        try await story.world.sync(1)
        try await story.write(1, "UPDATE item SET w = 'later' WHERE id = 'a'")
        try await story.world.sync(1)
        let outcome = try await story.end()
        #expect(try await outcome.rows("item") == ["a|two|later"])
        #expect(outcome.lines.contains("update item(a) v: v → stored one, incoming two; incoming by lastWriterWins"))
    }

    @Test("A second rebase of a row brought back: free again, it comes back again")
    func freeAgain() async throws {
        let story = try await Story(Self.schema, replicas: 3)
        try await story.write(0, Self.delete)
        try await story.write(2, "UPDATE item SET v = 'two' WHERE id = 'a'")
        try await story.world.sync(0)
        try await story.pull(2)
        try await story.write(0, "INSERT INTO item VALUES ('a', 'other', 'life')")
        try await story.world.sync(0)
        try await story.write(0, Self.delete)
        try await story.world.sync(0)
        let outcome = try await story.end()
        #expect(try await outcome.rows("item") == ["a|two|w"])
    }

    @Test("A second rebase of a row brought back: taken by another life, it is set aside with the columns of its author")
    func takenByAnotherLife() async throws {
        let story = try await Story(Self.schema, replicas: 3)
        try await story.write(0, Self.delete)
        try await story.write(2, "UPDATE item SET v = 'two' WHERE id = 'a'")
        try await story.world.sync(0)
        try await story.pull(2)
        try await story.write(0, "INSERT INTO item VALUES ('a', 'other', 'life')")
        let outcome = try await story.end()
        #expect(try await outcome.rows("item") == ["a|other|life"])
        #expect(outcome.lines.last == "updateOfDeleted item(a) v: v → stored –, incoming two; stored by lastWriterWins")
    }

    @Test("A second rebase of a row brought back: dead again after others brought it back, the delete rule decides again")
    func deadAgain() async throws {
        let story = try await Story(Self.schema, replicas: 3)
        try await story.write(0, Self.delete)
        try await story.write(1, "UPDATE item SET w = 'one' WHERE id = 'a'")
        try await story.write(2, "UPDATE item SET v = 'two' WHERE id = 'a'")
        try await story.world.sync(0)
        try await story.pull(2)
        try await story.world.sync(1)
        try await story.write(1, Self.delete)
        try await story.world.sync(1)
        let outcome = try await story.end()
        #expect(try await outcome.rows("item") == [])
        #expect(outcome.lines.contains { $0.hasPrefix("updateOfDeleted item(a) v: v → stored –, incoming two; stored") })
    }
}
