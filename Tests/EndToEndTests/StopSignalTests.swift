import Foundation
import Testing

/// Each command would run for minutes, hours or forever, or end with another status. So the status shows that the signal ended it.
@Suite("A stop signal ends any command, whatever SQLite does", .timeLimit(.minutes(20)))
struct StopSignalTests {
    private func stop(_ program: Program, _ signal: Int32) async throws -> Outcome {
        program.signal(signal)
        return try await program.end()
    }

    @Test(
        "while another program holds the lock, which is waited for ten seconds",
        arguments: [
            ("status", []), ("digest", []), ("verify", []), ("history", []), ("purge", ["--before", "latest"]), ("untrack", []),
            ("track", ["--all", "--wal"]), ("replay", ["--to", "start", "--output", "old.db"]),
        ] as [(String, [String])])
    func lock(_ command: String, _ arguments: [String]) async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            for (signal, status) in [(SIGINT, 130), (SIGTERM, 143)] as [(Int32, Int32)] {
                let holder = try await holdLock("shop.db", shop)
                let program = try Program(Workshop.annals, [command, "shop.db"] + arguments, in: shop.path)
                try await eventually("it has opened the store") { program.hasOpen("shop.db") }
                let outcome = try await stop(program, signal)
                #expect(outcome.status == status && outcome.errors == "" && outcome.output == "", "\(outcome)")
                holder.endInput()
                _ = try await holder.end()
            }
            #expect(try shop.names() == ["shop.db"])
            try await shop.succeed("verify", "shop.db")
        }
    }

    @Test("a watch and a watching sync that wait for a lock have done their work", arguments: [["watch"], ["sync", "--watch"]])
    func watching(_ command: [String]) async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("shop.db", "PRAGMA journal_mode = DELETE;")
            let holder = try await holdLock("shop.db", shop)
            let program = try Program(Workshop.annals, command + ["shop.db"], in: shop.path)
            try await eventually("it has opened the store") { program.hasOpen("shop.db") }
            let outcome = try await stop(program, SIGTERM)
            #expect(outcome.status == 0 && outcome.errors == "", "\(outcome)")
            holder.endInput()
            _ = try await holder.end()
            try await shop.succeed("verify", "shop.db")
        }
    }

    @Test("an operator's command while another program holds the relay's lock")
    func operatorsLock() async throws {
        try await Workshop.with { shop in
            let relay = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0").program
            relay.signal(SIGTERM)
            _ = try await relay.end()
            let holder = try await holdLock("relay-data/relay.db", shop)
            let program = try Program(Workshop.annals, ["relay", "token", "create", "--data", "relay-data"], in: shop.path)
            try await eventually("it has opened the log") { program.hasOpen("relay.db") }
            let outcome = try await stop(program, SIGTERM)
            #expect(outcome.status == 143 && outcome.errors == "" && outcome.output == "", "\(outcome)")
            holder.endInput()
            _ = try await holder.end()
            let tokens = try await shop.succeed("relay", "token", "list", "--data", "relay-data", "--json").objects()
            #expect(tokens.isEmpty)
        }
    }

    @Test("a statement that takes an hour", arguments: [["verify"], ["replay", "--to", "latest", "--output", "old.db"]])
    func statement(_ command: [String]) async throws {
        try await Workshop.with { shop in
            try await shop.shell("shop.db", Self.slowSchema + "CREATE INDEX slow ON photo(city);")
            // Changed in the schema table, because SQLite would read every row for a CREATE INDEX.
            try await shop.shell(
                "shop.db",
                """
                .dbconfig defensive off
                PRAGMA writable_schema = ON;
                UPDATE sqlite_master SET sql = 'CREATE INDEX slow ON photo(\(Self.slow))' WHERE name = 'slow';
                """)
            try await shop.succeed("track", "shop.db", "--all")
            let digest = try await shop.succeed("digest", "shop.db").output
            for (signal, status) in [(SIGINT, 130), (SIGTERM, 143)] as [(Int32, Int32)] {
                let program = try Program(Workshop.annals, [command[0], "shop.db"] + command.dropFirst(), in: shop.path)
                try await eventually("it is at work") { program.hasComputedForSeconds(1) }
                let outcome = try await stop(program, signal)
                #expect(outcome.status == status && outcome.errors == "" && outcome.output == "", "\(outcome)")
            }
            // On a busy machine the process may end before it has deleted the temporary file.
            #expect(try !shop.names().contains("old.db"))
            #expect(try await shop.succeed("digest", "shop.db").output == digest)
        }
    }

    @Test("a migration's query without end; nothing of it is done")
    func migration() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try Self.endlessQuery.write(toFile: shop.file("change.sql"), atomically: true, encoding: .utf8)
            let program = try Program(Workshop.annals, ["migrate", "shop.db", "--file", "change.sql"], in: shop.path)
            try await eventually("it is at work") { program.hasComputedForSeconds(1) }
            let outcome = try await stop(program, SIGTERM)
            #expect(outcome.status == 143 && outcome.errors == "", "\(outcome)")
            try await shop.succeed("verify", "shop.db")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM sqlite_master WHERE name = 'endless';") == "0")
        }
    }

    @Test("rows that take an hour to put in; the next sync goes on", arguments: [SIGINT, SIGTERM])
    func sync(_ signal: Int32) async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.shell("shop.db", Self.slowTable)
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.succeed("clone", url, "shop", "laptop.db")
            try await shop.shell("shop.db", Self.slowRows)
            try await shop.succeed("sync", "shop.db")
            let program = try Program(Workshop.annals, ["sync", "laptop.db"], in: shop.path)
            try await eventually("it is at work") { program.hasComputedForSeconds(3) }
            let outcome = try await stop(program, signal)
            #expect(outcome.status == (signal == SIGINT ? 130 : 143) && outcome.errors == "", "\(outcome)")
            let status = try await shop.succeed("status", "laptop.db", "--json").object()
            #expect(status["outbox"] as? Int == 0 && status["conflicts"] as? Int == 0)
            #expect(try await shop.shell("laptop.db", "SELECT count(*) FROM photo;") == "0", "one transaction is not done by half")
        }
    }

    @Test("an output that nobody reads, and nobody ever will")
    func output() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell(
                "shop.db",
                """
                INSERT INTO customer (name) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                    SELECT 'customer ' || i FROM n;
                """)
            try #require(mkfifo(shop.file("pipe"), 0o600) == 0)
            let pipe = open(shop.file("pipe"), O_RDWR | O_NONBLOCK)
            defer { close(pipe) }
            let script = "exec '\(Workshop.annals)' history shop.db --values --json > pipe"
            let program = try Program("bash", ["-c", script], in: shop.path)
            try await eventually("the pipe is full") {
                var poll = pollfd(fd: pipe, events: Int16(POLLOUT), revents: 0)
                return Foundation.poll(&poll, 1, 0) == 0
            }
            let outcome = try await stop(program, SIGTERM)
            #expect(outcome.status == 143 && outcome.errors == "", "\(outcome)")
        }
    }

    @Test("a relay finishes its answers; a second signal ends it at once")
    func secondSignal() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.shell(
                "shop.db", "CREATE TABLE photo (id INTEGER PRIMARY KEY, bytes BLOB); INSERT INTO photo VALUES (1, randomblob(20000000));")
            let (url, relay) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0")
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            let port = try #require(url.split(separator: ":").last)
            // It reads the first line of an answer of 20 MB, and nothing else.
            let request = ["GET /v1/spaces/shop/snapshot HTTP/1.1", "Host: 127.0.0.1", "", ""].joined(separator: "\\r\\n")
            let client = try Program(
                "bash", ["-c", "exec 3<>/dev/tcp/127.0.0.1/\(port); printf '\(request)' >&3; head -1 <&3; read"], in: shop.path)
            _ = try await client.prints("200 OK")
            relay.signal(SIGTERM)
            try await eventually("it takes no connection any more") {
                try await Program.run("bash", ["-c", "exec 3<>/dev/tcp/127.0.0.1/\(port)"], in: shop.path).status != 0
            }
            #expect(relay.isRunning, "it waits for its reader")
            let outcome = try await stop(relay, SIGTERM)
            #expect(outcome.status == 143, "\(outcome)")
            client.endInput()
        }
    }

    // MARK: Slow statements

    private func holdLock(_ name: String, _ shop: Workshop) async throws -> Program {
        let holder = try Program("sqlite3", ["-batch", name], in: shop.path)
        holder.write("BEGIN EXCLUSIVE;\nSELECT 'held';\n")
        _ = try await holder.prints("held")
        return holder
    }

    /// Some tenths of a second for each row.
    private static let slow = "length(hex(zeroblob(60000000 + id)))"
    private static let slowTable = "CREATE TABLE photo(id INTEGER PRIMARY KEY, city TEXT, CHECK(\(slow) > 0));"
    private static let slowRows = """
        PRAGMA ignore_check_constraints = ON;
        INSERT INTO photo (city) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT 'Lyon' FROM n;
        """
    private static let slowSchema = slowTable + slowRows

    private static let endlessQuery = """
        CREATE TABLE endless (id INTEGER PRIMARY KEY);
        INSERT INTO endless WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n;
        """
}
