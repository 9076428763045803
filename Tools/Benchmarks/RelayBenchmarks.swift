import AnnalsCore
import AnnalsHTTP
import AnnalsWire
import Foundation
import SeededRandom
import Synchronization

/// Durable pushes by 32 clients at once, compared with a POST of the same bytes that the same relay refuses at once (405): pushes of
/// one transaction of 1 KiB, and pushes of 100 short transactions.
///
/// The relay runs in a separate process. If `ANNALS_TEST_POSTGRES` names a PostgreSQL server, one, two and three relays on it are
/// measured, too. Subject and baseline include the cost of the same clients on the same machine.
enum RelayBenchmarks {
    private static let clients = 32

    /// What each push has.
    struct Contents {
        var transactions = 1
        /// The bytes of the value that each transaction inserts.
        var payload = 850

        static let short = Contents(transactions: 100, payload: 50)
    }

    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        var results = [
            try await measure(["--data", folder.file("relay")], relays: 1, Contents(), .atLeast(0.5), "SQLite", scale),
            try await measure(["--data", folder.file("relay-100")], relays: 1, .short, .none, "SQLite, 100 transactions each", scale),
        ]
        if let postgres = ProcessInfo.processInfo.environment["ANNALS_TEST_POSTGRES"] {
            for (relays, name) in [(1, "one relay"), (2, "two relays"), (3, "three relays")] {
                results.append(
                    try await measure(["--postgres", postgres], relays: relays, Contents(), .atLeast(0.2), "PostgreSQL, \(name)", scale))
            }
        }
        return results
    }

    private static func measure(
        _ place: [String], relays: Int, _ contents: Contents, _ budget: Budget, _ name: String, _ scale: Scale
    ) async throws -> Benchmark {
        let programs = try (0..<relays).map { _ in try ChildProgram.relay(place) }
        defer { for (program, _) in programs { program.stop() } }
        let addresses = programs.map(\.address)
        let client = try HTTPClient(.init(activeTransfers: clients * 2))
        let each = (scale.rounds > 2 ? 200 : 60) / (contents.transactions > 1 ? 10 : 1)
        var rounds: [Comparison.Round] = []
        var latencies: [Double] = []
        for round in 0..<scale.rounds + 1 {
            let space = SpaceName("bench-\(round)-\(UInt32.random(in: 0 ... .max))")
            guard let space else { throw BareConnection.Failure(description: "the name of the space is invalid") }
            let lineage = try await create(space, addresses[0], client)
            let batches = try (0..<clients).map { try Self.batches(each, by: $0, in: lineage, contents) }
            var turns = Alternation()
            let pushes = Mutex<[Double]>([])
            try await turns.take {
                let taken = try await post(batches, to: addresses, Endpoints.push(space), expecting: 200, client)
                pushes.withLock { $0 += taken }
            } baseline: {
                _ = try await post(batches, to: addresses, Endpoints.live, expecting: 405, client)
            }
            // The first round is a warm-up. The ratio is the baseline's time divided by that of the pushes.
            guard round > 0 else { continue }
            rounds.append(Comparison.Round(subject: turns.round.baseline, baseline: turns.round.subject))
            latencies += pushes.withLock { $0 }
        }
        latencies.sort()
        let p = { (share: Double) in String(format: "%.1f ms", latencies[Int(Double(latencies.count - 1) * share)] * 1000) }
        let count = clients * each * contents.transactions
        let rate = Double(count) / Comparison.median(rounds.map(\.baseline))
        FileHandle.standardError.write(
            Data("pushes, \(name): p50 \(p(0.5)), p99 \(p(0.99)), \(Int(rate)) transactions a second\n".utf8))
        let what = contents.transactions > 1 ? "" : " of 1 KiB"
        return Benchmark(
            name: "a refused POST's time, \(name)", against: "\(clients * each) durable pushes\(what)", budget: budget,
            work: count, comparison: Comparison(rounds: rounds))
    }

    static func create(_ space: SpaceName, _ address: String, _ client: HTTPClient) async throws -> Lineage {
        let answer = try await client.send(HTTPRequest("PUT", url: address + Endpoints.space(space)))
        return try JSONDecoder().decode(SpaceDescription.self, from: Data(answer.body)).lineage
    }

    /// Makes batches of rows that no other client writes, so that no push is stale.
    static func batches(
        _ count: Int, by number: Int, in lineage: Lineage, _ contents: Contents = Contents()
    ) throws -> [[UInt8]] {
        var generator = SeededGenerator(seed: UInt64(number) + 1)
        let key = ReplicaKey.random()
        var digest = Digest.zero
        return try (0..<count).map { place in
            let first = Int64(place * contents.transactions + 1)
            var batch = BatchEncoder(
                lineage: lineage, signer: key, firstCounter: Counter(first), previousDigest: digest, schemaVersion: 1)
            batch.layout(ref: 1, TableLayout(name: "item", columns: ["id", "data"], key: [0]))
            for counter in first..<first + Int64(contents.transactions) {
                var body = BodyEncoder(info: TransactionInfo(id: .random(), time: HybridTime(milliseconds: counter), origin: .local))
                body.beginTable(1)
                body.beginInsert(columns: 2)
                body.integer(counter)
                (0..<contents.payload).map { _ in UInt8.random(in: 0...255, using: &generator) }.withUnsafeBytes { body.blob($0) }
                let footprint = Footprint(groups: [.init(table: 1, writes: [generator.next()], reads: [])])
                batch.append(body: body.finish(), base: .zero, footprint: footprint)
            }
            let encoded = try batch.finish()
            if let last = encoded.digests.last { digest = last }
            return encoded.bytes
        }
    }

    /// Each client sends one request after another. Returns the time of each request, in seconds.
    static func post(
        _ batches: [[[UInt8]]], to addresses: [String], _ path: String, expecting status: Int, _ client: HTTPClient
    ) async throws -> [Double] {
        try await withThrowingTaskGroup(of: [Double].self) { group in
            for (number, batches) in batches.enumerated() {
                let url = addresses[number % addresses.count] + path
                group.addTask {
                    let clock = ContinuousClock()
                    var taken: [Double] = []
                    for batch in batches {
                        let start = clock.now
                        let answer = try await client.send(
                            HTTPRequest("POST", url: url, headers: [("Content-Type", Endpoints.MediaType.batch)], body: .bytes(batch)))
                        guard answer.status == status else { throw BareConnection.Failure(description: "\(path): \(answer.status)") }
                        if status == 200, try PushAnswer.decode(answer.body).outcome != .accepted {
                            throw BareConnection.Failure(description: "a push was not accepted")
                        }
                        taken.append((clock.now - start) / .seconds(1))
                    }
                    return taken
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }
}
