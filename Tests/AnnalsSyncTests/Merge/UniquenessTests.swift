import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rule 33: UNIQUE in all its forms, and constraints of a single row.
@Suite("Merge rule 33: constraints") struct UniquenessTests {
    static let schema = """
        CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, email TEXT UNIQUE, phone TEXT UNIQUE, name TEXT);
        CREATE TABLE badge (id TEXT PRIMARY KEY NOT NULL, person TEXT NOT NULL REFERENCES person (id));
        INSERT INTO person VALUES ('x', 'x@', '1', 'X'), ('y', 'y@', '2', 'Y');
        """

    private func policies(_ rule: UniqueRule) -> MergePolicies { MergePolicies(standard: .init(unique: rule)) }

    // MARK: keepFirst

    @Test("keepFirst: an insert is set aside")
    func keepFirstInsert() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "INSERT INTO person VALUES ('p', 'a@', NULL, 'P')",
            second: "INSERT INTO person VALUES ('q', 'a@', NULL, 'Q')")
        #expect(try await outcome.rows("person") == ["p|a@|NULL|P", "x|x@|1|X", "y|y@|2|Y"])
        #expect(outcome.lines == ["unique person(q): stored –, incoming q|a@|NULL|Q; stored by keepFirst"])
    }

    @Test("keepFirst: an update gives up the columns of that index, and keeps the rest")
    func keepFirstUpdate() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE person SET email = 'a@' WHERE id = 'x'",
            second: "UPDATE person SET email = 'a@', phone = '9', name = 'new' WHERE id = 'y'")
        #expect(try await outcome.rows("person") == ["x|a@|1|X", "y|y@|9|new"])
        #expect(outcome.lines == ["unique person(y) email: y@ → stored y@, incoming a@; stored by keepFirst"])
    }

    @Test("keepFirst: several indexes, each with another holder")
    func severalIndexes() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "INSERT INTO person VALUES ('p', 'a@', NULL, 'P'), ('q', NULL, '9', 'Q')",
            second: "UPDATE person SET email = 'a@', phone = '9', name = 'new' WHERE id = 'y'")
        #expect(try await outcome.rows("person") == ["p|a@|NULL|P", "q|NULL|9|Q", "x|x@|1|X", "y|y@|2|new"])
        #expect(outcome.lines == ["unique person(y) email,phone: y@|2 → stored y@|2, incoming a@|9; stored by keepFirst"])
    }

    @Test("A value that others freed meanwhile, or that the transaction itself frees, can be taken")
    func freed() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE person SET email = 'z@', name = 'theirs' WHERE id = 'x'",
            second: "UPDATE person SET email = NULL WHERE id = 'x'; UPDATE person SET email = 'x@' WHERE id = 'y'")
        #expect(try await outcome.rows("person") == ["x|NULL|1|theirs", "y|x@|2|Y"])
    }

    @Test("Two rows that swap their values in one transaction, while others changed them elsewhere")
    func swap() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE person SET name = name || '!'",
            second: """
                UPDATE person SET email = NULL WHERE id = 'x'; UPDATE person SET email = 'x@' WHERE id = 'y';
                UPDATE person SET email = 'y@' WHERE id = 'x'
                """)
        #expect(try await outcome.rows("person") == ["x|y@|1|X!", "y|x@|2|Y!"])
        #expect(outcome.lines == [])
    }

    @Test("Worked example: swap against a taker. Giving a value back meets the next row, which gives back its own")
    func swapAgainstTaker() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, email TEXT UNIQUE);
            INSERT INTO t VALUES ('x', 'a'), ('y', 'b'), ('z', 'c');
            """,
            first: "UPDATE t SET email = NULL WHERE id = 'x'; UPDATE t SET email = 'a' WHERE id = 'z'",
            second: """
                UPDATE t SET email = NULL WHERE id = 'x'; UPDATE t SET email = 'a' WHERE id = 'y';
                UPDATE t SET email = 'b' WHERE id = 'x'
                """)
        #expect(try await outcome.rows("t") == ["x|NULL", "y|b", "z|a"])
        #expect(
            Set(outcome.lines) == [
                "unique t(x) email: a → stored NULL, incoming b; stored by keepFirst",
                "unique t(y) email: b → stored b, incoming a; stored by keepFirst",
            ])
    }

    // MARK: keepLast

    @Test("keepLast: the stored row is set aside, and what means it goes with it")
    func keepLast() async throws {
        let story = try await Story(Self.schema, policies(.keepLast), replicas: 3)
        try await story.write(0, "INSERT INTO person VALUES ('p', 'a@', NULL, 'P')")
        try await story.world.settle()
        try await story.write(0, "UPDATE person SET email = 'b@' WHERE id = 'p'")
        try await story.write(1, "INSERT INTO person VALUES ('q', 'b@', NULL, 'Q')")
        try await story.write(2, "UPDATE person SET name = 'renamed' WHERE id = 'p'; INSERT INTO badge VALUES ('b', 'p')")
        let outcome = try await story.end()
        #expect(try await outcome.rows("person") == ["q|b@|NULL|Q", "x|x@|1|X", "y|y@|2|Y"])
        #expect(try await outcome.rows("badge") == [])
        #expect(
            Set(outcome.lines) == [
                "unique person(p): stored p|b@|NULL|P, incoming –; incoming by keepLast",
                "updateOfDeleted person(p) name: P → stored –, incoming renamed; stored by lastWriterWins",
                "foreignKey badge(b): stored –, incoming b|p; stored by declared",
            ])
    }

    @Test("keepLast: if the stored row's children forbid it, it is keepFirst")
    func keepLastForbidden() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "INSERT INTO person VALUES ('p', 'a@', NULL, 'P'); INSERT INTO badge VALUES ('b', 'p')",
            second: "INSERT INTO person VALUES ('q', 'a@', NULL, 'Q')", policies(.keepLast))
        #expect(try await outcome.rows("person") == ["p|a@|NULL|P", "x|x@|1|X", "y|y@|2|Y"])
        #expect(outcome.lines == ["unique person(q): stored –, incoming q|a@|NULL|Q; stored by keepFirst"])
    }

    @Test("keepLast: the number of a row that is set aside is not free for the transaction's own insert")
    func keepLastAndInsert() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER, g INTEGER AS (a % 4) VIRTUAL, UNIQUE (g)); INSERT INTO t VALUES (6, NULL);
            """, first: "INSERT INTO t VALUES (7, 5)", second: "UPDATE t SET a = 5 WHERE k = 6; INSERT INTO t VALUES (7, NULL)",
            policies(.keepLast))
        #expect(try await outcome.rows("t") == ["6|5|1", "8|NULL|NULL"])
        #expect(outcome.lines.count == 2)
    }

    @Test("keepLast: a text key whose row is set aside, and inserted by the same transaction, is one update")
    func keepLastAndInsertOfText() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "INSERT INTO person VALUES ('p', 'a@', NULL, 'P')",
            second: "INSERT INTO person VALUES ('p', NULL, NULL, 'mine'); UPDATE person SET email = 'a@' WHERE id = 'x'",
            policies(.keepLast))
        #expect(try await outcome.rows("person") == ["p|NULL|NULL|mine", "x|a@|1|X", "y|y@|2|Y"])
    }

    // MARK: mergeRows

    @Test("mergeRows: an insert is one with the stored row, and its children refer to that")
    func mergeInsert() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: ["INSERT INTO person VALUES ('p', 'a@', NULL, 'P')"],
            second: [
                "INSERT INTO person VALUES ('q', 'a@', NULL, 'Q'); INSERT INTO badge VALUES ('b', 'q')",
                "INSERT INTO badge VALUES ('c', 'q')",
            ],
            policies(.mergeRows))
        #expect(try await outcome.rows("person") == ["p|a@|NULL|P", "x|x@|1|X", "y|y@|2|Y"])
        #expect(try await outcome.rows("badge") == ["b|p", "c|p"])
        #expect(outcome.lines == ["unique person(q): stored –, incoming q|a@|NULL|Q; stored by mergeRows"])
    }

    @Test("mergeRows: an updated row is deleted, its children re-pointed, those of other authors too")
    func mergeUpdate() async throws {
        let story = try await Story(Self.schema, policies(.mergeRows), replicas: 3)
        try await story.write(0, "INSERT INTO badge VALUES ('old', 'y')")
        try await story.world.settle()
        try await story.write(0, "UPDATE person SET email = 'a@' WHERE id = 'x'; INSERT INTO badge VALUES ('unseen', 'y')")
        try await story.write(1, "UPDATE person SET email = 'a@', name = 'mine' WHERE id = 'y'")
        try await story.write(2, "INSERT INTO badge VALUES ('later', 'y')")
        let outcome = try await story.end()
        #expect(try await outcome.rows("person") == ["x|a@|1|X"])
        #expect(try await outcome.rows("badge") == ["later|x", "old|x", "unseen|x"])
        #expect(
            Set(outcome.lines) == [
                "unique person(y) email,name: y@|Y → stored –, incoming a@|mine; stored by mergeRows",
                "unique person(y): stored y|y@|2|Y, incoming –; incoming by mergeRows",
            ])
    }

    @Test("A delete of a row that others made one with another is refused")
    func deleteOfMerged() async throws {
        let story = try await Story(Self.schema, policies(.mergeRows), replicas: 3)
        try await story.write(0, "UPDATE person SET email = 'a@' WHERE id = 'x'")
        try await story.write(1, "UPDATE person SET email = 'a@' WHERE id = 'y'")
        try await story.write(2, "DELETE FROM person WHERE id = 'y'")
        let outcome = try await story.end()
        #expect(try await outcome.rows("person") == ["x|a@|1|X"])
        #expect(outcome.lines.last == "deleteOfUpdated person(y): y|y@|2|Y → stored –, incoming –; stored by mergeRows")
    }

    // MARK: Indexes of every kind

    @Test("NULLs are in no conflict, also in one column of several")
    func nulls() async throws {
        let outcome = try await Story.conflict(
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a TEXT, b TEXT, UNIQUE (a, b));",
            first: "INSERT INTO t VALUES ('p', NULL, NULL), ('q', 'a', NULL), ('r', 'a', 'b')",
            second: "INSERT INTO t VALUES ('s', NULL, NULL), ('t', 'a', NULL), ('u', 'a', 'b'), ('v', 'b', 'a')")
        #expect(try await outcome.rows("t").count == 6)
        #expect(outcome.lines == ["unique t(u): stored –, incoming u|a|b; stored by keepFirst"])
    }

    @Test("A UNIQUE column COLLATE NOCASE")
    func noCase() async throws {
        let outcome = try await Story.conflict(
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, name TEXT UNIQUE COLLATE NOCASE); INSERT INTO t VALUES ('old', 'old');",
            first: "INSERT INTO t VALUES ('p', 'Tree')",
            second: "INSERT INTO t VALUES ('q', 'TREE'); UPDATE t SET name = 'tree2'  WHERE id = 'old'")
        #expect(try await outcome.rows("t") == ["old|tree2", "p|Tree"])
    }

    @Test("A partial index holds only where its condition does")
    func partial() async throws {
        let schema = """
            CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, name TEXT, active INTEGER NOT NULL);
            CREATE UNIQUE INDEX active_name ON t (name) WHERE active = 1;
            INSERT INTO t VALUES ('old', 'a', 0);
            """
        let outcome = try await Story.conflict(
            schema, first: "INSERT INTO t VALUES ('p', 'a', 1)", second: "INSERT INTO t VALUES ('q', 'a', 1), ('r', 'a', 0)")
        #expect(try await outcome.rows("t") == ["old|a|0", "p|a|1", "r|a|0"])
        let activated = try await Story.conflict(
            schema, first: "INSERT INTO t VALUES ('p', 'a', 1)", second: "UPDATE t SET active = 1 WHERE id = 'old'")
        #expect(try await activated.rows("t") == ["old|a|0", "p|a|1"])
        #expect(activated.lines == ["unique t(old) active: 0 → stored 0, incoming 1; stored by keepFirst"])
    }

    @Test("An index over an expression, and one over a generated column", arguments: [UniqueRule.keepFirst, .keepLast, .mergeRows])
    func expression(rule: UniqueRule) async throws {
        for schema in [
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, name TEXT); CREATE UNIQUE INDEX i ON t (lower(name) || '');",
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, name TEXT, g TEXT AS (lower(name)) VIRTUAL UNIQUE);",
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, name TEXT, g TEXT AS (lower(name)) STORED UNIQUE);",
        ] {
            let outcome = try await Story.conflict(
                schema, first: "INSERT INTO t (id, name) VALUES ('p', 'Tree')",
                second: "INSERT INTO t (id, name) VALUES ('q', 'TREE'), ('r', 'x')",
                policies(rule))
            let names = try await outcome.rows("t").map { String($0.prefix(1)) }
            #expect(names == (rule == .keepLast ? ["q", "r"] : ["p", "r"]), "\(schema)")
            #expect(outcome.lines.count == 1)
        }
    }

    @Test(
        "What an index has nothing to do with stays, though a generated column is in it",
        arguments: [
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a INTEGER UNIQUE, d TEXT);",
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a INTEGER, d TEXT, c TEXT AS (a || 'x') VIRTUAL UNIQUE);",
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a INTEGER, d TEXT, b AS (a + 1) STORED, c AS (b * 2) VIRTUAL UNIQUE);",
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a INTEGER, d TEXT, c TEXT AS (a || 'x')); CREATE UNIQUE INDEX i ON t (c) WHERE c > '';",
        ])
    func unconcerned(schema: String) async throws {
        let outcome = try await Story.conflict(
            schema + "INSERT INTO t (id, a) VALUES ('p', 1), ('q', 2);", first: "UPDATE t SET a = 5 WHERE id = 'p'",
            second: "UPDATE t SET a = 5 WHERE id = 'q'; UPDATE t SET d = 'mine' WHERE id = 'p'")
        let rows = try await outcome.rows("t").map { $0.split(separator: "|").prefix(3).joined(separator: "|") }
        #expect(rows == ["p|5|mine", "q|2|NULL"])
        #expect(outcome.lines.count == 1)
    }

    @Test("A bulk load with thousands of duplicates is laid on in a few tries")
    func bulk() async throws {
        let outcome = try await Story.conflict(
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, tag INTEGER UNIQUE);",
            first: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO t SELECT 'a' || i, i FROM n",
            second: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO t SELECT 'b' || i, i FROM n"
        )
        #expect(try await outcome.rows("t").count == 4000)
        #expect(outcome.lines.count == 2000)
    }

    // MARK: Single rows

    @Test("CHECK and NOT NULL broken by combining two legal edits: the incoming changes of that row are set aside")
    func check() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE span (id TEXT PRIMARY KEY NOT NULL, low INTEGER, high INTEGER, name TEXT, CHECK (low <= high));
            INSERT INTO span VALUES ('a', 1, 9, 'a'), ('b', 1, 9, 'b');
            """, first: "UPDATE span SET low = 8 WHERE id = 'a'", second: "UPDATE span SET high = 5, name = 'mine'")
        #expect(try await outcome.rows("span") == ["a|8|9|a", "b|1|5|mine"])
        #expect(outcome.lines == ["check span(a) high,name: 9|a → stored 9|a, incoming 5|mine; stored by declared"])
    }

    @Test("STRICT types and CHECK hold against policies that make values of their own")
    func strict() async throws {
        var policies = MergePolicies(standard: .init(column: .sql("x")))
        policies.evaluate = { _, _ in .text("no number") }
        let outcome = try await Story.conflict(
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, n INTEGER) STRICT; INSERT INTO t VALUES ('a', 1);", first: "UPDATE t SET n = 2",
            second: "UPDATE t SET n = 3", policies)
        #expect(try await outcome.rows("t") == ["a|2"])
        #expect(outcome.lines == ["check t(a) n: 1 → stored 2, incoming 3; stored by sql: x"])
    }

    @Test("A sum that breaks a CHECK is set aside")
    func sumAndCheck() async throws {
        var policies = MergePolicies()
        policies["account"].columns["balance"] = .sum
        let outcome = try await Story.conflict(
            "CREATE TABLE account (id TEXT PRIMARY KEY NOT NULL, balance INTEGER CHECK (balance >= 0)); INSERT INTO account VALUES ('a', 10);",
            first: "UPDATE account SET balance = balance - 7", second: "UPDATE account SET balance = balance - 7", policies)
        #expect(try await outcome.rows("account") == ["a|3"])
        #expect(outcome.lines == ["check account(a) balance: 10 → stored 3, incoming 3; stored by sum"])
    }

    // MARK: Whole tables

    @Test("In a table that is whole, one change that is set aside takes all of its transaction with it, and no other")
    func whole() async throws {
        var policies = MergePolicies()
        policies["booking"].isWhole = true
        let outcome = try await Story.conflict(
            """
            CREATE TABLE booking (seat TEXT PRIMARY KEY NOT NULL, guest TEXT, day TEXT UNIQUE);
            CREATE TABLE log (id TEXT PRIMARY KEY NOT NULL, text TEXT);
            """, first: ["INSERT INTO booking VALUES ('1a', 'theirs', 'mon')"],
            second: [
                "INSERT INTO booking VALUES ('2a', 'mine', 'tue'), ('2b', 'mine', 'mon'); INSERT INTO log VALUES ('l1', 'booked')",
                "INSERT INTO log VALUES ('l2', 'other')",
            ], policies)
        #expect(try await outcome.rows("booking") == ["1a|theirs|mon"])
        #expect(try await outcome.rows("log") == ["l2|other"])
        #expect(outcome.lines.count == 3 && outcome.lines.allSatisfy { $0.hasSuffix("stored by whole") })
    }

    @Test("A transaction over another table is not bound by the whole one")
    func notWhole() async throws {
        var policies = MergePolicies()
        policies["booking"].isWhole = true
        let outcome = try await Story.conflict(
            """
            CREATE TABLE booking (seat TEXT PRIMARY KEY NOT NULL, guest TEXT);
            CREATE TABLE log (id TEXT PRIMARY KEY NOT NULL, text TEXT UNIQUE);
            """, first: ["INSERT INTO log VALUES ('l0', 'booked')"],
            second: ["INSERT INTO booking VALUES ('2a', 'mine'); INSERT INTO log VALUES ('l1', 'booked')"], policies)
        #expect(try await outcome.rows("booking") == ["2a|mine"])
        #expect(try await outcome.rows("log") == ["l0|booked"])
    }
}
