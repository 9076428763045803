import SeededRandom

/// The rows that all benchmarks write: six columns of common types, from a fixed seed.
struct Rows {
    enum Key: String, CaseIterable {
        case text = "random text keys"
        case integer = "integer keys in order"
    }

    let key: Key
    let keys: [BareConnection.Value]
    private(set) var generator: SeededGenerator

    init(_ key: Key, count: Int, seed: UInt64 = 1) {
        self.key = key
        var generator = SeededGenerator(seed: seed)
        keys = (0..<count).map { index in
            switch key {
            case .integer: .integer(Int64(index + 1))
            case .text: .text(String(generator.next(), radix: 16) + String(generator.next(), radix: 16))
            }
        }
        self.generator = generator
    }

    var schema: String {
        "CREATE TABLE item(id \(key == .text ? "TEXT" : "INTEGER") PRIMARY KEY NOT NULL, name TEXT, size INTEGER, price REAL, note TEXT, at INTEGER)"
    }

    /// Creates a file in WAL mode with the first `present` rows; without `present`, with all rows.
    func file(_ path: String, present: Int? = nil, synchronous: String = "NORMAL") throws -> BareConnection {
        let connection = try BareConnection(path)
        try connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = \(synchronous)")
        try connection.execute(schema)
        try connection.execute("BEGIN")
        for index in keys.indices.prefix(present ?? keys.count) { try connection.run(Self.insert, row(index)) }
        try connection.execute("COMMIT")
        return connection
    }

    static let insert = "INSERT INTO item VALUES(?, ?, ?, ?, ?, ?)"
    static let update = "UPDATE item SET name = ?2, size = ?3 WHERE id = ?1"
    static let delete = "DELETE FROM item WHERE id = ?"
    static let upsert = """
        INSERT INTO item VALUES(?, ?, ?, ?, ?, ?)
        ON CONFLICT(id) DO UPDATE SET name = excluded.name, size = excluded.size, price = excluded.price, note = excluded.note, at = excluded.at
        """

    func row(_ index: Int, version: Int = 0) -> [BareConnection.Value] {
        [
            keys[index], .text("name \(index) of version \(version)"), .integer(Int64(index * 7 + version)), .real(Double(index) * 1.25),
            .text("a note of the usual length, number \(index)"), .integer(1_700_000_000 + Int64(index)),
        ]
    }

    /// All indices in a shuffled order that is the same in every run.
    func shuffled() -> [Int] {
        var generator = generator
        return Array(keys.indices).shuffled(using: &generator)
    }
}

extension Array {
    func chunks(of size: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: count, by: size).map { self[$0..<Swift.min($0 + size, count)] }
    }
}
