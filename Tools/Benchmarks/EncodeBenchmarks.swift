import AnnalsCore
import AnnalsWire
import Foundation
import SeededRandom

/// The cost of encoding 1,000 transactions of 10 changes of 8 values, compared with Foundation's JSON of the same data by Codable.
enum EncodeBenchmarks {
    /// The data of a transaction in a batch, for Codable.
    struct PlainTransaction: Codable {
        var id: String
        var time: Int64
        /// The base and the digest, as in a batch.
        var base: Int64
        var digest: Data
        var changes: [PlainChange]
    }

    struct PlainChange: Codable {
        var table: String
        var kind: String
        var values: [PlainValue]
    }

    /// A value with its storage class. A JSON number does not distinguish 1 from 1.0, and a JSON string does not distinguish a text
    /// from a blob.
    enum PlainValue: Codable {
        case integer(Int64), real(Double), text(String)
    }

    static func run(_ scale: Scale) throws -> [Benchmark] {
        let transactions = samples()
        var encode: [Comparison.Round] = []
        var size: [Comparison.Round] = []
        var seal: [Comparison.Round] = []
        let cipher = SpaceName("bench").map { SpaceKeyRing(.random()).cipher(for: $0) }
        for _ in 0..<(scale.rounds + 2) {
            var turns = Alternation()
            var ours: [UInt8] = []
            var json = Data()
            try turns.take(subject: { ours = try batch(transactions) }, baseline: { json = try JSONEncoder().encode(transactions) })
            // The ratio is the baseline's time divided by the time of a batch.
            encode.append(Comparison.Round(subject: turns.round.baseline, baseline: turns.round.subject))
            let packed = try Compression.compress([UInt8](json), level: Compression.batchLevel)
            var sealing = Alternation()
            try sealing.take(subject: { _ = try batch(transactions, cipher) }, baseline: { _ = try batch(transactions) })
            seal.append(sealing.round)
            size.append(Comparison.Round(subject: Double(ours.count), baseline: Double(packed.count)))
        }
        return [
            Benchmark(
                name: "JSON's time to encode 10,000 changes", against: "a compressed batch", budget: .atLeast(25), work: 10_000,
                comparison: Comparison(rounds: encode)),
            Benchmark(
                name: "size of a batch (bytes)", against: "JSON + zstd", budget: .atMost(1), work: 0, comparison: Comparison(rounds: size)),
            Benchmark(
                name: "encode and seal 10,000 changes", against: "encode only", budget: .atMost(1.25), work: 10_000,
                comparison: Comparison(rounds: seal)),
        ]
    }

    static func samples(_ count: Int = 1_000) -> [PlainTransaction] {
        var generator = SeededGenerator(seed: 7)
        return (0..<count).map { number in
            PlainTransaction(
                id: UUID().uuidString, time: 1_700_000_000_000 + Int64(number), base: 0,
                digest: Data((0..<4).flatMap { _ in withUnsafeBytes(of: generator.next()) { Array($0) } }),
                changes: (0..<10).map { change in
                    PlainChange(
                        table: "item", kind: "insert",
                        values: [
                            .text(String(generator.next(), radix: 16)), .text("name \(number * 10 + change)"),
                            .integer(Int64(generator.next() % 10_000)), .real(Double(generator.next() % 1_000_000) / 100),
                            .text("a note of the usual length"), .integer(1_700_000_000 + Int64(number)), .text("open"),
                            .integer(Int64(change)),
                        ])
                })
        }
    }

    static func batch(_ transactions: [PlainTransaction], _ cipher: SpaceCipher? = nil) throws -> [UInt8] {
        var batch = BatchEncoder(
            lineage: .random(), signer: .random(), firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1,
            cipher: cipher)
        batch.layout(ref: 1, TableLayout(name: "item", columns: ["id", "name", "size", "price", "note", "at", "state", "place"], key: [0]))
        for transaction in transactions {
            var body = BodyEncoder(info: TransactionInfo(id: .random(), time: HybridTime(milliseconds: transaction.time), origin: .local))
            body.beginTable(1)
            for change in transaction.changes {
                body.beginInsert(columns: change.values.count)
                for value in change.values {
                    switch value {
                    case .integer(let integer): body.integer(integer)
                    case .real(let real): body.real(real)
                    case .text(var text): text.withUTF8 { body.text(UnsafeRawBufferPointer($0)) }
                    }
                }
            }
            batch.append(body: body.finish(), base: .zero, footprint: Footprint())
        }
        return try batch.finish().bytes
    }
}
