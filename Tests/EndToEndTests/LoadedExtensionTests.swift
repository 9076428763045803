import Foundation
import Testing

/// Tables with a function and a collation of an extension, which the test compiles.
@Suite("--load-extension has what tables of a program need", .enabled(if: Compiler.path != nil), .timeLimit(.minutes(20)))
struct LoadedExtensionTests {
    private static let source = """
        #include <sqlite3ext.h>
        #include <strings.h>
        SQLITE_EXTENSION_INIT1

        static void twice(sqlite3_context *context, int count, sqlite3_value **values) {
            sqlite3_result_int64(context, 2 * sqlite3_value_int64(values[0]));
        }

        static int compare(void *unused, int left, const void *a, int right, const void *b) {
            int order = strncasecmp(a, b, left < right ? left : right);
            return order != 0 ? order : left - right;
        }

        int sqlite3_unicase_init(sqlite3 *db, char **error, const sqlite3_api_routines *routines) {
            SQLITE_EXTENSION_INIT2(routines);
            sqlite3_create_function(db, "twice", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, 0, twice, 0, 0);
            return sqlite3_create_collation(db, "unicase", SQLITE_UTF8, 0, compare);
        }
        """

    private static let schema = """
        CREATE TABLE card (name TEXT NOT NULL COLLATE unicase PRIMARY KEY, v INTEGER CHECK (twice(v) < 100)) WITHOUT ROWID;
        CREATE TABLE plain (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE cache (name TEXT COLLATE unicase UNIQUE);
        INSERT INTO card VALUES ('a', 1); INSERT INTO plain VALUES (1, 'one');
        """

    /// Compiles the extension and makes the file of a program that has it.
    private func prepare(_ shop: Workshop) async throws {
        try Data(Self.source.utf8).write(to: URL(fileURLWithPath: shop.file("unicase.c")))
        let compiler = try #require(Compiler.path)
        let outcome = try await Program.run(compiler, ["-shared", "-fPIC", "-o", "unicase.so", "unicase.c"], in: shop.path)
        try #require(outcome.status == 0, "\(outcome.errors)")
        try await program(shop, "shop.db", Self.schema)
    }

    /// A statement of the program that has the extension.
    @discardableResult
    private func program(_ shop: Workshop, _ file: String, _ sql: String) async throws -> String {
        try await shop.shell(file, ".load ./unicase\n\(sql)")
    }

    private func missing(_ tables: Any?) -> [String] {
        (tables as? [[String: Any]] ?? []).flatMap { table in
            (table["missing"] as? [[String: Any]] ?? []).map { use in
                ["table", "kind", "name", "place", "object"].map { (table[$0] ?? use[$0]) as? String ?? "-" }.joined(separator: " ")
            }
        }
    }

    @Test("without it the table is named and the others go on; with it everything works")
    func story() async throws {
        try await Workshop.with { shop in
            try await prepare(shop)
            let url = try await shop.relay()
            let extensionFile = ["--load-extension", "unicase.so"]
            func annals(_ arguments: [String]) async throws -> Outcome {
                try await Program.run(Workshop.annals, arguments, in: shop.path)
            }

            let skipped = try await shop.succeed("track", "shop.db", "--all", "--dry-run")
            #expect(skipped.output.contains("card ") && skipped.output.contains("unicase") && skipped.output.contains("--load-extension"))
            let tracked = try await annals(["track", "shop.db", "--all", "--json"] + extensionFile)
            let tables = try #require(tracked.object()["tables"] as? [[String: Any]], "\(tracked.errors)")
            #expect(
                tables.filter { $0["outcome"] as? String == "tracked" }.compactMap { $0["table"] as? String }.sorted() == ["card", "plain"])
            #expect(missing(tables).isEmpty)

            let status = try await shop.succeed("status", "shop.db", "--json").object()
            #expect(
                missing(status["unusable"]) == [
                    "cache collation unicase column name", "card collation unicase key -", "card function twice check -",
                ])
            let text = try await shop.succeed("status", "shop.db").output
            #expect(
                text.contains("card: its key uses the collation unicase, a CHECK of it uses the function twice(), which annals does not"))

            // The statement of a table that this machine cannot write is refused by name, and nothing is made.
            let join = ["join", "shop.db", "--relay", url, "--space", "shop"]
            for arguments in [join, join + ["--dry-run"]] {
                shop.expectFailure(try await annals(arguments), 65, "card (its key uses the collation unicase")
            }
            #expect(try await shop.succeed("relay", "spaces", "--data", "relay-data").output == "no spaces\n")
            let joined = try await annals(join + extensionFile + ["--json"])
            #expect(joined.status == 0, "\(joined.errors)")
            #expect(try missing(joined.object()["unusable"]).isEmpty)

            let clone = ["clone", url, "shop", "laptop.db"]
            shop.expectFailure(try await annals(clone), 65, "Load the extension that has it with --load-extension")
            #expect(!shop.exists("laptop.db"))
            let cloned = try await annals(clone + extensionFile)
            #expect(cloned.status == 0, "\(cloned.errors)")

            try await program(shop, "shop.db", "REPLACE INTO card VALUES ('A', 2), ('b', 3); INSERT INTO plain VALUES (2, 'two');")
            let synced = try await annals(["sync", "shop.db", "laptop.db"] + extensionFile)
            #expect(synced.status == 0, "\(synced.errors)")
            #expect(try await program(shop, "laptop.db", "SELECT group_concat(name || v, ' ') FROM card;") == "A2 b3")

            // A space with such a table goes on without the extension until an entry has a row of it.
            try await shop.shell("shop.db", "INSERT INTO plain VALUES (3, 'three');")
            let other = try await annals(["sync", "shop.db", "laptop.db"])
            #expect(other.status == 0, "\(other.errors)")
            #expect(other.errors.contains("laptop.db: card: its key uses the collation unicase"))
            try await program(shop, "shop.db", "UPDATE card SET v = 4 WHERE name = 'B';")
            #expect(try await annals(["sync", "shop.db"] + extensionFile).status == 0)
            let refused = try await annals(["sync", "laptop.db"])
            #expect(refused.status == 65)
            #expect(refused.errors.contains("rows of the table card cannot be written here"), "\(refused.errors)")

            try Data("extensions: [unicase.so]\nstores: [laptop.db]\n".utf8).write(to: URL(fileURLWithPath: shop.file("agent.yaml")))
            let agent = try await annals(["sync", "--config", "agent.yaml"])
            #expect(agent.status == 0, "\(agent.errors)")
            #expect(try await program(shop, "laptop.db", "SELECT v FROM card WHERE name = 'b';") == "4")
            for file in ["shop.db", "laptop.db"] {
                let verified = try await annals(["verify", file] + extensionFile)
                #expect(verified.status == 0, "\(verified.output)\(verified.errors)")
                #expect(try await annals(["verify", file]).status == 1)
            }
        }
    }

    @Test("a file that is no extension ends the command with one line and a status")
    func wrongFiles() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.fail(66, "nothing.so does not exist", "status", "shop.db", "--load-extension", "nothing.so")
            try await shop.fail(78, "shop.db cannot be loaded", "status", "shop.db", "--load-extension", "shop.db")
            try await shop.fail(78, "it is a folder", "track", "shop.db", "--all", "--load-extension", ".")
            try Data("extensions: unicase.so\nstores: [shop.db]\n".utf8).write(to: URL(fileURLWithPath: shop.file("agent.yaml")))
            try await shop.fail(78, "line 1: expected a list of files", "sync", "--config", "agent.yaml")
        }
    }
}

/// A C compiler: the system's, or the one beside the Swift compiler.
enum Compiler {
    static let path: String? = {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        let files = ["cc", "clang", "gcc"].flatMap { name in folders.map { "\($0)/\(name)" } }
        return files.first { FileManager.default.isExecutableFile(atPath: $0) }
    }()
}
