import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rules 26 and 27: changes of one row, and moves.
@Suite("Merge rules 26 and 27: updates and moves") struct UpdateTests {
    static let schema = """
        CREATE TABLE doc (id TEXT PRIMARY KEY NOT NULL, n INTEGER, t TEXT, tags TEXT, r REAL);
        INSERT INTO doc VALUES ('a', 10, 'one', '["x"]', 1.5);
        """

    private func policies(_ column: ColumnPolicy) -> MergePolicies {
        MergePolicies(standard: .init(column: column))
    }

    @Test("Columns that only one side changed are both there, equal values are no conflict")
    func columns() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE doc SET n = 11, r = 2.5", second: "UPDATE doc SET t = 'two', r = 2.5")
        #expect(try await outcome.rows("doc") == [#"a|11|two|["x"]|2.5"#])
        #expect(outcome.lines == [])
    }

    @Test("lastWriterWins: the later of two values stands, the other is in the journal")
    func lastWriterWins() async throws {
        let second = try await Story.conflict(Self.schema, first: "UPDATE doc SET n = 11", second: "UPDATE doc SET n = 12")
        #expect(try await second.rows("doc")[0].hasPrefix("a|12|"))
        #expect(second.lines == ["update doc(a) n: 10 → stored 11, incoming 12; incoming by lastWriterWins"])
        let first = try await Story.conflict(Self.schema, first: "UPDATE doc SET n = 11", second: "UPDATE doc SET n = 12", later: .first)
        #expect(try await first.rows("doc")[0].hasPrefix("a|11|"))
        #expect(first.lines == ["update doc(a) n: 10 → stored 11, incoming 12; stored by lastWriterWins"])
        #expect(first.journal[0].storedPosition != nil && first.journal[0].storedReplica != nil && first.journal[0].storedTime != nil)
    }

    @Test("A value that was there again when it is overwritten had been seen: nothing is lost")
    func thereAndBack() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: ["UPDATE doc SET n = 11", "UPDATE doc SET n = 10"], second: ["UPDATE doc SET n = 12"])
        #expect(try await outcome.rows("doc")[0].hasPrefix("a|12|"))
        #expect(outcome.lines == [])
    }

    @Test("The two trumps choose a side, whichever write was later")
    func trumps() async throws {
        for later in [Story.Later.first, .second] {
            let store = try await Story.conflict(
                Self.schema, first: "UPDATE doc SET n = 11", second: "UPDATE doc SET n = 12", later: later,
                policies(.mergeByPropertyStoreTrump))
            #expect(try await store.rows("doc")[0].hasPrefix("a|11|"))
            #expect(store.lines == ["update doc(a) n: 10 → stored 11, incoming 12; stored by mergeByPropertyStoreTrump"])
            let object = try await Story.conflict(
                Self.schema, first: "UPDATE doc SET n = 11", second: "UPDATE doc SET n = 12", later: later,
                policies(.mergeByPropertyObjectTrump))
            #expect(try await object.rows("doc")[0].hasPrefix("a|12|"))
            #expect(object.lines == ["update doc(a) n: 10 → stored 11, incoming 12; incoming by mergeByPropertyObjectTrump"])
        }
    }

    @Test("sum adds through several transactions, and what is combined is no conflict")
    func sum() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: ["UPDATE doc SET n = n + 2, r = r + 1", "UPDATE doc SET n = n + 3"],
            second: ["UPDATE doc SET n = n + 10", "UPDATE doc SET n = n + 100, r = r * 2"], policies(.sum))
        #expect(try await outcome.rows("doc") == [#"a|125|one|["x"]|4.0"#])
        #expect(outcome.lines == [])
    }

    @Test("Two sides that count up by the same have counted up by twice that")
    func equalSums() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE doc SET n = n + 5", second: "UPDATE doc SET n = n + 5", policies(.sum))
        #expect(try await outcome.rows("doc")[0].hasPrefix("a|20|"))
        #expect(outcome.lines == [])
    }

    @Test("What is not combinable goes to the later writer")
    func notCombinable() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE doc SET n = 9223372036854775807", second: "UPDATE doc SET n = n + 1", policies(.sum))
        #expect(try await outcome.rows("doc")[0].hasPrefix("a|11|"))
        #expect(outcome.lines == ["update doc(a) n: 10 → stored 9223372036854775807, incoming 11; incoming by lastWriterWins"])
    }

    @Test("min, max, union, json and text keep both sides' work")
    func combiners() async throws {
        let minimum = try await Story.conflict(Self.schema, first: "UPDATE doc SET n = 3", second: "UPDATE doc SET n = 7", policies(.min))
        #expect(try await minimum.rows("doc")[0].hasPrefix("a|3|"))
        let maximum = try await Story.conflict(Self.schema, first: "UPDATE doc SET n = 3", second: "UPDATE doc SET n = 7", policies(.max))
        #expect(try await maximum.rows("doc")[0].hasPrefix("a|7|"))
        let union = try await Story.conflict(
            Self.schema, first: #"UPDATE doc SET tags = '["x","y"]'"#, second: #"UPDATE doc SET tags = '["z"]'"#, policies(.union))
        #expect(try await union.rows("doc")[0].contains(#"["y","z"]"#))
        let json = try await Story.conflict(
            Self.schema.replacing(#"["x"]"#, with: #"{"a":1,"b":1}"#), first: #"UPDATE doc SET tags = '{"a":2,"b":1}'"#,
            second: #"UPDATE doc SET tags = '{"a":1,"b":9}'"#, policies(.json))
        #expect(try await json.rows("doc")[0].contains(#"{"a":2,"b":9}"#))
        let text = try await Story.conflict(
            Self.schema.replacing("'one'", with: "'1\n2\n3\n'"), first: "UPDATE doc SET t = 'A\n2\n3\n'",
            second: "UPDATE doc SET t = '1\n2\nC\n'", policies(.text))
        #expect(try await text.rows("doc")[0].contains("A\n2\nC\n"))
        for outcome in [minimum, maximum, union, json, text] { #expect(outcome.lines == []) }
    }

    @Test("A closure computes sql: policies, and its value is stored as the column stores it")
    func sql() async throws {
        var policies = policies(.sql(":stored * :incoming"))
        policies.evaluate = { expression, conflict in
            #expect(expression == ":stored * :incoming" && conflict.row["t"] == .text("one"))
            guard let a = conflict.stored.integer, let b = conflict.incoming.integer else { return nil }
            return .text(String(a * b))
        }
        let outcome = try await Story.conflict(Self.schema, first: "UPDATE doc SET n = 11", second: "UPDATE doc SET n = 12", policies)
        #expect(try await outcome.rows("doc")[0].hasPrefix("a|132|"))
    }

    // MARK: Rows

    @Test("rollback and manual drop all changes of the row, though they are of other columns", arguments: [RowPolicy.rollback, .manual])
    func rollback(policy: RowPolicy) async throws {
        let outcome = try await Story.conflict(
            Self.schema + "INSERT INTO doc VALUES ('b', 1, 'b', NULL, NULL);", first: "UPDATE doc SET n = 11 WHERE id = 'a'",
            second: "UPDATE doc SET t = 'mine', r = 9", MergePolicies(standard: .init(row: policy)))
        #expect(try await outcome.rows("doc") == [#"a|11|one|["x"]|1.5"#, "b|1|mine|NULL|9.0"])
        #expect(outcome.lines.count == 2 && outcome.lines.allSatisfy { $0.hasSuffix("stored by \(policy.description)") })
    }

    @Test("overwrite writes the whole row as its author had it")
    func overwrite() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE doc SET n = 11, t = 'theirs'", second: "UPDATE doc SET t = 'mine', r = 9",
            MergePolicies(standard: .init(row: .overwrite)))
        #expect(try await outcome.rows("doc") == [#"a|10|mine|["x"]|9.0"#])
        #expect(
            Set(outcome.lines) == [
                "update doc(a) n: 10 → stored 11, incoming 10; incoming by overwrite",
                "update doc(a) t: one → stored theirs, incoming mine; incoming by overwrite",
            ])
    }

    @Test("With overwrite, references that the transaction did not change are names too")
    func overwrittenReference() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY);
            CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, team INTEGER REFERENCES team (id) ON UPDATE CASCADE, name TEXT, age INTEGER);
            INSERT INTO team VALUES (1), (2); INSERT INTO person VALUES ('p', 1, 'Ann', 1);
            """, first: ["UPDATE person SET team = 2, age = 5", "UPDATE team SET id = 7 WHERE id = 1"],
            second: ["UPDATE person SET name = 'Anna'"], MergePolicies(standard: .init(row: .overwrite)))
        #expect(try await outcome.rows("person") == ["p|7|Anna|1"])
    }

    @Test("A custom policy sees all three rows and makes of them what it will")
    func custom() async throws {
        var policies = MergePolicies(standard: .init(row: .custom("mine")))
        policies.resolvers["mine"] = { conflict in
            #expect(conflict.base?[1] == .integer(10) && conflict.stored[1] == .integer(11) && conflict.incoming[1] == .integer(12))
            return .values(["n": .integer(99), "t": .text("agreed")])
        }
        let outcome = try await Story.conflict(Self.schema, first: "UPDATE doc SET n = 11", second: "UPDATE doc SET n = 12", policies)
        #expect(try await outcome.rows("doc") == [#"a|99|agreed|["x"]|1.5"#])
        #expect(
            outcome.lines == [
                "update doc(a) n: 10 → stored 99, incoming 12; stored by custom: mine",
                "update doc(a) n: stored 11, incoming 99; incoming by custom: mine",
                "update doc(a) t: stored one, incoming agreed; incoming by custom: mine",
            ])
    }

    @Test("A custom policy can delete the row or leave it, and ends the sync where it is missing")
    func customEnds() async throws {
        for (resolution, rows) in [(RowResolution.delete, []), (.keepStored, ["11"]), (.unresolved, ["11"]), (.keepIncoming, ["12"])] {
            var policies = MergePolicies(standard: .init(row: .custom("mine")))
            policies.resolvers["mine"] = { _ in resolution }
            let outcome = try await Story.conflict(Self.schema, first: "UPDATE doc SET n = 11", second: "UPDATE doc SET n = 12", policies)
            #expect(try await outcome.rows("doc").map { $0.split(separator: "|")[1] }.map(String.init) == rows)
            #expect(!outcome.lines.isEmpty)
        }
        await #expect {
            try await Story.conflict(
                Self.schema, first: "UPDATE doc SET n = 11", second: "UPDATE doc SET n = 12",
                MergePolicies(standard: .init(row: .custom("nobody"))))
        } throws: { ($0 as? AnnalsError)?.code == .configuration }
    }

    // MARK: Moves

    static let team = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, team INTEGER REFERENCES team (id) ON UPDATE CASCADE);
        INSERT INTO team VALUES (1, 'ops'); INSERT INTO person VALUES ('seen', 1);
        """

    @Test("A move keeps what others wrote to the row, and children follow, seen or not")
    func move() async throws {
        let outcome = try await Story.conflict(
            Self.team, first: "UPDATE team SET name = 'theirs'; INSERT INTO person VALUES ('unseen', 1)",
            second: "UPDATE team SET id = 9 WHERE id = 1")
        #expect(try await outcome.rows("team") == ["9|theirs"])
        #expect(try await outcome.rows("person") == ["seen|9", "unseen|9"])
        #expect(outcome.lines == [])
    }

    @Test("Two rows that swap their keys, and a third that takes a key that was left, while others changed them")
    func swappedKeys() async throws {
        let outcome = try await Story.conflict(
            "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT, w TEXT); INSERT INTO t VALUES (1, 'a', ''), (2, 'b', ''), (3, 'c', '');",
            first: "UPDATE t SET w = v || '!'",
            second: """
                UPDATE t SET k = 9 WHERE k = 1; UPDATE t SET k = 1 WHERE k = 2; UPDATE t SET k = 2 WHERE k = 9;
                UPDATE t SET k = 5 WHERE k = 3; INSERT INTO t VALUES (3, 'new', '')
                """)
        #expect(try await outcome.rows("t") == ["1|b|b!", "2|a|a!", "3|new|", "5|c|c!"])
        #expect(outcome.lines == [])
    }

    @Test("Unseen children follow two parents that swap their keys")
    func swappedParents() async throws {
        let outcome = try await Story.conflict(
            Self.team + "INSERT INTO team VALUES (2, 'dev');", first: "INSERT INTO person VALUES ('unseen', 1), ('other', 2)",
            second: "UPDATE team SET id = 9 WHERE id = 1; UPDATE team SET id = 1 WHERE id = 2; UPDATE team SET id = 2 WHERE id = 9")
        #expect(try await outcome.rows("team") == ["1|dev", "2|ops"])
        #expect(try await outcome.rows("person") == ["other|1", "seen|2", "unseen|2"])
        #expect(outcome.lines == [])
    }

    @Test("An unseen child of a deleted parent does not go to the row that got the parent's key", arguments: ["SET NULL", "RESTRICT"])
    func deletedParentsKey(_ action: String) async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, team INTEGER REFERENCES team (id) ON DELETE \(action));
            INSERT INTO team VALUES (1, 'ops'), (2, 'dev');
            """,
            first: "INSERT INTO person VALUES ('unseen', 1)", second: "DELETE FROM team WHERE id = 1; UPDATE team SET id = 1 WHERE id = 2")
        let (teams, persons) = (try await outcome.rows("team"), try await outcome.rows("person"))
        if action == "SET NULL" {
            #expect(teams == ["1|dev"] && persons == ["unseen|NULL"], "\(teams) \(persons)")
        } else {
            #expect(teams.contains("1|ops") && persons == ["unseen|1"], "\(teams) \(persons)")
        }
    }

    @Test("Two moves of one row: the later writer's key stands")
    func twoMoves() async throws {
        let outcome = try await Story.conflict(
            Self.team, first: "UPDATE team SET id = 5 WHERE id = 1", second: "UPDATE team SET id = 9 WHERE id = 1")
        #expect(try await outcome.rows("team") == ["9|ops"])
        #expect(try await outcome.rows("person") == ["seen|9"])
        let first = try await Story.conflict(
            Self.team, first: "UPDATE team SET id = 5 WHERE id = 1", second: "UPDATE team SET id = 9 WHERE id = 1", later: .first)
        #expect(try await first.rows("team") == ["5|ops"])
        #expect(try await first.rows("person") == ["seen|5"])
    }

    @Test("A move to a key that is taken is given up, and references to the new key follow")
    func moveToTaken() async throws {
        let outcome = try await Story.conflict(
            Self.team, first: "INSERT INTO team VALUES (9, 'theirs')",
            second: "UPDATE team SET id = 9, name = 'mine' WHERE id = 1; INSERT INTO person VALUES ('new', 9)")
        #expect(try await outcome.rows("team") == ["1|mine", "9|theirs"])
        #expect(try await outcome.rows("person") == ["new|1", "seen|1"])
        #expect(outcome.lines == ["unique team(1) id: 1 → stored 1, incoming 9; stored by keepFirst"])
    }

    @Test("A reference to a unique column that is no key follows its parent too")
    func referenceToUniqueColumn() async throws {
        let outcome = try await Story.conflict(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY, code TEXT UNIQUE);
            CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, team TEXT REFERENCES team (code) ON UPDATE CASCADE);
            INSERT INTO team VALUES (1, 'ops');
            """, first: ["UPDATE team SET code = 'dev'", "INSERT INTO team VALUES (2, 'ops')"],
            second: ["INSERT INTO person VALUES ('p', 'ops')"])
        #expect(try await outcome.rows("person") == ["p|dev"])
        #expect(outcome.lines == [])
    }
}
