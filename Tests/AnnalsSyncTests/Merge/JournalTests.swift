import AnnalsCore
import AnnalsMerge
import AnnalsReplica
import AnnalsStore
import GRDB
import Testing

/// Merge rule 34: the contents of the conflict journal, also after a further rebase.
@Suite("Merge rule 34: the conflict journal") struct JournalTests {
    static let schema = """
        CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL, v TEXT, tag TEXT UNIQUE);
        INSERT INTO item VALUES ('a', 'old', NULL), ('b', 'old', NULL);
        """

    @Test("Worked example: disjoint work leaves nothing, and nobody waits")
    func disjoint() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY, budget INTEGER);
            CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, team INTEGER REFERENCES team (id), email TEXT UNIQUE);
            INSERT INTO team VALUES (1, 5);
            """, first: "UPDATE team SET budget = 6", second: "INSERT INTO person VALUES ('p', 1, 'p@')")
        #expect(try await outcome.rows("person") == ["p|1|p@"])
        #expect(outcome.lines == [])
    }

    @Test("A transaction of which nothing is left is sent all the same, with its entry")
    func onlyTheEntry() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE item SET v = 'theirs' WHERE id = 'a'", second: "UPDATE item SET v = 'mine' WHERE id = 'a'",
            later: .first)
        #expect(outcome.lines == ["update item(a) v: old → stored theirs, incoming mine; stored by lastWriterWins"])
        #expect(try await outcome.position() == 3)
    }

    @Test("A transaction of which nothing is left and that lost nothing is not sent")
    func nothingAtAll() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE item SET v = 'same' WHERE id = 'a'", second: "UPDATE item SET v = 'same' WHERE id = 'a'")
        #expect(outcome.lines == [])
        #expect(try await outcome.position() == 2)
    }

    @Test("A further rebase adds its own entries and keeps what still holds")
    func furtherRebase() async throws {
        let story = try await Story(Self.schema, replicas: 3)
        try await story.write(0, "UPDATE item SET v = 'zero' WHERE id = 'a'")
        try await story.write(1, "UPDATE item SET v = 'one' WHERE id = 'a'")
        try await story.write(2, "UPDATE item SET v = 'two' WHERE id = 'a'")
        try await story.world.sync(0)
        try await story.pull(2)
        try await story.world.sync(1)
        let outcome = try await story.end()
        #expect(try await outcome.rows("item") == ["a|two|NULL", "b|old|NULL"])
        #expect(
            outcome.lines == [
                "update item(a) v: old → stored zero, incoming one; incoming by lastWriterWins",
                "update item(a) v: old → stored zero, incoming two; incoming by lastWriterWins",
                "update item(a) v: zero → stored one, incoming two; incoming by lastWriterWins",
            ])
    }

    @Test("What others lost and have again is dropped")
    func takenBack() async throws {
        let story = try await Story(
            """
            CREATE TABLE span (id TEXT PRIMARY KEY NOT NULL, low INTEGER, high INTEGER, CHECK (low <= high));
            INSERT INTO span VALUES ('a', 3, 9);
            """, replicas: 3)
        try await story.write(0, "UPDATE span SET low = 5")
        try await story.write(2, "UPDATE span SET low = 8")
        try await story.world.sync(0)
        try await story.pull(2)
        // On replica 2, 8 overwrote 5. It violates the upper bound that replica 1 sets now.
        try await story.world.sync(1)
        try await story.write(1, "UPDATE span SET high = 6")
        try await story.world.sync(1)
        let outcome = try await story.end()
        #expect(try await outcome.rows("span") == ["a|5|6"])
        #expect(outcome.lines == ["check span(a) low: 5 → stored 5, incoming 8; stored by declared"])
    }

    @Test("What a row holds instead is told: a reference that became NULL")
    func thirdValue() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY);
            CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, team INTEGER REFERENCES team (id) ON DELETE SET NULL);
            INSERT INTO team VALUES (1), (2), (3); INSERT INTO person VALUES ('p', 1);
            """, first: ["UPDATE person SET team = 3", "DELETE FROM team WHERE id = 2"], second: ["UPDATE person SET team = 2"])
        #expect(try await outcome.rows("person") == ["p|NULL"])
        #expect(
            Set(outcome.lines) == [
                "foreignKey person(p) team: 1 → stored NULL, incoming 2; stored by declared",
                "update person(p) team: 1 → stored 3, incoming NULL; incoming by lastWriterWins",
            ])
    }

    @Test("An entry names who wrote the stored value, when and where")
    func whoWrote() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE item SET v = 'theirs', tag = 't' WHERE id = 'a'", second: "DELETE FROM item WHERE id = 'a'")
        let entry = try #require(outcome.journal.first)
        #expect(entry.storedPosition?.rawValue == 2 && entry.storedTime != nil && entry.storedReplica != nil)
        #expect(entry.base == [.text("a"), .text("old"), .null] && entry.stored == [.text("a"), .text("theirs"), .text("t")])
        #expect(entry.incoming == nil && entry.winner == .incoming)
    }

    @Test("A transaction that changes one row through several rules tells each once")
    func several() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE item SET v = 'theirs' WHERE id = 'a'; UPDATE item SET tag = 't' WHERE id = 'b'",
            second: "UPDATE item SET v = 'mine', tag = 't' WHERE id = 'a'")
        #expect(try await outcome.rows("item") == ["a|mine|NULL", "b|old|t"])
        #expect(
            outcome.lines == [
                "unique item(a) tag: NULL → stored NULL, incoming t; stored by keepFirst",
                "update item(a) v: old → stored theirs, incoming mine; incoming by lastWriterWins",
            ])
    }

    @Test("Old lines go once a person was shown them, and those that wait only by force")
    func purge() async throws {
        let story = try await Story(Self.schema, replicas: 2)
        for round in 1...4 {
            try await story.write(0, "UPDATE item SET v = 'zero \(round)' WHERE id = 'a'")
            try await story.write(1, "UPDATE item SET v = 'one \(round)' WHERE id = 'a'")
            try await story.world.settle()
        }
        let store = story.world.stores[0]
        let ids = try await store.conflicts(limit: 100).map(\.conflict.id)
        #expect(ids == [1, 2, 3, 4])
        // Older than a moment in the future: all entries.
        let all = Duration.seconds(-1_000_000_000)
        #expect(try await store.purgeConflicts(olderThan: all) == 0)
        try await store.noteConflictsSeen([1, 2, 4])
        #expect(try await store.conflicts(limit: 100).map(\.conflict.isSeen) == [true, true, false, true])
        #expect(try await store.purgeConflicts(olderThan: .seconds(1_000_000_000)) == 0)
        try await store.write { db in try db.execute(sql: "UPDATE annals_conflicts SET waits = 1 WHERE id = 2") }
        #expect(try await store.purgeConflicts(olderThan: all) == 1)
        #expect(try await store.conflicts(limit: 100).map(\.conflict.id) == [2, 3, 4])
        #expect(try await store.purgeConflicts(olderThan: all, force: true) == 2)
        #expect(try await store.conflicts(limit: 100).map(\.conflict.id) == [4])
        // The other replica decides about its own entries.
        #expect(try await story.world.stores[1].conflicts(limit: 100).count == 4)
        try await story.write(0, "UPDATE item SET v = 'zero' WHERE id = 'a'")
        try await story.write(1, "UPDATE item SET v = 'one' WHERE id = 'a'")
        try await story.world.settle()
        #expect(try await store.conflicts(limit: 100).map(\.conflict.id) == [4, 5])
        #expect(try await store.digest() == story.world.stores[1].digest())
    }
}
