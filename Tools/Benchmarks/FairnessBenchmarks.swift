import AnnalsCore
import AnnalsHTTP
import AnnalsWire
import Foundation
import SeededRandom

/// The effect of a busy space on a quiet one: the 99th percentile of the time of durable pushes of 1 KiB, one after another, while
/// 32 clients push bodies of 4 MiB to another space of the same relay. The baseline is the same without these clients.
///
/// The relay runs in a separate process on the same machine as the clients, so the ratio includes the load of the clients.
enum FairnessBenchmarks {
    private static let busyClients = 32
    private static let bodyBytes = 4 << 20

    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        let (program, address) = try ChildProgram.relay(["--data", folder.file("relay")])
        defer { program.stop() }
        let client = try HTTPClient(.init(activeTransfers: busyClients * 2))
        let count = scale.rounds > 2 ? 300 : 150
        var rounds: [Comparison.Round] = []
        for round in 0..<scale.rounds + 1 {
            let (quiet, busy) = (try name("quiet", round), try name("busy", round))
            let lineage = try await RelayBenchmarks.create(quiet, address, client)
            let busyLineage = try await RelayBenchmarks.create(busy, address, client)
            let pushes = try (0..<2).map { try RelayBenchmarks.batches(count, by: $0, in: lineage) }
            let alone = try await percentile(pushes[0], to: quiet, address, client)
            let beside = try await beside(busy, busyLineage, address, client) {
                try await percentile(pushes[1], to: quiet, address, client)
            }
            // The first round is a warm-up.
            if round > 0 { rounds.append(Comparison.Round(subject: beside, baseline: alone)) }
        }
        await client.shutdown()
        return [
            Benchmark(
                name: "p99 of a push to a quiet space, during pushes of 4 MiB by \(busyClients) clients", against: "without these clients",
                budget: .atMost(5), work: 1, comparison: Comparison(rounds: rounds))
        ]
    }

    private static func name(_ text: String, _ round: Int) throws -> SpaceName {
        guard let name = SpaceName("\(text)-\(round)-\(UInt32.random(in: 0 ... .max))") else {
            throw BareConnection.Failure(description: "the name of the space is invalid")
        }
        return name
    }

    private static func percentile(
        _ batches: [[UInt8]], to space: SpaceName, _ address: String, _ client: HTTPClient
    ) async throws -> Double {
        let taken = try await RelayBenchmarks.post([batches], to: [address], Endpoints.push(space), expecting: 200, client).sorted()
        return taken[(taken.count - 1) * 99 / 100]
    }

    /// Runs `body` while each busy client pushes one batch after another. It starts when each client has got its first answer.
    private static func beside(
        _ space: SpaceName, _ lineage: Lineage, _ address: String, _ client: HTTPClient, _ body: () async throws -> Double
    ) async throws -> Double {
        let (answers, answer) = AsyncStream<Void>.makeStream()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<busyClients {
                group.addTask {
                    defer { answer.finish() }
                    var author = BusyAuthor(lineage: lineage, number: number)
                    while !Task.isCancelled {
                        let batch = try author.next(bodyBytes)
                        _ = try await RelayBenchmarks.post([[batch]], to: [address], Endpoints.push(space), expecting: 200, client)
                        answer.yield()
                    }
                }
            }
            var begun = 0
            for await _ in answers {
                begun += 1
                if begun == busyClients { break }
            }
            // A client that failed ended the stream of answers. This line throws its error.
            if begun < busyClients { try await group.next() }
            let seconds = try await body()
            group.cancelAll()
            while let ending = await group.nextResult() {
                // The cancellation of open requests is expected.
                if case .failure(let error) = ending, !(error is CancellationError), (error as? HTTPError)?.kind != .cancelled {
                    throw error
                }
            }
            return seconds
        }
    }
}

/// Makes large batches of rows that no other client writes.
private struct BusyAuthor {
    private let lineage: Lineage
    private let key = ReplicaKey.random()
    private var counter: Int64 = 0
    private var digest = Digest.zero
    private var generator: SeededGenerator

    init(lineage: Lineage, number: Int) {
        self.lineage = lineage
        generator = SeededGenerator(seed: UInt64(number) + 1_000)
    }

    mutating func next(_ byteCount: Int) throws -> [UInt8] {
        counter += 1
        var batch = BatchEncoder(
            lineage: lineage, signer: key, firstCounter: Counter(counter), previousDigest: digest, schemaVersion: 1)
        batch.layout(ref: 1, TableLayout(name: "item", columns: ["id", "data"], key: [0]))
        var body = BodyEncoder(info: TransactionInfo(id: .random(), time: HybridTime(milliseconds: counter), origin: .local))
        body.beginTable(1)
        body.beginInsert(columns: 2)
        body.integer(counter)
        // Random bytes cannot be compressed.
        var words = [UInt64](repeating: 0, count: byteCount / 8)
        for place in words.indices { words[place] = generator.next() }
        words.withUnsafeBytes { body.blob($0) }
        batch.append(
            body: body.finish(), base: .zero, footprint: Footprint(groups: [.init(table: 1, writes: [generator.next()], reads: [])]))
        let encoded = try batch.finish()
        digest = encoded.digests[0]
        return encoded.bytes
    }
}
