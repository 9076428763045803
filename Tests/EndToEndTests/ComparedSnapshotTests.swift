import Foundation
import Testing

@Suite("A snapshot that a replica of another owner compares with its rows", .timeLimit(.minutes(20)))
struct ComparedSnapshotTests {
    @Test("over HTTP, in a plain space and in a sealed one", arguments: [false, true])
    func check(isSealed: Bool) async throws {
        try await Workshop.with { shop in
            let (url, _) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0", [])
            for name in ["ann", "bob"] {
                let token = try await Program.run(
                    Workshop.annals, ["relay", "token", "create", "--data", "relay-data", "--space", "s", "--scope", "write"], in: shop.path
                )
                let file = shop.file("\(name).token")
                try token.output.write(toFile: file, atomically: true, encoding: .utf8)
                try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
            }
            if isSealed { try await shop.succeed("key", "new", "--output", "s.key") }
            let key = isSealed ? ["--space-key-file", "s.key"] : []
            func annals(_ arguments: [String]) async throws -> Outcome {
                let outcome = try await Program.run(Workshop.annals, arguments, in: shop.path)
                try #require(outcome.status == 0, "\(arguments): \(outcome.errors)")
                return outcome
            }
            try await shop.shell("ann.db", "CREATE TABLE photo (id TEXT PRIMARY KEY, bytes BLOB);")
            try await shop.succeed("track", "ann.db", "--all")
            _ = try await annals(["join", "ann.db", "--relay", url, "--space", "s", "--credential-file", "ann.token"] + key)
            _ = try await annals(["clone", url, "s", "bob.db", "--credential-file", "bob.token"] + key)
            try await shop.shell("bob.db", "INSERT INTO photo VALUES ('bob', zeroblob(10));")
            try await shop.succeed("sync", "bob.db", "ann.db")
            // The log has grown by more than 8 MiB, so a snapshot is due.
            for number in 0..<5 { try await shop.shell("ann.db", "INSERT INTO photo VALUES ('\(number)', randomblob(2000000));") }
            try await shop.succeed("sync", "ann.db")
            let purge = ["relay", "purge", "--data", "relay-data", "--space", "s", "--dry-run", "--json"]
            let newest = try #require(await annals(purge).object()["newestSnapshot"] as? Int)
            #expect(newest > 1)
            /// The position of the snapshot that a clone begins with: one that is confirmed.
            func compared() async throws -> Int? {
                let space = try await annals(["verify", "bob.db", "--space", "--json"]).object()["space"] as? [String: Any]
                #expect(space?["equal"] as? Bool == true, "\(String(describing: space))")
                return space?["snapshot"] as? Int
            }
            // Bob has all entries, and does not confirm a snapshot in a sync that only pulls.
            try await shop.succeed("sync", "bob.db", "--pull-only")
            #expect(try await compared() == 1)
            try await shop.succeed("sync", "bob.db")
            #expect(try await compared() == newest)
        }
    }
}
