import AnnalsMerge
import Testing

/// Merge rules 22 to 24: row outcomes, and names within the outbox.
@Suite("Merge rules 22–24: who is meant") struct RowOutcomeTests {
    static let keyed = """
        CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL, v TEXT, w TEXT);
        INSERT INTO item VALUES ('a', 'old', 'old'), ('b', 'old', 'old');
        """

    @Test("A row that others inserted under a dead row's key is another life: changes meant for the first never touch it")
    func twoLives() async throws {
        let outcome = try await Story.conflict(
            Self.keyed, first: ["DELETE FROM item WHERE id = 'a'", "INSERT INTO item VALUES ('a', 'new', 'new')"],
            second: ["UPDATE item SET v = 'mine' WHERE id = 'a'"])
        #expect(try await outcome.rows("item") == ["a|new|new", "b|old|old"])
        #expect(outcome.lines == ["updateOfDeleted item(a) v: old → stored –, incoming mine; stored by lastWriterWins"])
    }

    @Test("A delete meant for the first life leaves the second alone")
    func deleteOfFirstLife() async throws {
        let outcome = try await Story.conflict(
            Self.keyed, first: ["DELETE FROM item WHERE id = 'a'", "INSERT INTO item VALUES ('a', 'new', 'new')"],
            second: ["DELETE FROM item WHERE id = 'a'"])
        #expect(try await outcome.rows("item") == ["a|new|new", "b|old|old"])
        #expect(outcome.lines == [])
    }

    @Test("Delete and insert of one key in one transaction is one update")
    func oneUpdate() async throws {
        let outcome = try await Story.conflict(
            Self.keyed, first: "DELETE FROM item WHERE id = 'a'; INSERT INTO item VALUES ('a', 'new', 'old')",
            second: "UPDATE item SET w = 'mine' WHERE id = 'a'")
        #expect(try await outcome.rows("item") == ["a|new|mine", "b|old|old"])
        #expect(outcome.lines == [])
    }

    @Test("A row that moved is followed, through several moves and a swap")
    func followed() async throws {
        let outcome = try await Story.conflict(
            Self.keyed,
            first: [
                "UPDATE item SET id = 'c' WHERE id = 'a'; UPDATE item SET id = 'a' WHERE id = 'b'; UPDATE item SET id = 'b' WHERE id = 'c'",
                "UPDATE item SET id = 'd' WHERE id = 'b'",
            ], second: ["UPDATE item SET v = 'mine' WHERE id = 'a'"])
        #expect(try await outcome.rows("item") == ["a|old|old", "d|mine|old"])
        #expect(outcome.lines == [])
    }

    static let tree = """
        CREATE TABLE node (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES node (id), v TEXT);
        INSERT INTO node VALUES (1, NULL, 'root');
        """

    @Test("Merge rule 25's example: 13 becomes 16 because 14 and 15 are wanted, and a later transaction's reference follows")
    func namesWithinTheOutbox() async throws {
        let outcome = try await Story.conflict(
            Self.tree, first: ["INSERT INTO node VALUES (13, 1, 'theirs')"],
            second: [
                "INSERT INTO node VALUES (13, 1, 'mine'), (14, 13, 'child')", "INSERT INTO node VALUES (15, 13, 'later')",
                "UPDATE node SET v = 'renamed' WHERE id = 13",
            ])
        #expect(
            try await outcome.rows("node") == [
                "13|1|theirs", "14|16|child", "15|16|later", "16|1|renamed", "1|NULL|root",
            ])
        #expect(outcome.lines == ["renumber node(13) id: stored 13, incoming 16; incoming by renumber"])
    }

    @Test("A row that references itself keeps doing so under its new number")
    func selfReference() async throws {
        let outcome = try await Story.conflict(
            Self.tree, first: "INSERT INTO node VALUES (2, 1, 'theirs')", second: "INSERT INTO node VALUES (2, 2, 'mine')")
        #expect(try await outcome.rows("node") == ["1|NULL|root", "2|1|theirs", "3|3|mine"])
    }

    @Test("Merge rule 24's example: a reference to a dead team means that one, even if a stranger has its key now")
    func referenceToFirstLife() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE person (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id) ON DELETE SET NULL);
            INSERT INTO team VALUES (7, 'first'); INSERT INTO person VALUES (1, NULL);
            """, first: ["DELETE FROM team WHERE id = 7", "INSERT INTO team VALUES (7, 'second')"],
            second: ["UPDATE person SET team = 7 WHERE id = 1"])
        #expect(try await outcome.rows("person") == ["1|NULL"])
        #expect(outcome.lines == ["foreignKey person(1) team: NULL → stored NULL, incoming 7; stored by declared"])
    }

    @Test("A change of a row that was set aside goes with it, and so does what references it")
    func setAside() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, email TEXT UNIQUE);
            CREATE TABLE badge (id TEXT PRIMARY KEY NOT NULL, person TEXT NOT NULL REFERENCES person (id));
            """, first: ["INSERT INTO person VALUES ('p', 'a@x')"],
            second: [
                "INSERT INTO person VALUES ('q', 'a@x'); INSERT INTO badge VALUES ('b1', 'q')", "INSERT INTO badge VALUES ('b2', 'q')",
                "UPDATE person SET email = 'b@x' WHERE id = 'q'", "INSERT INTO person VALUES ('r', 'c@x')",
            ])
        #expect(try await outcome.rows("person") == ["p|a@x", "r|c@x"])
        #expect(try await outcome.rows("badge") == [])
        #expect(
            outcome.lines == [
                "unique person(q): stored –, incoming q|a@x; stored by keepFirst",
                "foreignKey badge(b1): stored –, incoming b1|q; stored by declared",
                "foreignKey badge(b2): stored –, incoming b2|q; stored by declared",
                "updateOfDeleted person(q) email: a@x → stored –, incoming b@x; stored by lastWriterWins",
            ])
    }

    @Test("Marks follow a row that one's own outbox moves")
    func marksFollowMoves() async throws {
        for (later, v) in [(Story.Later.second, "mine"), (.first, "theirs")] {
            let outcome = try await Story.conflict(
                Self.keyed, first: ["UPDATE item SET v = 'theirs' WHERE id = 'a'"],
                second: ["UPDATE item SET id = 'z' WHERE id = 'a'", "UPDATE item SET v = 'mine' WHERE id = 'z'"], later: later)
            #expect(try await outcome.rows("item") == ["b|old|old", "z|\(v)|old"])
            #expect(outcome.lines.count == 1)
        }
    }

    @Test("The columns that a row was brought back with are marked, others are not")
    func marksOfRevived() async throws {
        let story = try await Story(Self.keyed, replicas: 3)
        try await story.write(0, "DELETE FROM item WHERE id = 'a'")
        try await story.write(1, "UPDATE item SET v = 'one' WHERE id = 'a'")
        try await story.write(2, "UPDATE item SET v = 'two', w = 'two' WHERE id = 'a'")
        let outcome = try await story.end()
        #expect(try await outcome.rows("item") == ["a|two|two", "b|old|old"])
        #expect(outcome.lines.last == "update item(a) v: old → stored one, incoming two; incoming by lastWriterWins")
    }
}
