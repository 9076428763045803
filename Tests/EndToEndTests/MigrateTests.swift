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
            try await shop.fail(64, "the file has COMMIT without its BEGIN", "migrate", "shop.db", "--file", "bad.sql")
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
            #expect(
                status.contains("version 2; does not have customer.points, gift: their values are stored until it migrates"), "\(status)")
            try await shop.succeed("policy", "shop.db", "set", "space", "--on", "schema", "take")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.succeed("sync", "laptop.db")
            #expect(
                try await shop.shell("laptop.db", "SELECT points FROM customer ORDER BY id LIMIT 2; SELECT * FROM gift;") == "5\n3\ng1|1")
            let digests = [try await shop.succeed("digest", "shop.db").output, try await shop.succeed("digest", "laptop.db").output]
            #expect(digests[0].split(separator: " ").first == digests[1].split(separator: " ").first)
        }
    }

    @Test("says how many conflicts it settled between what was kept and what was written here meanwhile")
    func conflicts() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            let script = "ALTER TABLE customer ADD COLUMN points INTEGER NOT NULL DEFAULT 3; UPDATE customer SET points = 5 WHERE id = 1;"
            try script.write(toFile: shop.file("v2.sql"), atomically: true, encoding: .utf8)
            try await shop.succeed("migrate", "shop.db", "--file", "v2.sql")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.shell("laptop.db", "DELETE FROM customer WHERE id = 1;")
            let outcome = try await shop.succeed("migrate", "laptop.db", "--file", "v2.sql").output
            #expect(outcome.hasSuffix("done as \"v2.sql\"; 1 conflict\n"), "\(outcome)")
            try await shop.succeed("sync", "laptop.db")
            #expect(try await shop.succeed("conflicts", "laptop.db", "--json").output.split(separator: "\n").count == 1)
        }
    }

    @Test("renames by name: here, for clones, and for nobody who calls it otherwise")
    func renames() async throws {
        try await Workshop.with { shop in
            let url = try await shop.makeReplicas()
            try "UPDATE customer SET town = upper(town);".write(toFile: shop.file("v2.sql"), atomically: true, encoding: .utf8)
            let outcome = try await shop.succeed("migrate", "shop.db", "--rename", "customer.city=town", "--file", "v2.sql")
            #expect(outcome.output == "shop.db: 1 rename, 1 statement done as \"v2.sql\"\n")
            let table = try await shop.succeed("migrate", "shop.db", "--rename", "invoice=bill").output
            #expect(table == "shop.db: 1 rename done as \"rename\"\n")
            try await shop.shell("laptop.db", "UPDATE customer SET name = 'Vee' WHERE id = 1; INSERT INTO invoice VALUES (9, 1, 3.5);")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.succeed("sync", "shop.db")
            #expect(try await shop.shell("laptop.db", "SELECT name, city FROM customer ORDER BY id;") == "Vee|LYON\nLuis|CORK")
            #expect(
                try await shop.shell("shop.db", "SELECT name, town FROM customer; SELECT id FROM bill;") == "Vee|LYON\nLuis|CORK\n1\n2\n9")
            #expect(try await shop.succeed("verify", "laptop.db").status == 0)
            try await shop.succeed("clone", url, "shop", "new.db")
            #expect(try await shop.shell("new.db", "SELECT town FROM customer; SELECT count(*) FROM bill;") == "LYON\nCORK\n3")
            var digests: [Substring?] = []
            for store in ["shop.db", "laptop.db", "new.db"] {
                digests.append(try await shop.succeed("digest", store).output.split(separator: " ").first)
            }
            #expect(Set(digests).count == 1)
            try await shop.succeed("policy", "laptop.db", "set", "customer.city", "mergeByPropertyStoreTrump")
            try await shop.succeed("sync", "laptop.db", "shop.db")
            let policies = try await shop.succeed("policy", "shop.db", "show").output
            #expect(policies.contains("customer.town"), "\(policies)")
        }
    }

    @Test("what a migration tool prints runs as it is: pairs of BEGIN and COMMIT, comments, a dropped column")
    func printedMigration() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let script = """
                BEGIN;
                --
                -- Remove field city from customer
                --
                ALTER TABLE "customer" DROP COLUMN "city";
                COMMIT;
                BEGIN IMMEDIATE;
                ALTER TABLE "customer" ADD COLUMN "town" text NULL; /* END; */
                END TRANSACTION;
                """
            try script.write(toFile: shop.file("0002.sql"), atomically: true, encoding: .utf8)
            let outcome = try await shop.succeed("migrate", "shop.db", "--file", "0002.sql")
            #expect(outcome.output == "shop.db: 2 statements done as \"0002.sql\"\n")
            for (script, message) in [
                ("BEGIN; DELETE FROM customer;", "the file has BEGIN without its COMMIT"),
                ("BEGIN; BEGIN; DELETE FROM customer; COMMIT;", "the file has BEGIN without its COMMIT"),
                ("BEGIN; DELETE FROM customer; ROLLBACK;", "ROLLBACK is not allowed in a migration"),
            ] {
                try script.write(toFile: shop.file("bad.sql"), atomically: true, encoding: .utf8)
                try await shop.fail(64, message, "migrate", "shop.db", "--file", "bad.sql")
            }
            #expect(try await shop.shell("shop.db", "SELECT count(*) > 0 FROM customer;") == "1")
            #expect(try await shop.succeed("verify", "shop.db").status == 0)
        }
    }

    @Test("a clone says how a migration tool learns that its migrations have run")
    func migrationRecords() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.makeShop()
            let tables = ["django_migrations", "Alembic_Version", "knex_migrations", "scratch"]
            try await shop.shell("shop.db", tables.map { "CREATE TABLE \($0) (name TEXT);" }.joined())
            try await shop.succeed("track", "shop.db", "customer", "invoice")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            let lines = try await shop.succeed("clone", url, "shop", "laptop.db").errors.split(separator: "\n")
            #expect(lines.count == 4 && lines[0].contains("4 untracked tables are empty"))
            #expect(lines.contains { $0.contains("before Django migrates it, run python manage.py migrate --fake") })
            #expect(lines.contains { $0.contains("before Alembic migrates it, run alembic stamp head") })
            #expect(lines.contains { $0.contains("before Knex migrates it, copy the rows of knex_migrations from another replica") })
        }
    }

    @Test("a rename that cannot be made is told in one line, and nothing is changed")
    func refusedRenames() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.fail(64, "there is nothing to do", "migrate", "shop.db")
            try await shop.fail(64, "--rename city has the wrong form", "migrate", "shop.db", "--rename", "city")
            try await shop.fail(
                65, "there is neither customer.town nor place", "migrate", "shop.db", "--rename", "customer.city=x", "--rename",
                "customer.town=place")
            try await shop.fail(65, "there are both customer.city and email", "migrate", "shop.db", "--rename", "customer.city=email")
            try await shop.fail(65, "the table guest is not tracked", "migrate", "shop.db", "--rename", "guest=customer")
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;") == "Lyon")
            // Rebuilt by another program.
            try await shop.shell(
                "shop.db",
                """
                CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE, town TEXT);
                INSERT INTO c SELECT * FROM customer; DROP TABLE customer; ALTER TABLE c RENAME TO customer;
                """)
            try await shop.fail(65, "annals migrate STORE --rename customer.city=town", "sync", "shop.db")
            try await shop.succeed("migrate", "shop.db", "--rename", "customer.city=town")
            try await shop.shell("shop.db", "UPDATE customer SET town = 'Nice' WHERE id = 1;")
            try await shop.succeed("sync", "shop.db")
            try await shop.succeed("sync", "laptop.db")
            #expect(try await shop.shell("laptop.db", "SELECT city FROM customer WHERE id = 1;") == "Nice")
        }
    }
}
