import Foundation
import Testing

/// A folder of its own for one test, with the programs that are used in it.
final class Workshop: Sendable {
    let path: String
    private let relays = Relays()

    init() throws {
        path = FileManager.default.temporaryDirectory.path + "/annals-end-to-end-\(UUID())"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    /// Runs a test in a folder. Relays that it started are stopped in any case.
    static func with(_ body: (Workshop) async throws -> Void) async throws {
        let workshop = try Workshop()
        do {
            try await body(workshop)
        } catch {
            await workshop.relays.stop()
            throw error
        }
        await workshop.relays.stop()
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }
    func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: file(name)) }
    func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: path).sorted() }
    func bytes(_ name: String) throws -> Data { try #require(FileManager.default.contents(atPath: file(name))) }

    /// The number of bytes of unfinished snapshot transfers.
    func partialBytes() throws -> Int {
        try partialFiles().reduce(0) { $0 + ((try? FileManager.default.attributesOfItem(atPath: $1)[.size] as? Int) ?? 0) }
    }

    func partialFiles() throws -> [String] {
        try names().filter { $0.hasPrefix(".annals-") }.map { file("\($0)/snapshot.zst") }.filter {
            FileManager.default.fileExists(atPath: $0)
        }
    }

    // MARK: Programs

    /// The built binary, in the folder of the test bundle.
    static let annals: String = {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
        var folder = URL(fileURLWithPath: own).deletingLastPathComponent()
        while folder.path != "/" {
            let candidate = folder.appendingPathComponent("annals").path
            if FileManager.default.isExecutableFile(atPath: candidate) { return candidate }
            folder.deleteLastPathComponent()
        }
        return "annals"
    }()

    @discardableResult
    func annals(_ arguments: String..., environment: [String: String] = [:]) async throws -> Outcome {
        try await Program.run(Self.annals, arguments, in: path, environment: environment)
    }

    /// Runs it and expects success.
    @discardableResult
    func succeed(_ arguments: String..., location: SourceLocation = #_sourceLocation) async throws -> Outcome {
        let outcome = try await Program.run(Self.annals, arguments, in: path)
        try #require(outcome.status == 0, "annals \(arguments.joined(separator: " ")): \(outcome.errors)", sourceLocation: location)
        return outcome
    }

    /// Runs it and expects one line on standard error and a status.
    func fail(
        _ status: Int32, _ words: String, _ arguments: String..., environment: [String: String] = [:],
        location: SourceLocation = #_sourceLocation
    ) async throws {
        let outcome = try await Program.run(Self.annals, arguments, in: path, environment: environment)
        expectFailure(outcome, status, words, location: location)
    }

    func expectFailure(_ outcome: Outcome, _ status: Int32, _ words: String, location: SourceLocation = #_sourceLocation) {
        #expect(outcome.status == status, "\(outcome.errors)\(outcome.output)", sourceLocation: location)
        #expect(outcome.errorLines.count == 1, "\(outcome.errors)", sourceLocation: location)
        #expect(outcome.errors.hasPrefix("annals: error: "), "\(outcome.errors)", sourceLocation: location)
        #expect(outcome.errors.contains(words), "\(outcome.errors)", sourceLocation: location)
    }

    /// A write of another program: the `sqlite3` shell, without Annals.
    @discardableResult
    func shell(_ database: String, _ sql: String) async throws -> String {
        let outcome = try await Program.run("sqlite3", ["-bail", "-batch", database], in: path, input: sql + "\n")
        try #require(outcome.status == 0 && outcome.errors.isEmpty, "sqlite3: \(outcome.errors)")
        return outcome.output.trimmingCharacters(in: .newlines)
    }

    // MARK: A relay

    /// Starts a relay on a free port and returns its address.
    func relay(_ arguments: String...) async throws -> String {
        try await startRelay(data: "relay-data", listen: "127.0.0.1:0", arguments.isEmpty ? ["--no-auth"] : arguments).url
    }

    func startRelay(data: String, listen: String, _ arguments: [String] = ["--no-auth"]) async throws -> (url: String, program: Program) {
        try await startRelay(["--data", data, "--listen", listen] + arguments)
    }

    func startRelay(_ arguments: [String]) async throws -> (url: String, program: Program) {
        let program = try Program(Self.annals, ["relay", "serve"] + arguments, in: path)
        await relays.add(program)
        let line = try await program.prints("\n")
        let url = try #require(line.split(separator: " ").last.map { $0.trimmingCharacters(in: .newlines) })
        try #require(line == "listening on \(url)\n", "it prints one line: \(line)")
        return (url, program)
    }

    private actor Relays {
        private var programs: [Program] = []

        func add(_ program: Program) { programs.append(program) }

        func stop() async {
            for program in programs {
                program.signal(SIGTERM)
                _ = try? await program.end()
            }
        }
    }

    // MARK: Stores

    /// A shop with integer keys, a foreign key and a unique column.
    static let schema = """
        CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE, city TEXT);
        CREATE TABLE invoice (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customer (id), total REAL);
        INSERT INTO customer (name, email, city) VALUES ('Vera', 'vera@example.org', 'Lyon'), ('Luis', 'luis@example.org', 'Cork');
        INSERT INTO invoice (customer_id, total) VALUES (1, 9.5), (2, 20);
        """

    func makeShop(_ name: String = "shop.db") async throws {
        try await shell(name, Self.schema)
    }

    /// Runs a test in a folder with a tracked shop.
    static func withTrackedShop(_ body: (Workshop) async throws -> Void) async throws {
        try await with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await body(shop)
        }
    }

    /// Writes as another program. Each write is recorded as one transaction.
    func write(_ sql: String...) async throws {
        for sql in sql {
            try await shell("shop.db", sql)
            try await succeed("status", "shop.db")
        }
    }

    /// A shop with rows that cannot be compressed. Returns their approximate size in bytes.
    func makeLargeShop() async throws -> Int {
        try await makeShop()
        try await shell(
            "shop.db",
            "CREATE TABLE photo(id INTEGER PRIMARY KEY, bytes BLOB); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20) INSERT INTO photo SELECT x, randomblob(1 << 20) FROM c;"
        )
        return 20 << 20
    }

    /// Two replicas of one space: shop.db and laptop.db.
    func makeReplicas() async throws -> String {
        let url = try await relay()
        try await makeShop()
        try await succeed("track", "shop.db", "--all")
        try await succeed("join", "shop.db", "--relay", url, "--space", "shop")
        try await succeed("clone", url, "shop", "laptop.db")
        return url
    }

    /// Expects the same rows in both files, compared by digest and by the shell's output for every tracked table.
    func expectEqual(_ one: String, _ other: String, location: SourceLocation = #_sourceLocation) async throws {
        let digests = try await [succeed("digest", one, "--json"), succeed("digest", other, "--json")].map { try $0.object() }
        #expect(digests[0]["digest"] as? String == digests[1]["digest"] as? String, sourceLocation: location)
        #expect(digests[0]["position"] as? Int == digests[1]["position"] as? Int, sourceLocation: location)
        for file in [one, other] {
            #expect(try await shell(file, "PRAGMA foreign_key_check; PRAGMA integrity_check;") == "ok", sourceLocation: location)
        }
        let tables = try await shell(
            one, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'annals_%' AND name NOT LIKE 'sqlite_%';")
        for table in tables.split(separator: "\n") {
            let sql = ".mode quote\nSELECT * FROM \"\(table)\" ORDER BY 1, 2;"
            let rows = try await [shell(one, sql), shell(other, sql)]
            #expect(rows[0] == rows[1], "\(table)", sourceLocation: location)
        }
    }
}
