import Foundation
import Testing

private let postgres = ProcessInfo.processInfo.environment["ANNALS_TEST_POSTGRES"]

@Suite(
    "Two relays over one PostgreSQL (skipped where ANNALS_TEST_POSTGRES names none)", .enabled(if: postgres != nil),
    .timeLimit(.minutes(20))
)
struct PostgresRelayTests {
    /// The server's address, in a schema of its own.
    private func address(_ shop: Workshop) throws -> String {
        let schema = "e" + shop.path.suffix(36).filter { $0 != "-" }.lowercased()
        let postgres = try #require(postgres)
        // As an operator does it: psql comes with the server.
        return "\(postgres) application_name=\(schema) options='-c search_path=\(schema)'"
    }

    private func serve(_ shop: Workshop, _ place: String, listen: String = "127.0.0.1:0") async throws -> (url: String, program: Program) {
        try await shop.startRelay(["--postgres", place, "--listen", listen, "--no-auth"])
    }

    private func prepare(_ shop: Workshop, _ place: String) async throws {
        let schema = try #require(place.split(separator: "=").last?.dropLast())
        let outcome = try await Program.run("psql", ["-q", try #require(postgres), "-c", "CREATE SCHEMA \(schema)"], in: shop.path)
        try #require(outcome.status == 0, "\(outcome.errors)")
    }

    @Test("stores at different relays are one space, and the operator's commands work on the database")
    func story() async throws {
        try await Workshop.with { shop in
            let place = try address(shop)
            try await prepare(shop, place)
            let (one, _) = try await serve(shop, place)
            let (other, _) = try await serve(shop, place)
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", one, "--space", "shop", "--name", "till")
            try await shop.succeed("clone", other, "shop", "laptop.db", "--name", "laptop")
            try await shop.shell("shop.db", "INSERT INTO customer(name) VALUES ('Ada');")
            try await shop.shell("laptop.db", "INSERT INTO customer(name) VALUES ('Bob'); UPDATE customer SET city = 'Oslo' WHERE id = 1;")
            for store in ["shop.db", "laptop.db", "shop.db"] { try await shop.succeed("sync", store) }
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM customer;") == "4")

            let spaces = try await shop.succeed("relay", "spaces", "--postgres", place, "--json").object()
            #expect(spaces["space"] as? String == "shop" && spaces["head"] as? Int == 3)
            let token = try await shop.succeed("relay", "token", "create", "--postgres", place).output
            #expect(token.hasPrefix("ann_"))
            try await shop.fail(64, "--data DIR or --postgres URL", "relay", "spaces")
            try await shop.fail(69, "PostgreSQL", "relay", "spaces", "--postgres", "host=/nowhere")
        }
    }

    @Test("law 7: a relay that is killed twenty times while stores sync loses nothing and brings nothing twice")
    func kills() async throws {
        try await Workshop.with { shop in
            let place = try address(shop)
            try await prepare(shop, place)
            var (one, killed) = try await serve(shop, place)
            let (other, _) = try await serve(shop, place)
            let port = try #require(one.split(separator: ":").last)
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", one, "--space", "shop")
            try await shop.succeed("clone", other, "shop", "laptop.db")
            var interrupted = 0
            for round in 1...20 {
                for store in ["shop.db", "laptop.db"] {
                    try await shop.shell(
                        store,
                        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20) INSERT INTO invoice(customer_id, total) SELECT 1, \(round) FROM c;"
                    )
                }
                let sync = try Program(Workshop.annals, ["sync", "shop.db"], in: shop.path)
                async let neighbour = shop.annals("sync", "laptop.db")
                // At any time between the program's start and its end.
                let path = shop.file("shop.db")
                for _ in 0..<(round * 4000) { _ = FileManager.default.fileExists(atPath: path) }
                killed.signal(SIGKILL)
                _ = try await killed.end()
                let outcome = try await sync.end()
                if outcome.status != 0 { interrupted += 1 }
                _ = try await neighbour
                (one, killed) = try await serve(shop, place, listen: "127.0.0.1:\(port)")
            }
            print("20 kills, \(interrupted) syncs interrupted")
            #expect(interrupted >= 5)
            for store in ["shop.db", "laptop.db", "shop.db"] { try await shop.succeed("sync", store) }
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM invoice;") == "\(2 + 20 * 40)")
            try await shop.succeed("verify", "shop.db")
        }
    }

    @Test("law 7: a PostgreSQL that is killed twenty times while stores sync by two relays loses nothing and brings nothing twice")
    func databaseKills() async throws {
        try await Workshop.with { shop in
            try await withServer(in: shop) { server, place in
                let (one, _) = try await serve(shop, place)
                let (other, _) = try await serve(shop, place)
                try await shop.makeShop()
                try await shop.succeed("track", "shop.db", "--all")
                try await shop.succeed("join", "shop.db", "--relay", one, "--space", "shop")
                try await shop.succeed("clone", other, "shop", "laptop.db")
                var hit = 0
                for round in 1...20 {
                    for store in ["shop.db", "laptop.db"] {
                        try await shop.shell(
                            store,
                            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20) INSERT INTO invoice(customer_id, total) SELECT 1, \(round) FROM c;"
                        )
                    }
                    let syncs = try ["shop.db", "laptop.db"].map { try Program(Workshop.annals, ["sync", $0], in: shop.path) }
                    // At any time between the programs' start and their end.
                    let path = shop.file("shop.db")
                    for _ in 0..<(round * 4000) { _ = FileManager.default.fileExists(atPath: path) }
                    server.signal(SIGUSR1)
                    if syncs.contains(where: \.isRunning) { hit += 1 }
                    for sync in syncs {
                        let outcome = try await sync.end()
                        // They try again or ask the user to. No program reports corruption.
                        #expect([0, 69, 75].contains(outcome.status), "\(outcome.errors)")
                    }
                    try await eventually("it runs again") { server.output.components(separatedBy: "restarted").count == round + 1 }
                }
                print("20 kills, \(hit) during a sync")
                #expect(hit >= 5)
                for store in ["shop.db", "laptop.db", "shop.db"] { try await shop.succeed("sync", store) }
                try await shop.expectEqual("shop.db", "laptop.db")
                #expect(try await shop.shell("shop.db", "SELECT count(*) FROM invoice;") == "\(2 + 20 * 40)")
                try await shop.succeed("verify", "shop.db")
            }
        }
    }

    /// A server of the test, which SIGUSR1 kills and starts again.
    private func withServer(in shop: Workshop, _ body: (Program, String) async throws -> Void) async throws {
        let server = try Program("python3", ["-c", Self.unblocked, Self.script] + Self.untilStopped, in: shop.path)
        let line = try await server.prints(".\n")
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(server, String(line.dropFirst("at ".count).dropLast(2))))
        } catch {
            result = .failure(error)
        }
        server.signal(SIGTERM)
        _ = try await server.end()
        try result.get()
    }

    /// Prints its address, and waits.
    private static let untilStopped = ["bash", "-c", #"echo "at $ANNALS_TEST_POSTGRES."; exec sleep 600"#]
    /// Foundation starts programs from threads with blocked signals, and a shell does not change that.
    private static let unblocked =
        "import os, signal, sys; signal.pthread_sigmask(signal.SIG_SETMASK, []); os.execv(sys.argv[1], sys.argv[1:])"
    private static let script = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Scripts/with-postgres").path
}
