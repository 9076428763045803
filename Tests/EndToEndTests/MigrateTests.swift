import Foundation
import Testing

@Suite("annals migrate", .timeLimit(.minutes(20)))
struct MigrateTests {
    private static let script = """
        ALTER TABLE customer ADD COLUMN points INTEGER NOT NULL DEFAULT 3;
        CREATE TABLE gift (id TEXT PRIMARY KEY NOT NULL, customer INTEGER REFERENCES customer (id));
        UPDATE customer SET points = 5 WHERE id = 1;
        INSERT INTO gift VALUES ('g1', 1);
        """

    @Test("is one transaction of history with its label, or nothing")
    func oneTransaction() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try Self.script.write(toFile: shop.file("v2.sql"), atomically: true, encoding: .utf8)
            let outcome = try await shop.succeed("migrate", "shop.db", "--file", "v2.sql", "--label", "version 2", "--track")
            #expect(outcome.output == "shop.db: 4 statements done as \"version 2\"; tracked now: gift\n")
            let history = try await shop.succeed("history", "shop.db", "--origin", "migration", "--json").lines
            #expect(history.count == 1 && history[0].contains("version 2") && history[0].contains("gift"))
            #expect(try await shop.succeed("verify", "shop.db").status == 0)
            try "UPDATE customer SET points = 9; COMMIT;".write(toFile: shop.file("bad.sql"), atomically: true, encoding: .utf8)
            try await shop.fail(64, "COMMIT has no place in a migration", "migrate", "shop.db", "--file", "bad.sql")
            try "UPDATE customer SET points = 9; DROP TABLE nowhere;".write(toFile: shop.file("bad.sql"), atomically: true, encoding: .utf8)
            try await shop.fail(65, "SQLite refused statement 2: no such table: nowhere", "migrate", "shop.db", "--file", "bad.sql")
            try await shop.fail(66, "none.sql cannot be read", "migrate", "shop.db", "--file", "none.sql")
            #expect(try await shop.shell("shop.db", "SELECT points FROM customer WHERE id = 1;") == "5")
        }
    }

    @Test("reaches replicas: they keep what is new, or make it themselves where the space says so")
    func replicas() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try Self.script.write(toFile: shop.file("v2.sql"), atomically: true, encoding: .utf8)
            try await shop.succeed("migrate", "shop.db", "--file", "v2.sql", "--track")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            let status = try await shop.succeed("status", "laptop.db").output
            #expect(status.contains("version 2; lacks customer.points, gift, kept until it migrates"), "\(status)")
            try await shop.succeed("policy", "shop.db", "set", "space", "--on", "schema", "take")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.succeed("sync", "laptop.db")
            #expect(
                try await shop.shell("laptop.db", "SELECT points FROM customer ORDER BY id LIMIT 2; SELECT * FROM gift;") == "5\n3\ng1|1")
            let digests = [try await shop.succeed("digest", "shop.db").output, try await shop.succeed("digest", "laptop.db").output]
            #expect(digests[0].split(separator: " ").first == digests[1].split(separator: " ").first)
        }
    }
}
