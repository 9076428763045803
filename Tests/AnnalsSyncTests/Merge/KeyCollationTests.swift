import AnnalsStore
import SeededRandom
import Testing

/// Tables with an index of the key that compares differently from the column.
@Suite("Merges of keys that compare otherwise than their columns", .timeLimit(.minutes(20)))
struct KeyCollationMergeTests {
    private static let schema = """
        CREATE TABLE t (a TEXT NOT NULL COLLATE NOCASE, b, PRIMARY KEY (a COLLATE BINARY));
        INSERT INTO t VALUES ('x', 1), ('X', 2), ('y', 3);
        """

    @Test("Rows that the column takes for one are two")
    func twoRows() async throws {
        let outcome = try await Story.conflict(
            Self.schema, first: "UPDATE t SET b = 10 WHERE a = 'X' COLLATE BINARY",
            second: "UPDATE t SET b = 20 WHERE a = 'x' COLLATE BINARY; INSERT INTO t VALUES ('Y', 4)")
        #expect(try await outcome.rows("t").sorted() == ["X|10", "Y|4", "x|20", "y|3"])
        #expect(outcome.lines == [])
        let deleted = try await Story.conflict(
            Self.schema, first: "DELETE FROM t WHERE a = 'x' COLLATE BINARY", second: "UPDATE t SET b = 20 WHERE a = 'X' COLLATE BINARY")
        #expect(try await deleted.rows("t").sorted() == ["X|20", "y|3"])
    }

    @Test("Rows that the index takes for one are one")
    func oneRow() async throws {
        let schema = "CREATE TABLE t (a TEXT NOT NULL, b, PRIMARY KEY (a COLLATE NOCASE)) WITHOUT ROWID; INSERT INTO t VALUES ('x', 1);"
        let outcome = try await Story.conflict(
            schema, first: "UPDATE t SET a = 'X' WHERE a = 'x'; INSERT INTO t VALUES ('y', 1)",
            second: "UPDATE t SET b = 20 WHERE a = 'x'; INSERT INTO t VALUES ('Y', 2)")
        #expect(try await outcome.rows("t").count == 2)
    }

    /// `ANNALS_SEED=n swift test --filter KeyCollationMergeTests` replays one seed.
    @Test("Whatever is written, all replicas end the same", arguments: Seeds.given ?? Array(1...8))
    func random(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let (column, key) = random.one(of: [("NOCASE", "BINARY"), ("BINARY", "NOCASE"), ("RTRIM", "BINARY"), ("NOCASE", "RTRIM")])
        let table = "t (a TEXT NOT NULL COLLATE \(column), b, c UNIQUE, PRIMARY KEY (a COLLATE \(key)))"
        let end = random.chance(50) ? " WITHOUT ROWID" : ""
        func value() -> String { random.one(of: ["'x'", "'X'", "'x '", "'X '", "'y'", "'Y'"]) }
        func work() -> [String] {
            (0..<6).map { _ in
                random.one(of: [
                    "INSERT OR REPLACE INTO t VALUES (\(value()), \(value()), \(value()))",
                    "INSERT OR IGNORE INTO t VALUES (\(value()), \(value()), NULL)",
                    "UPDATE OR REPLACE t SET b = \(value()), c = \(value()) WHERE a = \(value()) COLLATE BINARY",
                    "UPDATE OR REPLACE t SET a = \(value()) WHERE a = \(value()) COLLATE BINARY",
                    "DELETE FROM t WHERE a = \(value()) COLLATE BINARY",
                ])
            }
        }
        let outcome = try await Story.conflict(
            "CREATE TABLE \(table)\(end); INSERT OR IGNORE INTO t VALUES ('x', 1, 1), ('X', 2, 2), ('y', 3, 3);", first: work(),
            second: work())
        #expect(try await outcome.store.verify() == [], "seed \(seed)")
    }
}
