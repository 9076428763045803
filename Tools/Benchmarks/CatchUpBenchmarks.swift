import AnnalsCore
import AnnalsHTTP
import AnnalsWire
import Foundation

/// The whole log to one and to 100 clients that pull at the same time, compared with `curl` of the same pages by one process.
///
/// The relay runs in a separate process. The clients read the pages and apply nothing, so this is the relay's work and the network's.
enum CatchUpBenchmarks {
    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        let (program, address) = try ChildProgram.relay(["--data", folder.file("relay")])
        defer { program.stop() }
        let client = try HTTPClient(.init(activeTransfers: 200))
        guard let space = SpaceName("catchup") else { throw BareConnection.Failure(description: "the space has no name") }
        let lineage = try await RelayBenchmarks.create(space, address, client)
        let authors = 32
        let pushes = scale.rounds > 2 ? 1_000 : 200
        let batches = try (0..<authors).map { try RelayBenchmarks.batches(pushes, by: $0, in: lineage) }
        _ = try await RelayBenchmarks.post(batches, to: [address], Endpoints.push(space), expecting: 200, client)
        let (urls, bytes) = try await pages(of: space, address, client)
        var results: [Benchmark] = []
        for count in [1, 100] {
            var rounds: [Comparison.Round] = []
            for _ in 0..<scale.rounds {
                var turns = Alternation()
                try await turns.take {
                    try await withThrowingTaskGroup(of: Int.self) { group in
                        for _ in 0..<count { group.addTask { try await pages(of: space, address, client).bytes } }
                        for try await read in group where read != bytes {
                            throw BareConnection.Failure(description: "a client got \(read) bytes and not \(bytes)")
                        }
                    }
                } baseline: {
                    let requests = urls.map { ["-sf", "-o", "/dev/null", $0] }.joined(separator: ["--next"])
                    try ChildProgram.run("/usr/bin/curl", Array(requests))
                }
                rounds.append(Comparison.Round(subject: turns.round.subject / Double(count), baseline: turns.round.baseline))
            }
            results.append(
                Benchmark(
                    name: "the log of \(bytes >> 20) MB to each of \(count) clients", against: "curl of the same pages", budget: .none,
                    work: authors * pushes, comparison: Comparison(rounds: rounds)))
        }
        await client.shutdown()
        return results
    }

    /// Pulls all pages, one after another, and returns their addresses and the bytes.
    private static func pages(of space: SpaceName, _ address: String, _ client: HTTPClient) async throws -> (urls: [String], bytes: Int) {
        var position = Position.zero
        var urls: [String] = []
        var bytes = 0
        while true {
            let url = "\(address)\(Endpoints.entries(space))?after=\(position.rawValue)&limit=\(2 << 20)"
            let answer = try await client.send(HTTPRequest("GET", url: url))
            guard answer.status == 200 else { throw BareConnection.Failure(description: "\(url): \(answer.status)") }
            let page = try Page.decode(answer.body)
            urls.append(url)
            bytes += answer.body.count
            guard page.lastPosition > position, page.lastPosition < page.head else { return (urls, bytes) }
            position = page.lastPosition
        }
    }
}
