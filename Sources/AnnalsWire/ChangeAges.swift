import AnnalsCore

/// Consecutive changes of a body that were made at the same time.
struct AgeRun: Hashable, Sendable {
    var count: Int
    /// How long before the transaction's time, in milliseconds.
    var age: Int64
}

/// The ages of a body's changes, one after another. Changes after the last run have the transaction's time.
struct AgeRuns: Sendable {
    private let runs: [AgeRun]
    private var index = 0
    private var passed = 0

    init(_ runs: [AgeRun]) { self.runs = runs }

    mutating func next() -> Int64 {
        guard index < runs.count else { return 0 }
        let run = runs[index]
        passed += 1
        if passed == run.count { (index, passed) = (index + 1, 0) }
        return run.age
    }
}

extension ByteWriter {
    /// Writes nothing if all changes have the transaction's time.
    mutating func ages(_ runs: [AgeRun]) {
        guard runs.contains(where: { $0.age > 0 }) else { return }
        byte(BodySection.ages)
        varint(runs.count)
        for run in runs {
            varint(run.count)
            varint(Int(run.age))
        }
    }
}

extension ByteReader {
    mutating func readAges() throws(WireError) -> [AgeRun] {
        guard remaining > 0, bytes[offset] == BodySection.ages else { return [] }
        _ = try readByte()
        return try readItems("age", limit: WireLimits.maximumAgeRuns) { reader throws(WireError) in
            let count = try reader.readInt()
            let age = try reader.readInt()
            guard count > 0 else { throw .badValue("age") }
            return AgeRun(count: count, age: Int64(age))
        }
    }
}
