import AnnalsMerge
import Testing

/// Merge rules 31 and 32: parents that were deleted or set aside, and deletes of parents that got unseen children.
@Suite("Merge rules 31 and 32: foreign keys") struct ReferenceTests {
    private func schema(_ action: String, _ column: String = "team INTEGER") -> String {
        """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, \(column) REFERENCES team (id) ON DELETE \(action), name TEXT);
        INSERT INTO team VALUES (1, 'ops'), (2, 'dev');
        INSERT INTO person VALUES ('old', 2, 'old');
        """
    }

    // MARK: The parent was deleted

    @Test("A new child of a dead parent does what the key declares")
    func insertOfDead() async throws {
        for (action, column, team, person) in [
            ("SET NULL", "team INTEGER", ["2|dev"], ["new|NULL|x", "old|2|old"]),
            ("SET DEFAULT", "team INTEGER DEFAULT 2", ["2|dev"], ["new|2|x", "old|2|old"]),
            ("CASCADE", "team INTEGER", ["2|dev"], ["old|2|old"]),
            ("RESTRICT", "team INTEGER", ["1|ops", "2|dev"], ["new|1|x", "old|2|old"]),
            ("NO ACTION", "team INTEGER", ["1|ops", "2|dev"], ["new|1|x", "old|2|old"]),
            ("SET NULL", "team INTEGER NOT NULL", ["2|dev"], ["old|2|old"]),
            ("SET DEFAULT", "team INTEGER DEFAULT 9", ["2|dev"], ["old|2|old"]),
        ] {
            let outcome = try await Story.conflict(
                schema(action, column), first: "DELETE FROM team WHERE id = 1", second: "INSERT INTO person VALUES ('new', 1, 'x')")
            #expect(try await outcome.rows("team") == team, "\(action) \(column)")
            #expect(try await outcome.rows("person") == person, "\(action) \(column)")
            #expect(outcome.lines.count == 1, "\(action) \(column): \(outcome.lines)")
        }
    }

    @Test("An update that refers to a dead parent does what the key declares, and keeps its other columns")
    func updateOfDead() async throws {
        for (action, team, person) in [
            ("SET NULL", ["2|dev"], "old|NULL|x"), ("CASCADE", ["2|dev"], "old|2|x"), ("NO ACTION", ["1|ops", "2|dev"], "old|1|x"),
        ] {
            let outcome = try await Story.conflict(
                schema(action), first: "DELETE FROM team WHERE id = 1", second: "UPDATE person SET team = 1, name = 'x'")
            #expect(try await outcome.rows("team") == team, "\(action)")
            #expect(try await outcome.rows("person") == [person], "\(action)")
        }
    }

    @Test("Worked example: with NO ACTION the child brings the parent back, and others know it for the same row")
    func broughtBack() async throws {
        let story = try await Story(schema("NO ACTION"), replicas: 3)
        try await story.write(0, "DELETE FROM team WHERE id = 1")
        try await story.write(1, "INSERT INTO person VALUES ('new', 1, 'x')")
        try await story.write(2, "UPDATE team SET name = 'renamed' WHERE id = 1")
        try await story.world.sync(0)
        try await story.world.sync(1)
        let outcome = try await story.end()
        #expect(try await outcome.rows("team") == ["1|renamed", "2|dev"])
        #expect(try await outcome.rows("person") == ["new|1|x", "old|2|old"])
    }

    @Test("A parent comes back with its own parents, and with what its delete took along by CASCADE")
    func backWithAll() async throws {
        let schema = """
            CREATE TABLE firm (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE team (id INTEGER PRIMARY KEY, firm INTEGER REFERENCES firm (id));
            CREATE TABLE room (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id) ON DELETE CASCADE);
            CREATE TABLE chair (id INTEGER PRIMARY KEY, room INTEGER REFERENCES room (id) ON DELETE CASCADE);
            CREATE TABLE person (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id));
            INSERT INTO firm VALUES (1, 'f'); INSERT INTO team VALUES (1, 1); INSERT INTO room VALUES (1, 1), (2, 1);
            INSERT INTO chair VALUES (1, 1);
            """
        let outcome = try await Story.conflict(
            schema, first: "DELETE FROM team WHERE id = 1; DELETE FROM firm WHERE id = 1", second: "INSERT INTO person VALUES (1, 1)")
        #expect(try await outcome.rows("firm") == ["1|f"])
        #expect(try await outcome.rows("team") == ["1|1"])
        #expect(try await outcome.rows("room") == ["1|1", "2|1"])
        #expect(try await outcome.rows("chair") == ["1|1"])
        #expect(try await outcome.rows("person") == ["1|1"])
        #expect(outcome.lines.count == 5 && outcome.lines.allSatisfy { $0.hasSuffix("incoming by declared") })
    }

    @Test("Where the parent's key has another life now, the child is set aside")
    func cannotComeBack() async throws {
        let outcome = try await Story.conflict(
            schema("NO ACTION"), first: ["DELETE FROM team WHERE id = 1", "INSERT INTO team VALUES (1, 'second')"],
            second: ["INSERT INTO person VALUES ('new', 1, 'x')", "UPDATE person SET team = 1, name = 'y' WHERE id = 'old'"])
        #expect(try await outcome.rows("team") == ["1|second", "2|dev"])
        #expect(try await outcome.rows("person") == ["old|2|y"])
        #expect(
            outcome.lines == [
                "foreignKey person(new): stored –, incoming new|1|x; stored by declared",
                "foreignKey person(old) team: 2 → stored 2, incoming 1; stored by declared",
            ])
    }

    @Test("Where a unique value of the parent is taken meanwhile, it stays dead and the child is set aside")
    func uniqueValueTaken() async throws {
        let outcome = try await Story.conflict(
            schema("NO ACTION") + "CREATE UNIQUE INDEX team_name ON team (name);",
            first: ["DELETE FROM team WHERE id = 1", "INSERT INTO team VALUES (5, 'ops')"],
            second: ["INSERT INTO person VALUES ('new', 1, 'x')"])
        #expect(try await outcome.rows("team") == ["2|dev", "5|ops"])
        #expect(try await outcome.rows("person") == ["old|2|old"])
    }

    // MARK: The transaction deletes the parent

    @Test("A delete of a parent that got an unseen child")
    func deleteWithUnseenChild() async throws {
        for (action, column, team, person) in [
            ("SET NULL", "team INTEGER", ["2|dev"], ["new|NULL|x", "old|2|old"]),
            ("SET DEFAULT", "team INTEGER DEFAULT 2", ["2|dev"], ["new|2|x", "old|2|old"]),
            ("CASCADE", "team INTEGER", ["2|dev"], ["old|2|old"]),
            ("RESTRICT", "team INTEGER", ["1|ops", "2|dev"], ["new|1|x", "old|2|old"]),
            ("NO ACTION", "team INTEGER", ["1|ops", "2|dev"], ["new|1|x", "old|2|old"]),
            ("SET NULL", "team INTEGER NOT NULL", ["1|ops", "2|dev"], ["new|1|x", "old|2|old"]),
            ("SET DEFAULT", "team INTEGER DEFAULT 1", ["1|ops", "2|dev"], ["new|1|x", "old|2|old"]),
            ("SET DEFAULT", "team INTEGER DEFAULT 9", ["1|ops", "2|dev"], ["new|1|x", "old|2|old"]),
        ] {
            let outcome = try await Story.conflict(
                schema(action, column), first: "INSERT INTO person VALUES ('new', 1, 'x')", second: "DELETE FROM team WHERE id = 1")
            #expect(try await outcome.rows("team") == team, "\(action) \(column)")
            #expect(try await outcome.rows("person") == person, "\(action) \(column)")
            #expect(outcome.lines.count == 1, "\(action) \(column): \(outcome.lines)")
        }
    }

    @Test("Worked example: nothing is left of the refused delete but its journal entry")
    func refusedDelete() async throws {
        let outcome = try await Story.conflict(
            schema("NO ACTION"), first: "INSERT INTO person VALUES ('new', 1, 'x')", second: "DELETE FROM team WHERE id = 1")
        #expect(outcome.lines == ["foreignKey team(1): 1|ops → stored 1|ops, incoming –; stored by declared"])
        #expect(try await outcome.position() == 3)
    }

    @Test("A cascade that runs on: unseen grandchildren go with the unseen child")
    func unseenGrandchildren() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE node (id TEXT PRIMARY KEY NOT NULL, parent TEXT REFERENCES node (id) ON DELETE CASCADE);
            INSERT INTO node VALUES ('a', NULL), ('b', 'a'), ('z', NULL);
            """, first: "INSERT INTO node VALUES ('c', 'b'), ('d', 'c'), ('e', 'd')", second: "DELETE FROM node WHERE id = 'a'")
        #expect(try await outcome.rows("node") == ["z|NULL"])
        #expect(outcome.lines.count == 3)
    }

    @Test("Where the delete is refused, the deletes by CASCADE and the SET NULLs that came with it are too")
    func cascadeSharesFate() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE room (id TEXT PRIMARY KEY NOT NULL, team INTEGER REFERENCES team (id) ON DELETE CASCADE);
            CREATE TABLE chair (id TEXT PRIMARY KEY NOT NULL, room TEXT REFERENCES room (id) ON DELETE CASCADE);
            CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, team INTEGER REFERENCES team (id) ON DELETE SET NULL, text TEXT);
            CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, team INTEGER REFERENCES team (id) ON DELETE RESTRICT);
            INSERT INTO team VALUES (1, 'ops'), (2, 'dev'); INSERT INTO room VALUES ('r', 1), ('s', 2); INSERT INTO chair VALUES ('c', 'r');
            INSERT INTO note VALUES ('n', 1, 'old');
            """, first: "INSERT INTO person VALUES ('p', 1)",
            second: "UPDATE note SET text = 'new'; DELETE FROM team WHERE id = 1; DELETE FROM room WHERE id = 's'")
        #expect(try await outcome.rows("team") == ["1|ops", "2|dev"])
        #expect(try await outcome.rows("room") == ["r|1"])
        #expect(try await outcome.rows("chair") == ["c|r"])
        #expect(try await outcome.rows("note") == ["n|1|new"])
        #expect(outcome.lines.count == 4)
    }

    @Test("A delete refused by the delete rule takes its cascade with it")
    func refusedByRule() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE room (id TEXT PRIMARY KEY NOT NULL, team INTEGER REFERENCES team (id) ON DELETE CASCADE);
            INSERT INTO team VALUES (1, 'ops'); INSERT INTO room VALUES ('r', 1);
            """, first: "UPDATE team SET name = 'theirs'", second: "DELETE FROM team", MergePolicies(standard: .init(delete: .updateWins)))
        #expect(try await outcome.rows("team") == ["1|theirs"])
        #expect(try await outcome.rows("room") == ["r|1"])
    }

    // MARK: Shapes of keys

    @Test("Compound keys: a child of a dead parent, an unseen child of a moved one")
    func compound() async throws {
        let schema = """
            CREATE TABLE plot (field TEXT NOT NULL, number INTEGER NOT NULL, crop TEXT, PRIMARY KEY (field, number));
            CREATE TABLE plant (
                id TEXT PRIMARY KEY NOT NULL, field TEXT, number INTEGER,
                FOREIGN KEY (number, field) REFERENCES plot (number, field) ON DELETE SET NULL ON UPDATE CASCADE);
            INSERT INTO plot VALUES ('f', 1, 'rye'), ('f', 2, 'oat');
            """
        let dead = try await Story.conflict(
            schema, first: "DELETE FROM plot WHERE number = 1", second: "INSERT INTO plant VALUES ('p', 'f', 1), ('q', 'f', NULL)")
        #expect(try await dead.rows("plant") == ["p|NULL|NULL", "q|f|NULL"])
        let moved = try await Story.conflict(
            schema, first: "INSERT INTO plant VALUES ('p', 'f', 1)", second: "UPDATE plot SET field = 'g', number = 7 WHERE number = 1")
        #expect(try await moved.rows("plant") == ["p|g|7"])
        let other = try await Story.conflict(
            schema, first: "UPDATE plot SET field = 'g' WHERE number = 1", second: "INSERT INTO plant VALUES ('p', 'f', 1)")
        #expect(try await other.rows("plant") == ["p|g|1"])
    }

    @Test("A child whose key holds the reference moves with its parent, and its own children with it")
    func keyHoldsReference() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE a (id INTEGER PRIMARY KEY);
            CREATE TABLE b (a INTEGER NOT NULL REFERENCES a (id) ON UPDATE CASCADE, n INTEGER NOT NULL, PRIMARY KEY (a, n));
            CREATE TABLE c (id TEXT PRIMARY KEY NOT NULL, a INTEGER, n INTEGER, FOREIGN KEY (a, n) REFERENCES b (a, n) ON UPDATE CASCADE);
            INSERT INTO a VALUES (1);
            """, first: "INSERT INTO b VALUES (1, 5); INSERT INTO c VALUES ('c', 1, 5)", second: "UPDATE a SET id = 9")
        #expect(try await outcome.rows("b") == ["9|5"])
        #expect(try await outcome.rows("c") == ["c|9|5"])
        #expect(outcome.lines == [])
    }

    @Test("An unseen child that calls a moved parent twice, once within its key, follows with both")
    func twoReferencesToOneParent() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE a (id INTEGER PRIMARY KEY);
            CREATE TABLE b (
                k INTEGER NOT NULL REFERENCES a (id) ON UPDATE CASCADE, l TEXT NOT NULL,
                p INTEGER REFERENCES a (id) ON DELETE SET DEFAULT ON UPDATE SET DEFAULT, PRIMARY KEY (k, l));
            INSERT INTO a VALUES (3);
            """, first: "INSERT INTO b VALUES (3, 'x', 3)", second: "UPDATE a SET id = 5")
        #expect(try await outcome.rows("b") == ["5|x|5"])
        #expect(outcome.lines == [])
    }

    @Test("Tables that reference each other, inserted together by both sides under one number")
    func cycle() async throws {
        let schema = """
            CREATE TABLE boss (id INTEGER PRIMARY KEY, firm INTEGER REFERENCES firm (id) DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE firm (id INTEGER PRIMARY KEY, boss INTEGER NOT NULL REFERENCES boss (id) DEFERRABLE INITIALLY DEFERRED);
            """
        let outcome = try await Story.conflict(
            schema, first: "INSERT INTO boss VALUES (1, 1); INSERT INTO firm VALUES (1, 1)",
            second: "INSERT INTO boss VALUES (1, 1); INSERT INTO firm VALUES (1, 1)")
        #expect(try await outcome.rows("boss") == ["1|1", "2|2"])
        #expect(try await outcome.rows("firm") == ["1|1", "2|2"])
    }

    @Test("A child's text calls an integer key, and keeps its form")
    func affinity() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, team TEXT REFERENCES team (id) ON DELETE SET NULL);
            INSERT INTO team VALUES (7, 'a'), (8, 'b');
            """, first: "DELETE FROM team WHERE id = 7; UPDATE team SET name = 'c' WHERE id = 8",
            second: "INSERT INTO person VALUES ('p', '7'), ('q', '8')")
        #expect(try await outcome.rows("person") == ["p|NULL", "q|8"])
    }

    @Test(
        "A child that spells its parent otherwise belongs to it all the same", arguments: ["NOCASE", "RTRIM", "BINARY"],
        ["NOCASE", "RTRIM"])
    func spelling(child: String, parent: String) async throws {
        let schema = """
            CREATE TABLE team (id TEXT PRIMARY KEY NOT NULL COLLATE \(parent), name TEXT);
            CREATE TABLE person (
                id TEXT PRIMARY KEY NOT NULL, team TEXT COLLATE \(child) REFERENCES team (id) ON DELETE SET NULL ON UPDATE CASCADE);
            INSERT INTO team VALUES ('a', 'A');
            """
        let spelled = parent == "NOCASE" ? "A" : "a "
        let gone = try await Story.conflict(
            schema, first: "INSERT INTO person VALUES ('p', '\(spelled)')", second: "DELETE FROM team WHERE id = 'a'")
        #expect(try await gone.rows("person") == ["p|NULL"])
        #expect(gone.lines.count == 1)
        let moved = try await Story.conflict(
            schema, first: "INSERT INTO person VALUES ('p', '\(spelled)')", second: "UPDATE team SET id = 'c' WHERE id = 'a'")
        #expect(try await moved.rows("person") == ["p|c"])
        let dead = try await Story.conflict(
            schema, first: "DELETE FROM team WHERE id = 'a'", second: "INSERT INTO person VALUES ('p', '\(spelled)')")
        #expect(try await dead.rows("person") == ["p|NULL"])
    }

    @Test("An INTEGER PRIMARY KEY that is a reference cannot become NULL")
    func keyCannotBeNull() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE photo (team INTEGER PRIMARY KEY REFERENCES team (id) ON DELETE SET NULL, file TEXT);
            INSERT INTO team VALUES (4, 'a'), (5, 'b');
            """, first: ["DELETE FROM team WHERE id = 4; INSERT INTO photo VALUES (5, 'theirs')"],
            second: ["INSERT INTO photo VALUES (4, 'mine')", "DELETE FROM team WHERE id = 5"])
        #expect(try await outcome.rows("team") == ["5|b"])
        #expect(try await outcome.rows("photo") == ["5|theirs"])
        #expect(outcome.lines.count == 2)
    }

    @Test("A cascade through a chain of thousands of unseen rows")
    func longCascade() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE node (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES node (id) ON DELETE CASCADE);
            CREATE INDEX node_parent ON node (parent);
            INSERT INTO node VALUES (1, NULL);
            """,
            first: "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO node SELECT i, i - 1 FROM n",
            second: "DELETE FROM node WHERE id = 1")
        #expect(try await outcome.rows("node") == [])
        #expect(outcome.lines.count == 2999)
    }

    // MARK: The parent was set aside

    @Test("A child of a row that was set aside: SET NULL, or with it; an update loses the reference")
    func parentSetAside() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id TEXT PRIMARY KEY NOT NULL, name TEXT UNIQUE);
            CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, team TEXT REFERENCES team (id), name TEXT);
            CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, team TEXT REFERENCES team (id) ON DELETE SET NULL);
            INSERT INTO person VALUES ('old', NULL, 'old');
            """, first: "INSERT INTO team VALUES ('t', 'ops')",
            second: """
                INSERT INTO team VALUES ('u', 'ops'); INSERT INTO person VALUES ('new', 'u', 'new');
                UPDATE person SET team = 'u', name = 'x' WHERE id = 'old'; INSERT INTO note VALUES ('n', 'u')
                """)
        #expect(try await outcome.rows("team") == ["t|ops"])
        #expect(try await outcome.rows("person") == ["old|NULL|x"])
        #expect(try await outcome.rows("note") == ["n|NULL"])
        #expect(outcome.lines.count == 4)
    }

    @Test("A chain of thousands that hangs on a row set aside is set aside at once")
    func longChain() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE node (id TEXT PRIMARY KEY NOT NULL, parent TEXT REFERENCES node (id), tag TEXT UNIQUE);
            """, first: "INSERT INTO node VALUES ('first', NULL, 'tag')",
            second: """
                WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                INSERT INTO node SELECT 'n' || i, CASE i WHEN 0 THEN NULL ELSE 'n' || (i - 1) END, CASE i WHEN 0 THEN 'tag' END FROM n
                """)
        #expect(try await outcome.rows("node") == ["first|NULL|tag"])
        #expect(outcome.lines.count == 3001)
    }
}
