import Annals
import AnnalsStore
import AnnalsSync
import AnnalsWire
import Foundation

/// The cost of signatures: signing and checking the batches of a push, compared with the whole push, and checking the batches of a
/// pull, compared with the whole pull. The relay runs in a separate process, on the loopback device.
///
/// The share is largest with the smallest batches: a program commits one row and pushes it, and a replica pulls it at once. A pull
/// checks only the newest batch of each author in a page, because its digests cover the earlier ones.
enum SigningBenchmarks {
    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        let (program, address) = try ChildProgram.relay(["--data", folder.file("relay")])
        defer { program.stop() }
        var results: [Benchmark] = []
        for work in Work.allCases { results += try await measure(work, scale, folder, address) }
        return results
    }

    private enum Work: String, CaseIterable {
        case single = "of one row"
        case many = "of 100,000 rows"

        /// The number of transactions that a round pushes, and the rows of each.
        var transactions: (count: Int, rows: Int) {
            switch self {
            case .single: (200, 1)
            case .many: (1_000, 100)
            }
        }
        /// Whether each transaction is pushed and pulled before the next one is written.
        var isAlone: Bool { self == .single }
    }

    private static func measure(_ work: Work, _ scale: Scale, _ folder: BenchmarkFolder, _ address: String) async throws -> [Benchmark] {
        let (count, size) = work.transactions
        let rounds = scale.rounds + 1
        let rows = Rows(.text, count: rounds * count * size)
        let (author, reader) = (folder.file("author-\(work).db"), folder.file("reader-\(work).db"))
        _ = try rows.file(author, present: 0)
        let space = try SpaceAddress("signing-\(work)", at: address, as: "author")
        let writing = try Store(path: author)
        _ = try await writing.track(.all)
        let pushing = try SyncAgent(store: writing, joining: space)
        _ = try await pushing.sync()
        let reading = try await SpaceAddress("signing-\(work)", at: address, as: "reader").clone(to: reader)
        let transport = try space.transport()
        let pulling = SyncAgent(store: reading, transport: transport)
        let bare = try BareConnection(author)
        let key = ReplicaKey.random()

        var pushes: [Comparison.Round] = []
        var pulls: [Comparison.Round] = []
        for round in 0..<rounds {
            var (push, pull) = (Comparison.Round(), Comparison.Round())
            func exchange() async throws {
                push.baseline += try await seconds { _ = try await pushing.sync(.pushOnly) }
                for page in try await pages(after: reading, transport) {
                    let entries = try page.frames.map { ($0.batch, try BatchHeader.parse($0.batch)) }
                    let checking = try await seconds { for (batch, header) in entries { try header.checkSignature(in: batch) } }
                    push.subject += checking
                    push.subject += try await seconds {
                        for (batch, header) in entries { _ = try key.sign(BatchSignature.message(clear: batch[header.clear])) }
                    }
                    pull.subject += checking / Double(max(1, entries.count))
                }
                pull.baseline += try await seconds { _ = try await pulling.sync(.pullOnly) }
            }
            for transaction in 0..<count {
                let first = (round * count + transaction) * size
                try bare.execute("BEGIN IMMEDIATE")
                for index in first..<first + size { try bare.run(Rows.insert, rows.row(index)) }
                try bare.execute("COMMIT")
                try await writing.recordExternalChanges()
                if work.isAlone { try await exchange() }
            }
            if !work.isAlone { try await exchange() }
            // The first round is a warm-up.
            if round > 0 {
                pushes.append(push)
                pulls.append(pull)
            }
        }
        try writing.close()
        try reading.close()
        let name = work.isAlone ? "\(count) batches \(work.rawValue), each alone," : "batches \(work.rawValue)"
        return [
            Benchmark(
                name: "signing and checking \(name)", against: "pushing them", budget: .atMost(0.05), work: count,
                comparison: Comparison(rounds: pushes)),
            Benchmark(
                name: "checking \(name)", against: "pulling them", budget: .atMost(0.05), work: count, comparison: Comparison(rounds: pulls)
            ),
        ]
    }

    /// The part of the log that a replica has not pulled.
    private static func pages(after store: Store, _ transport: HTTPRelay) async throws -> [Page] {
        guard var position = try await store.replicaState()?.position else { return [] }
        let lineage = try await transport.describe().lineage
        var pages: [Page] = []
        while true {
            let page = try await transport.pull(after: position, seen: LogMark(lineage: lineage), byteLimit: 1 << 20, wait: nil)
            if page.frames.isEmpty { return pages }
            pages.append(page)
            position = page.lastPosition
            if position >= page.head { return pages }
        }
    }

    private static func seconds(_ work: () async throws -> Void) async rethrows -> Double {
        let clock = ContinuousClock()
        let start = clock.now
        try await work()
        return (clock.now - start) / .seconds(1)
    }
}
