import AnnalsCore
import AnnalsSchema
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

/// Large transactions are read once if no row is in another one's way, and twice otherwise. The result is the same.
@Suite struct LargeReplayTests {
    /// ANNALS_SEED=17 repeats one run, ANNALS_SEED=100-200 runs a hundred others.
    static let seeds = Seeds.given ?? Array(1...6)

    /// Each changes more rows than are folded at once.
    private static let statements = [
        "UPDATE t SET v = v + 1",
        "UPDATE t SET id = 100000 - id",
        "UPDATE t SET u = 'a' || u",
        "DELETE FROM t WHERE id % 3 = 1",
        "INSERT OR IGNORE INTO t SELECT n + 20000 + (SELECT count(*) FROM t), 'n' || n || (SELECT count(*) FROM t), n FROM numbers",
        // Other rows get the unique values, with higher and with lower keys.
        """
        CREATE TEMP TABLE gone AS SELECT * FROM t WHERE id % 2 = 1; DELETE FROM t WHERE id % 2 = 1;
        INSERT INTO t SELECT id + 1000000, u, v FROM gone; DROP TABLE gone
        """,
        """
        CREATE TEMP TABLE gone AS SELECT * FROM t WHERE id % 2 = 0; DELETE FROM t WHERE id % 2 = 0;
        INSERT INTO t SELECT -id, u, v FROM gone; DROP TABLE gone
        """,
        // Each row gets the unique value of the next one.
        """
        CREATE TEMP TABLE old AS SELECT id, u, row_number() OVER (ORDER BY id) AS n FROM t; UPDATE t SET u = '~' || id;
        UPDATE t SET u = (SELECT b.u FROM old a JOIN old b ON b.n = a.n % (SELECT count(*) FROM old) + 1 WHERE a.id = t.id);
        DROP TABLE old
        """,
    ]

    @Test(arguments: seeds)
    func `large transactions are replayed and verified, whatever rows they move`(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let store = try HistoryFile(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INTEGER);
            CREATE TABLE numbers(n INTEGER PRIMARY KEY);
            WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 900) INSERT INTO numbers SELECT n FROM c;
            INSERT INTO t SELECT n, 'u' || n, n FROM numbers
            """)
        try store.track()
        var copies = [try store.rows()]
        for _ in 0..<6 {
            let chosen = (0...Int.random(in: 0...2, using: &random)).compactMap { _ in Self.statements.randomElement(using: &random) }
            try store.external("BEGIN; \(chosen.joined(separator: ";\n")); COMMIT")
            copies.append(try store.rows())
        }
        for (number, copy) in copies.enumerated() {
            try store.replay(to: store.token(Int64(number)))
            let replayed = try RowDump(path: store.path("replayed.db"))
            #expect(replayed == copy, "seed \(seed), token \(number): \(replayed.difference(from: copy))")
        }
        #expect(try store.findings() == [], "seed \(seed)")
        // A difference is also found in a step that needs no second pass.
        try store.external("UPDATE t SET v = v + 1")
        try store.outside("UPDATE annals_changes_2 SET n2 = 77777 WHERE id = (SELECT max(id) FROM annals_changes_2)")
        #expect(try store.findings().map(\.code) == [.rows], "seed \(seed)")
    }
}
