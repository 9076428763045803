import Foundation
import Testing

@Suite("--json has the keys that scripts rely on", .timeLimit(.minutes(20)))
struct JSONShapeTests {
    @Test("sync, status, history, digest and conflicts")
    func shapes() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome' WHERE id = 1; INSERT INTO invoice (customer_id) VALUES (1);")
            try await shop.shell(
                "laptop.db", "UPDATE customer SET city = 'Oslo' WHERE id = 1; INSERT INTO invoice (customer_id) VALUES (2);")
            let synced = try await shop.succeed("sync", "shop.db", "laptop.db", "--json").objects()
            #expect(synced.map { $0["store"] as? String } == ["shop.db", "laptop.db"])
            for line in synced {
                #expect(
                    Set(line.keys) == [
                        "store", "space", "pushed", "pulled", "conflicts", "renumbered", "lost", "replacedDecisions", "position", "head",
                        "outbox", "reconciled",
                        "tookNewIdentity", "cameBack", "followed", "returned", "snapshot", "schemaVersion", "waitingForMigration",
                    ])
                for flow in ["pushed", "pulled"] {
                    let keys = (line[flow] as? [String: Any])?.keys
                    #expect(keys.map(Set.init) == ["transactions", "changes", "bytes"])
                }
            }
            let status = try await shop.succeed("status", "shop.db", "--json").object()
            #expect(status["tracked"] as? [String] == ["customer", "invoice"])
            for key in [
                "transactions", "oldestToken", "latestToken", "outbox", "space", "position", "head", "conflicts", "schemaVersion",
                "lacking", "waitingForMigration",
            ] {
                #expect(status[key] != nil && !(status[key] is NSNull), "\(key)")
            }
            let digest = try await shop.succeed("digest", "laptop.db", "--json").object()
            #expect((digest["digest"] as? String)?.count == 64 && digest["position"] as? Int == 3 && digest["outbox"] as? Int == 0)

            // The two invoices got one number, which is no conflict.
            let listed = try await shop.succeed("conflicts", "shop.db", "--json").objects()
            let conflicts = try await listed + shop.succeed("conflicts", "shop.db", "--kind", "renumber", "--json").objects()
            #expect(listed.count == 1 && conflicts.count == 2)
            for conflict in conflicts {
                let expected: Set = [
                    "id", "kind", "table", "key", "columns", "policy", "base", "stored", "incoming", "winner", "loser", "authors",
                    "replicas", "replicaNames",
                    "positions", "times", "resolved", "resolution",
                ]
                #expect(expected.isSubset(of: conflict.keys))
            }
            let update = try #require(conflicts.first { $0["kind"] as? String == "update" })
            #expect(update["key"] as? [String: Int] == ["id": 1])
            #expect(update["base"] as? [String: String] == ["city": "Lyon"])
            #expect(update["stored"] as? [String: String] == ["city": "Rome"])
            #expect(update["incoming"] as? [String: String] == ["city": "Oslo"])
            #expect(update["winner"] as? String == "incoming" && update["loser"] as? String == "stored")
            #expect(update["resolved"] as? Bool == false)
            #expect(
                try await shop.succeed("conflicts", "laptop.db", "--json").output == shop.succeed("conflicts", "shop.db", "--json").output)
        }
    }

    @Test("history's transactions, with values of every kind exactly")
    func history() async throws {
        try await Workshop.with { shop in
            try await shop.shell("a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'before');")
            try await shop.succeed("track", "a.db", "t")
            try await shop.shell(
                "a.db",
                """
                INSERT INTO t VALUES (2, 9223372036854775807), (3, x'00ff'), (4, cast(x'ff41' AS TEXT)), (5, 9e999), (6, -9e999), (7, 0.1),
                    (8, NULL), (9, 'line' || char(10) || 'two');
                UPDATE t SET v = 'after' WHERE id = 1;
                """)
            let outcome = try await shop.succeed("history", "a.db", "--json", "--values")
            let line = try #require(try outcome.objects().first)
            for key in ["number", "token", "time", "author", "context", "origin", "replica", "position", "changes"] {
                #expect(line[key] != nil, "\(key)")
            }
            #expect(line["origin"] as? String == "external")
            #expect((line["time"] as? String)?.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil)
            for text in [
                #""new":{"id":2,"v":9223372036854775807}"#, #""new":{"id":3,"v":{"base64":"AP8="}}"#,
                #""new":{"id":4,"v":{"textBase64":"/0E="}}"#, #""new":{"id":5,"v":{"real":"inf"}}"#,
                #""new":{"id":6,"v":{"real":"-inf"}}"#, #""new":{"id":7,"v":0.1}"#, #""new":{"id":8,"v":null}"#,
                #""new":{"id":9,"v":"line\ntwo"}"#, #""old":{"v":"before"},"new":{"v":"after"}"#,
                #"{"table":"t","key":{"id":1},"kind":"update","columns":["v"],"#,
            ] {
                #expect(outcome.output.contains(text), "\(text) in \(outcome.output)")
            }
            let shown = try await shop.succeed("show", "a.db", "1", "--json")
            #expect(shown.output == outcome.output)
        }
    }

    @Test("history's filters: after and before leave out the token itself")
    func filters() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            for city in ["a", "b", "c", "d"] {
                try await shop.shell("shop.db", "UPDATE customer SET city = '\(city)';")
                try await shop.succeed("status", "shop.db")
            }
            try await shop.shell("shop.db", "UPDATE invoice SET total = 1;")
            let all = try await shop.succeed("history", "shop.db", "--json").objects()
            #expect(all.map { $0["number"] as? Int } == [1, 2, 3, 4, 5])
            let token = try #require(all[1]["token"] as? String)
            func numbers(_ arguments: String...) async throws -> [Int] {
                let outcome = try await Program.run(Workshop.annals, ["history", "shop.db", "--json"] + arguments, in: shop.path)
                return try outcome.objects().compactMap { $0["number"] as? Int }
            }
            #expect(try await numbers("--after", token) == [3, 4, 5])
            #expect(try await numbers("--before", token) == [1])
            #expect(try await numbers("--after", "1", "--before", "4") == [2, 3])
            #expect(try await numbers("--table", "invoice") == [5])
            #expect(try await numbers("--limit", "2") == [1, 2])
            #expect(try await numbers("--origin", "imported") == [])
            #expect(try await numbers("--author", "nobody") == [])
            #expect(try await numbers("--after", "latest") == [])
            #expect(try await numbers("--after", "start").count == 5)
        }
    }

    @Test("track, verify, replay and the relay's lists")
    func others() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            let tracked = try await shop.succeed("track", "shop.db", "--all", "--dry-run", "--json").object()
            #expect(tracked["dryRun"] as? Bool == true && (tracked["tables"] as? [Any])?.count == 2)
            #expect(try await shop.succeed("status", "shop.db", "--json").object()["tracked"] as? [String] == [])
            let url = try await shop.relay()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--name", "till")
            let verified = try await shop.succeed("verify", "shop.db", "--json").object()
            #expect(verified["ok"] as? Bool == true && (verified["findings"] as? [Any])?.isEmpty == true)
            let replayed = try await shop.succeed("replay", "shop.db", "--to", "latest", "--output", "now.db", "--json").object()
            #expect(replayed["output"] as? String == "now.db" && replayed["transactionsUndone"] as? Int == 0)
            let spaces = try await shop.succeed("relay", "spaces", "--data", "relay-data", "--json").objects()
            #expect(spaces.map { $0["space"] as? String } == ["shop"] && spaces[0]["head"] as? Int == 1)
            let created = try await shop.succeed("relay", "token", "create", "--data", "relay-data", "--expires", "2h", "--json").object()
            #expect((created["token"] as? String)?.hasPrefix("ann_") == true)
            let tokens = try await shop.succeed("relay", "token", "list", "--data", "relay-data", "--json").objects()
            #expect(tokens.count == 1 && tokens[0]["token"] == nil && tokens[0]["scope"] as? String == "write")
            let replicas = try await shop.succeed("relay", "replicas", "--data", "relay-data", "--space", "shop", "--json").objects()
            #expect(replicas.map { $0["program"] as? String } == ["annals/0.1.0"])
            try await shop.succeed("relay", "retire", "till", "--data", "relay-data", "--space", "shop")
            try await shop.succeed("relay", "backup", "--data", "relay-data", "--output", "backup")
            let audit = try await shop.succeed("relay", "audit", "--data", "relay-data", "--json").objects()
            #expect(audit.map { $0["action"] as? String } == ["relay-backup", "replica-retire", "token-create"])
            #expect((audit.first?["subject"] as? String)?.hasSuffix("/backup") == true)
            #expect(audit.allSatisfy { ($0["actor"] as? String)?.hasPrefix("cli (") == true && $0["outcome"] as? String == "done" })
            #expect(try await shop.succeed("relay", "audit", "--data", "relay-data", "--space", "shop", "--json").objects().count == 1)
            try await shop.fail(64, "--limit must be 1 or more", "relay", "audit", "--data", "relay-data", "--limit", "0")
        }
    }

    @Test("what is decided: policies, conflicts, tokens and replicas")
    func decisions() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            let set = try await shop.succeed("policy", "shop.db", "set", "customer", "manual", "--json").object()
            #expect(set["table"] as? String == "customer" && set["policy"] as? String == "manual" && set["here"] as? Bool == false)
            try Data("space: {unique: keepLast}\n".utf8).write(to: URL(fileURLWithPath: shop.path + "/policies.yaml"))
            let imported = try await shop.succeed("policy", "shop.db", "import", "policies.yaml", "--json").objects()
            #expect(imported.map { $0["policy"] as? String } == ["keepLast"])
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome' WHERE id = 1;")
            try await shop.shell("laptop.db", "UPDATE customer SET city = 'Oslo' WHERE id = 1;")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.succeed("sync", "shop.db")
            let resolved = try await shop.succeed("resolve", "shop.db", "1", "--take", "incoming", "--json").object()
            #expect(resolved["id"] as? Int == 1 && resolved["outcome"] as? String == "changed" && resolved["store"] as? String == "shop.db")

            try await shop.succeed("relay", "token", "create", "--data", "relay-data")
            let revoked = try await shop.succeed("relay", "token", "revoke", "1", "--data", "relay-data", "--json").object()
            #expect(revoked["id"] as? Int == 1 && revoked["revoked"] is String && revoked["token"] == nil)
            let replicas = try await shop.succeed("relay", "replicas", "--data", "relay-data", "--space", "shop", "--json").objects()
            let id = try #require(replicas.first?["replica"] as? String)
            for action in ["retire", "release"] {
                let replica = try await shop.succeed("relay", action, id, "--data", "relay-data", "--space", "shop", "--json")
                    .object()
                #expect(replica["replica"] as? String == id && replica["retired"] is String, "\(action)")
            }
        }
    }

    @Test("rows with NULL in the key are counted by status, sync and verify, which say what to do")
    func nullKeys() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.shell(
                "shop.db", "CREATE TABLE tag (name TEXT, kind TEXT, PRIMARY KEY (name, kind)); INSERT INTO tag VALUES ('a', 'b');")
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.shell("shop.db", "INSERT INTO tag VALUES ('a', NULL), (NULL, NULL);")
            let line = "2 rows of tag have NULL in the key and are not synced. Set name or kind to sync them"
            let synced = try await shop.annals("sync", "shop.db")
            #expect(synced.status == 0 && synced.errors == "shop.db: \(line)\n")
            #expect(try await shop.succeed("status", "shop.db").output.contains(line))
            let status = try await shop.succeed("status", "shop.db", "--json").object()["rowsWithNullKey"] as? [[String: Any]]
            #expect(status?.count == 1 && status?[0]["table"] as? String == "tag" && status?[0]["rows"] as? Int == 2)
            #expect(status?[0]["columns"] as? [String] == ["name", "kind"])
            let verified = try await shop.annals("verify", "shop.db")
            #expect(verified.status == 0 && verified.errors == "annals: note: \(line)\n")
            let json = try await shop.succeed("verify", "shop.db", "--json").object()
            #expect((json["rowsWithNullKey"] as? [Any])?.count == 1 && json["ok"] as? Bool == true)
            // The way out.
            try await shop.shell("shop.db", "UPDATE tag SET name = 'c', kind = ifnull(kind, rowid) WHERE name IS NULL OR kind IS NULL;")
            let sent = try await shop.succeed("sync", "shop.db")
            #expect(sent.errors == "" && sent.output.contains("pushed 1 transaction"))
        }
    }

    @Test("verify finds a child whose parent another program removed, with status 1")
    func verifyFinds() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell("shop.db", "DELETE FROM customer WHERE id = 1;")
            let verified = try await shop.annals("verify", "shop.db", "--json")
            #expect(verified.status == 1 && verified.errors == "")
            let findings = try #require(try verified.object()["findings"] as? [[String: Any]])
            #expect(findings.map { $0["code"] as? String } == ["foreignKey"])
            let status = try await shop.succeed("status", "shop.db", "--json").object()
            #expect((status["foreignKeyViolations"] as? [[String: Any]])?.first?["rows"] as? Int == 1)
        }
    }
}
