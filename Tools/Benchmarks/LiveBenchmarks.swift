import Annals
import AnnalsHTTP
import AnnalsWire
import Foundation

/// The delays that users notice: the time until a commit is visible on another replica, and the time of a sync with nothing to do.
/// The relay runs in a separate process, on the loopback device.
enum LiveBenchmarks {
    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        let (relay, address) = try ChildProgram.relay(["--data", folder.file("relay")])
        defer { relay.stop() }
        var results = try await seen(scale, folder, address, relay)
        for rows in [1_000, scale.rounds > 2 ? 1_000_000 : 100_000] {
            results.append(try await idle(rows: rows, scale, folder, address))
        }
        return results
    }

    // MARK: The delay of a commit

    /// A bare connection commits to the file of one replica, and another reads the file of the second replica. Two programs `annals sync
    /// --watch` have the agents.
    private static func seen(_ scale: Scale, _ folder: BenchmarkFolder, _ address: String, _ relay: ChildProgram) async throws
        -> [Benchmark]
    {
        let writer = try Rows(.text, count: 100).file(folder.file("here.db"))
        let here = try Store(path: folder.file("here.db"))
        _ = try await here.track(.all)
        _ = try await SyncAgent(store: here, joining: SpaceAddress("seen", at: address, as: "here")).sync()
        try here.close()
        try await SpaceAddress("seen", at: address, as: "there").clone(to: folder.file("there.db")).close()
        let agents = try ["here.db", "there.db"].map { name in
            try ChildProgram("/bin/sh", ["-c", "exec \(ChildProgram.annals()) sync --watch \(folder.file(name)) > /dev/null"])
        }
        defer { for agent in agents { agent.stop() } }
        let reader = try BareConnection(folder.file("there.db"))
        var taken: [Double] = []
        // During the first commits the agents still connect to the relay.
        for number in 0..<20 { _ = try seconds(until: Int64(number) + 1_000, writer, reader) }
        let programs = agents + [relay]
        let before = try programs.map { try $0.processorTime() }
        for number in 20..<(scale.rounds * 100 + 20) { taken.append(try seconds(until: Int64(number) + 1_000, writer, reader)) }
        let each = try zip(programs, before).map { program, before in
            String(format: "%.1f", (try program.processorTime() - before) / Double(taken.count) * 1_000)
        }
        FileHandle.standardError.write(
            Data("processor time of a commit: agent here \(each[0]) ms, agent there \(each[1]) ms, relay \(each[2]) ms\n".utf8))
        taken.sort()
        let client = try HTTPClient()
        let trip = try await HTTPRoundTrip.median(of: 300, address, client)
        await client.shutdown()
        return [(0.5, "median", Budget.atMost(9)), (0.99, "p99", .none)].map { share, name, budget in
            let round = Comparison.Round(subject: taken[Int(Double(taken.count - 1) * share)], baseline: trip)
            return Benchmark(
                name: "delay of a commit to another replica, \(name) of \(taken.count)", against: "a bare HTTP round trip",
                budget: budget,
                work: taken.count, comparison: Comparison(rounds: [round]))
        }
    }

    /// Blocks the thread, because a task that sleeps may wake a millisecond late.
    private static func seconds(until value: Int64, _ writer: BareConnection, _ reader: BareConnection) throws -> Double {
        let clock = ContinuousClock()
        try writer.run("UPDATE item SET size = ? WHERE at = 1700000001", [.integer(value)])
        let start = clock.now
        var pause = timespec(tv_sec: 0, tv_nsec: 100_000)
        while try reader.integer("SELECT size FROM item WHERE at = 1700000001") != value {
            guard clock.now - start < .seconds(30) else {
                throw BareConnection.Failure(description: "a commit did not reach the other replica in 30 s")
            }
            nanosleep(&pause, nil)
        }
        return (clock.now - start) / .seconds(1)
    }

    // MARK: Nothing to do

    private static func idle(rows: Int, _ scale: Scale, _ folder: BenchmarkFolder, _ address: String) async throws -> Benchmark {
        let path = folder.file("idle\(rows).db")
        _ = try Rows(.text, count: rows).file(path)
        let store = try Store(path: path)
        _ = try await store.track(.all)
        let agent = try SyncAgent(store: store, joining: SpaceAddress("idle\(rows)", at: address, as: "idle"))
        _ = try await agent.sync()
        let client = try HTTPClient()
        var rounds: [Comparison.Round] = []
        for _ in 0..<scale.rounds {
            var turns = Alternation()
            for _ in 0..<100 {
                try await turns.take(
                    subject: { _ = try await agent.sync() },
                    baseline: { _ = try await client.send(HTTPRequest("GET", url: address + Endpoints.live)) })
            }
            rounds.append(turns.round)
        }
        try store.close()
        return Benchmark(
            name: "100 syncs with nothing to do, \(rows) rows", against: "a bare HTTP round trip", budget: .atMost(3), work: 100,
            comparison: Comparison(rounds: rounds))
    }
}
