import AnnalsWire
import Foundation

/// Code of Annals that reads bytes from elsewhere.
///
/// For any bytes, it either throws an error or reads them. What it reads is checked against the rules of the format, so that a
/// reader with wrong results is found too.
struct FuzzTarget: Sendable {
    let name: String
    let seeds: @Sendable (Fixtures) throws -> [[UInt8]]
    private let body: @Sendable ([UInt8]) throws -> Void

    init(
        _ name: String, seeds: @escaping @Sendable (Fixtures) throws -> [[UInt8]], _ body: @escaping @Sendable ([UInt8]) throws -> Void
    ) {
        self.name = name
        self.seeds = seeds
        self.body = body
    }

    /// An error is a valid result; any other failure ends the process.
    func run(_ bytes: [UInt8]) {
        try? body(bytes)
    }

    static let all = [
        BatchFuzzing.target, BodyFuzzing.target, PieceFuzzing.target, FootprintFuzzing.target, AnswerFuzzing.page, AnswerFuzzing.answer,
        ItemFuzzing.target, SnapshotFuzzing.target, TextFuzzing.target, HeadFuzzing.target, JSONFuzzing.target, RequestFuzzing.target,
    ]
}

/// Ends the process if a condition is false. libFuzzer then stores the input.
func expect(_ isTrue: Bool, _ law: String) {
    guard !isTrue else { return }
    FileHandle.standardError.write(Data("not so: \(law)\n".utf8))
    preconditionFailure(law)
}

/// The files of the format tests.
struct Fixtures {
    let folder: URL

    func files(_ prefix: String) throws -> [[UInt8]] {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        return try names.filter { $0.hasPrefix(prefix) && $0.hasSuffix(".bin") }
            .map { [UInt8](try Data(contentsOf: folder.appendingPathComponent($0))) }
    }

    /// The bodies of all batches that can be opened without a key.
    func bodies() throws -> [[UInt8]] {
        try files("batch").flatMap { bytes -> [[UInt8]] in
            guard let batch = try? Batch.open(bytes) else { return [] }
            return batch.header.certificates.indices.map { Array(batch.plain[batch.bodyRange($0)]) }
        }
    }
}
