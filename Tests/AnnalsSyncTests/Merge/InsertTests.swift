import AnnalsMerge
import Testing

/// Merge rule 25: the result of an insert with a taken key.
@Suite("Merge rule 25: inserts") struct InsertTests {
    static let number =
        "CREATE TABLE invoice (id INTEGER PRIMARY KEY, title TEXT, total INTEGER); INSERT INTO invoice VALUES (1, 'old', 1);"
    static let text = "CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL, v TEXT, w INTEGER);"

    @Test("An integer key that is taken gives way to a number that nobody used, deleted rows included")
    func renumber() async throws {
        let outcome = try await Story.conflict(
            Self.number, first: ["INSERT INTO invoice VALUES (2, 'theirs', 2), (9, 'gone', 9)", "DELETE FROM invoice WHERE id = 9"],
            second: ["INSERT INTO invoice VALUES (2, 'mine', 3)"])
        #expect(try await outcome.rows("invoice") == ["10|mine|3", "1|old|1", "2|theirs|2"])
        #expect(outcome.lines == ["renumber invoice(2) id: stored 2, incoming 10; incoming by renumber"])
    }

    @Test("Where a row has, or had, the last number of all, a number is found among the upper half of them")
    func lastNumber() async throws {
        for gone in ["", "DELETE FROM invoice WHERE id = 9223372036854775807"] {
            let outcome = try await Story.conflict(
                Self.number,
                first: ["INSERT INTO invoice VALUES (9223372036854775807, 'last', 0), (2, 'theirs', 2)", gone].filter { !$0.isEmpty },
                second: [
                    "INSERT INTO invoice VALUES (2, 'mine', 3), (3, 'free', 4); INSERT INTO invoice VALUES (9223372036854775807, 'mine too', 5)"
                ])
            let rows = try await outcome.rows("invoice")
            #expect(rows.filter { $0.hasSuffix("|mine|3") || $0.hasSuffix("|mine too|5") }.count == 2, "\(rows)")
            #expect(rows.count == (gone.isEmpty ? 6 : 5) && rows.contains("3|free|4") && rows.contains("2|theirs|2"), "\(rows)")
            let new = rows.compactMap { row in row.split(separator: "|").first.flatMap { Int64($0) } }.filter { $0 > 9 && $0 < .max }
            #expect(new.count == (gone.isEmpty ? 2 : 1) && new.allSatisfy { $0 > 1 << 62 }, "\(rows)")
            #expect(outcome.lines.allSatisfy { $0.hasPrefix("renumber ") } && outcome.lines.count == new.count, "\(outcome.lines)")
        }
    }

    @Test("With mergeRows the same integer key means the same row")
    func mergeRows() async throws {
        var policies = MergePolicies()
        policies.standard.key = .mergeRows
        let outcome = try await Story.conflict(
            Self.number, first: "INSERT INTO invoice VALUES (2, 'theirs', 2)", second: "INSERT INTO invoice VALUES (2, 'mine', 2)", policies
        )
        #expect(try await outcome.rows("invoice") == ["1|old|1", "2|mine|2"])
        #expect(outcome.lines == ["insert invoice(2) title: stored theirs, incoming mine; incoming by lastWriterWins"])
    }

    @Test("Another key that is taken means one row: the later writer wins each column")
    func join() async throws {
        for (later, expected, winner) in [(Story.Later.second, "a|mine|2", "incoming"), (.first, "a|theirs|1", "stored")] {
            let outcome = try await Story.conflict(
                Self.text, first: "INSERT INTO item VALUES ('a', 'theirs', 1)", second: "INSERT INTO item VALUES ('a', 'mine', 2)",
                later: later)
            #expect(try await outcome.rows("item") == [expected])
            #expect(
                outcome.lines == [
                    "insert item(a) v: stored theirs, incoming mine; \(winner) by lastWriterWins",
                    "insert item(a) w: stored 1, incoming 2; \(winner) by lastWriterWins",
                ])
        }
    }

    @Test("sum has no base for two inserts of one key: adding would double a copy")
    func joinWithSum() async throws {
        var policies = MergePolicies()
        policies["item"].columns["w"] = .sum
        let outcome = try await Story.conflict(
            Self.text, first: "INSERT INTO item VALUES ('a', 'x', 5)", second: "INSERT INTO item VALUES ('a', 'x', 7)", policies)
        #expect(try await outcome.rows("item") == ["a|x|7"])
        #expect(outcome.lines == ["insert item(a) w: stored 5, incoming 7; incoming by lastWriterWins"])
    }

    @Test("Equal rows are one, without a word")
    func copies() async throws {
        let outcome = try await Story.conflict(
            Self.text, first: "INSERT INTO item VALUES ('a', 'x', 5)", second: "INSERT INTO item VALUES ('a', 'x', 5)")
        #expect(try await outcome.rows("item") == ["a|x|5"])
        #expect(outcome.lines == [])
    }

    @Test("An integer key that is a reference itself is joined, not renumbered")
    func keyThatIsAReference() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE photo (person INTEGER PRIMARY KEY REFERENCES person (id), file TEXT);
            INSERT INTO person VALUES (1, 'Ann');
            """, first: "INSERT INTO photo VALUES (1, 'theirs')", second: "INSERT INTO photo VALUES (1, 'mine')")
        #expect(try await outcome.rows("photo") == ["1|mine"])
    }

    @Test(
        "A policy that drops an insert whose key is a reference drops all of its columns, references too",
        arguments: [RowPolicy.rollback, .manual])
    func droppedWithReferences(policy: RowPolicy) async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE photo (
                person INTEGER PRIMARY KEY REFERENCES person (id), file TEXT, taker INTEGER REFERENCES person (id));
            INSERT INTO person VALUES (1, 'Ann'), (2, 'Bob');
            """, first: "INSERT INTO photo VALUES (1, 'theirs', 2)", second: "INSERT INTO photo VALUES (1, 'mine', NULL)",
            MergePolicies(standard: .init(row: policy)))
        #expect(try await outcome.rows("photo") == ["1|theirs|2"])
        #expect(
            outcome.lines == [
                "insert photo(1) file: stored theirs, incoming mine; stored by \(policy)",
                "insert photo(1) taker: stored 2, incoming NULL; stored by \(policy)",
            ])
    }

    @Test("A child whose key is the renumbered parent's follows, and is not joined with the stranger's child")
    func childWithParentsKey() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE photo (person INTEGER PRIMARY KEY REFERENCES person (id), file TEXT);
            """, first: "INSERT INTO person VALUES (1, 'Ann'); INSERT INTO photo VALUES (1, 'ann')",
            second: "INSERT INTO person VALUES (1, 'Bob'); INSERT INTO photo VALUES (1, 'bob')")
        #expect(try await outcome.rows("person") == ["1|Ann", "2|Bob"])
        #expect(try await outcome.rows("photo") == ["1|ann", "2|bob"])
    }

    @Test("Worked example: two renumberings of one key come out as three rows")
    func twoRenumberings() async throws {
        let story = try await Story("CREATE TABLE booking (id INTEGER PRIMARY KEY, v TEXT);", replicas: 3)
        for replica in 0..<3 { try await story.write(replica, "INSERT INTO booking VALUES (13, 'r\(replica)')") }
        let outcome = try await story.end()
        #expect(try await outcome.rows("booking") == ["13|r0", "14|r1", "15|r2"])
    }

    @Test("A key that the transaction itself leaves is free")
    func keyLeft() async throws {
        let outcome = try await Story.conflict(
            Self.number, first: "UPDATE invoice SET title = 'theirs' WHERE id = 1",
            second: "UPDATE invoice SET id = 5 WHERE id = 1; INSERT INTO invoice VALUES (1, 'new', 2)")
        #expect(try await outcome.rows("invoice") == ["1|new|2", "5|theirs|1"])
        #expect(outcome.lines == [])
    }

    @Test("Keys are compared as their index does: two spellings are one row, and the one that loses is in the journal")
    func noCaseKey() async throws {
        let schema = "CREATE TABLE word (w TEXT PRIMARY KEY NOT NULL COLLATE NOCASE, n INTEGER);"
        for (later, expected, winner) in [(Story.Later.second, "TREE|1", "incoming"), (.first, "Tree|1", "stored")] {
            let outcome = try await Story.conflict(
                schema, first: "INSERT INTO word VALUES ('Tree', 1)", second: "INSERT INTO word VALUES ('TREE', 1)", later: later)
            #expect(try await outcome.rows("word") == [expected])
            #expect(outcome.lines == ["insert word(TREE) w: stored Tree, incoming TREE; \(winner) by lastWriterWins"])
        }
    }
}
