import Foundation
import Testing

@Suite struct OpenFilesTests {
    /// Runs annals in a shell with other limits.
    private func run(_ limit: String, _ words: String, in shop: Workshop) async throws -> Outcome {
        try await Program.run("/bin/bash", ["-c", "\(limit) && exec \(Workshop.annals) \(words)"], in: shop.path)
    }

    @Test func `where the system allows too few files for the stores, sync says so and begins nothing`() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            var names: [String] = []
            for number in 1...6 {
                let name = "shop\(number).db"
                try await shop.shell(name, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)")
                try await shop.succeed("track", name, "--all")
                try await shop.succeed("join", name, "--relay", url, "--space", "shop\(number)")
                try await shop.shell(name, "INSERT INTO note VALUES (1, 'x')")
                names.append(name)
            }
            let stores = names.joined(separator: " ")
            for words in ["sync \(stores)", "sync --watch \(stores)"] {
                let refused = try await run("ulimit -n 123", words, in: shop)
                shop.expectFailure(refused, 78, "6 stores need 124 open files, and the system allows this process 123")
                #expect(refused.errors.contains("LimitNOFILE") && refused.output.isEmpty, "\(refused.errors)\(refused.output)")
            }
            // A lower soft limit is raised.
            let raised = try await run("ulimit -S -n 60", "sync \(stores)", in: shop)
            #expect(raised.status == 0 && raised.output.contains("shop6.db: pushed 1 transaction"), "\(raised.errors)\(raised.output)")
            let enough = try await run("ulimit -n 124", "sync \(stores)", in: shop)
            #expect(enough.status == 0, "\(enough.errors)")
        }
    }
}
