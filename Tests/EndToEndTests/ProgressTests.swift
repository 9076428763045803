import Foundation
import Testing

@Suite("On a terminal a sync says how far its snapshot has come", .timeLimit(.minutes(20)))
struct ProgressTests {
    /// Runs a program on a terminal of its own, and prints the terminal's output.
    private static let terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"

    @Test("in bytes while it goes up, and nothing of it stays; without a terminal it says nothing", arguments: [true, false])
    func sync(isTerminal: Bool) async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay("--no-auth", "--snapshot-after-positions", "1")
            _ = try await shop.makeLargeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern' WHERE id = 1;")
            let proxy = try await CuttingProxy.start(to: url, "up", after: 6 << 20, times: 1, stalls: true, in: shop.path)
            try await shop.shell("shop.db", "UPDATE annals_meta SET value = '\(proxy.url)' WHERE name = 'relay';")
            let arguments = [Workshop.annals, "sync", "shop.db"]
            let sync =
                isTerminal
                ? try Program("python3", ["-c", Self.terminal] + arguments, in: shop.path, environment: ["TERM": "xterm"])
                : try Program(arguments[0], Array(arguments.dropFirst()), in: shop.path)
            try await proxy.stalls()
            if isTerminal { _ = try await sync.prints("snapshot: uploading 4.0 MiB") }
            // The connection is gone, so the rest uses another one.
            _ = try await proxy.end()
            try await shop.shell("shop.db", "UPDATE annals_meta SET value = '\(url)' WHERE name = 'relay';")
            let outcome = try await sync.end()
            if isTerminal {
                let last = try #require(outcome.output.components(separatedBy: "\r\u{1B}[K").last)
                #expect(!last.contains("snapshot: "), "\(last)")
            } else {
                #expect(!outcome.output.contains("uploading") && !outcome.errors.contains("uploading"), "\(outcome)")
            }
            #expect(try await shop.succeed("sync", "shop.db").output.contains("sent the relay a snapshot"))
        }
    }
}
