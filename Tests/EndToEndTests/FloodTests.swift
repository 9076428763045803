import Foundation
import Testing

/// Thousands of connections to a relay in a process of its own. It stays small, and serves all clients.
@Suite struct FloodTests {
    /// `make check-full` uses 10,000.
    private static let connections = ProcessInfo.processInfo.environment["ANNALS_TEST_FLOOD"].flatMap(Int.init) ?? 2000

    @Test func `many connections that ask halfway: memory is the same the second time, and a sync beside them succeeds`() async throws {
        try await Workshop.with { shop in
            let (url, program) = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0", "--no-auth"])
            let port = try #require(url.split(separator: ":").last)
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            var sizes: [Int] = []
            for wave in 0..<3 {
                // From another program, because Foundation cannot start programs from a process with a thousand open files.
                let flood = try Program("python3", ["-c", Self.flood, String(port), "\(Self.connections)"] + Self.halves, in: shop.path)
                _ = try await flood.prints("open\n")
                try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern \(wave)' WHERE id = 1")
                // Other clients are served meanwhile.
                try await shop.succeed("sync", "shop.db")
                if let size = Self.residentKilobytes(program.id) { sizes.append(size) }
                flood.endInput()
                _ = try await flood.end()
                // Otherwise the connections of two waves are open at once.
                try await eventually("the relay closes the connections") {
                    try await Self.openConnections(url, shop) < Self.connections / 4
                }
            }
            // Other operating systems do not report it.
            guard let first = sizes.first, let last = sizes.last else { return }
            #expect(last < 500_000, "\(sizes) KB")
            #expect(last < first + first / 2, "\(sizes) KB")
        }
    }

    /// Opens connections and keeps them until its input ends.
    private static let flood = """
        import resource, socket, sys
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        port, count, halves = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
        held = []
        # Where fewer files may be opened, as many as there may.
        if hard != resource.RLIM_INFINITY: count = min(count, hard - 500)
        for number in range(count):
            held.append(socket.create_connection(("127.0.0.1", port)))
            held[-1].sendall(halves[number % len(halves)].encode())
        print("open", flush=True)
        sys.stdin.read()
        """

    /// The bytes that each connection sends before it stops: a part of a head, a part of a body, or nothing.
    private static let halves = [
        "", "GET /v1/spaces/shop HTTP/1.1\r\nHo", "GET /v1/spaces/shop/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /v1/spaces/shop/push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.annals.batch\r\nContent-Length: 1000000\r\n\r\nhalf",
        "\u{16}\u{3}\u{1}",
    ]

    private static func openConnections(_ url: String, _ shop: Workshop) async throws -> Int {
        let outcome = try await Program.run("curl", ["-s", "\(url)/metrics"], in: shop.path)
        let line = try #require(outcome.lines.first { $0.hasPrefix("annals_relay_connections ") })
        return try #require(line.split(separator: " ").last.flatMap { Int(Double($0) ?? 0) })
    }

    private static func residentKilobytes(_ process: Int32) -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8) else { return nil }
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }
    }
}
