import AnnalsCore
import AnnalsHTTP
import AnnalsWire
import Foundation

/// One relay with 10,000 spaces of three replicas each: its memory, the processor time of a push by each replica in turn compared with as
/// many pushes to one space, and the time of a restart compared with the start of an empty relay.
enum SpacesBenchmarks {
    private static let clients = 32
    private static let replicas = 3

    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        let count = scale.rounds > 2 ? 10_000 : 500
        let limits = [
            "SPACES": 20_000, "SPACES_OF_TOKEN": 20_000, "NEW_SPACES_PER_HOUR": 100_000, "NEW_SPACES_PER_HOUR_OF_ADDRESS": 100_000,
        ]
        for (name, value) in limits { setenv("ANNALS_RELAY_LIMITS_\(name)", "\(value)", 1) }
        defer { for name in limits.keys { unsetenv("ANNALS_RELAY_LIMITS_\(name)") } }
        let client = try HTTPClient(.init(activeTransfers: clients * 2))
        let place = ["--data", folder.file("relay")]
        var (program, address) = try ChildProgram.relay(place)
        let before = try program.memory()
        let names = try (0..<count).map { number in
            guard let name = SpaceName("space-\(number)") else { throw BareConnection.Failure(description: "the space has no name") }
            return name
        }
        // The first pushes found the replicas.
        var pushes = try await make(names, address, client)
        try await send(pushes.map(\.first), address, client)
        let memory = try program.memory() - before
        let start = try program.processorTime()
        try await send(pushes.map(\.second), address, client)
        let many = try program.processorTime() - start
        pushes = []
        program.stop()
        let restart = try seconds { (program, address) = try ChildProgram.relay(place) }
        program.stop()

        (program, address) = try ChildProgram.relay(["--data", folder.file("single")])
        guard let name = SpaceName("single") else { throw BareConnection.Failure(description: "the space has no name") }
        let lineage = try await RelayBenchmarks.create(name, address, client)
        let each = count * replicas / clients
        let batches = try (0..<clients).map { try RelayBenchmarks.batches(each, by: $0, in: lineage) }
        let begin = try program.processorTime()
        _ = try await RelayBenchmarks.post(batches, to: [address], Endpoints.push(name), expecting: 200, client)
        let one = (try program.processorTime() - begin) / Double(each * clients) * Double(count * replicas)
        program.stop()
        let empty = try seconds { (program, _) = try ChildProgram.relay(["--data", folder.file("empty")]) }
        program.stop()
        await client.shutdown()

        func line(_ name: String, _ against: String, _ subject: Double, _ baseline: Double) -> Benchmark {
            Benchmark(
                name: name, against: against, budget: .none, work: count * replicas,
                comparison: Comparison(rounds: [.init(subject: subject, baseline: baseline)]))
        }
        return [
            line("memory of a space with \(replicas) replicas, of \(count)", "one KB", memory / Double(count), 1_000),
            line("processor time of a push by each replica of \(count) spaces", "as many pushes to one space", many, one),
            line("the same, if each replica pushes once a minute", "one processor", many, 60),
            line("restart of a relay with \(count) spaces", "start of an empty relay", restart, empty),
        ]
    }

    private static func make(_ names: [SpaceName], _ address: String, _ client: HTTPClient) async throws -> [SpacePushes] {
        try await inTurns(names) { number, name in
            let lineage = try await RelayBenchmarks.create(name, address, client)
            let batches = try (0..<replicas).map { try RelayBenchmarks.batches(2, by: number * replicas + $0, in: lineage) }
            return SpacePushes(
                first: batches.map { Push(space: name, batch: $0[0]) }, second: batches.map { Push(space: name, batch: $0[1]) })
        }
    }

    private static func send(_ pushes: [[Push]], _ address: String, _ client: HTTPClient) async throws {
        _ = try await inTurns(pushes) { _, pushes in
            for push in pushes {
                _ = try await RelayBenchmarks.post([[push.batch]], to: [address], Endpoints.push(push.space), expecting: 200, client)
            }
        }
    }

    /// As many at a time as there are clients.
    private static func inTurns<Work: Sendable, Result: Sendable>(
        _ all: [Work], _ body: @escaping @Sendable (Int, Work) async throws -> Result
    ) async throws -> [Result] {
        try await withThrowingTaskGroup(of: [Result].self) { group in
            for client in 0..<clients {
                group.addTask {
                    var results: [Result] = []
                    for index in stride(from: client, to: all.count, by: clients) { results.append(try await body(index, all[index])) }
                    return results
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }

    private static func seconds(_ body: () throws -> Void) rethrows -> Double {
        let start = ContinuousClock.now
        try body()
        return (ContinuousClock.now - start) / .seconds(1)
    }
}

private struct Push: Sendable {
    var space: SpaceName
    var batch: [UInt8]
}

private struct SpacePushes: Sendable {
    var first: [Push]
    var second: [Push]
}
