import AnnalsCore
import AnnalsHistory
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsStore

/// The collation of a key's index may differ from its column's collation. Then one key of the index can be several values of the
/// column, or the other way round.
@Suite("Keys that compare otherwise than their columns")
struct KeyCollationTests {
    /// `ANNALS_SEED=n swift test --filter KeyCollationTests` replays one seed.
    @Test("are followed, replayed, and written as a script", arguments: Seeds.given ?? Array(1...16))
    func random(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let (column, key) = random.one(of: [("NOCASE", "BINARY"), ("BINARY", "NOCASE"), ("RTRIM", "BINARY"), ("NOCASE", "RTRIM")])
        let table = "t(a TEXT\(random.chance(70) ? " NOT NULL" : "") COLLATE \(column), b, c UNIQUE, PRIMARY KEY(a COLLATE \(key)))"
        let isWithoutRowid = random.chance(50)
        let store = try HistoryFile("CREATE TABLE \(table)\(isWithoutRowid ? " WITHOUT ROWID" : "")")
        try store.track()
        var copies: [Int64: RowDump] = [0: try store.rows()]
        func value() -> String { random.one(of: ["'x'", "'X'", "'x '", "'X '", "'y'", "'Y'"]) }
        for _ in 0..<25 {
            let sql = random.one(of: [
                "INSERT OR REPLACE INTO t VALUES(\(value()), \(value()), \(value()))",
                "INSERT OR IGNORE INTO t VALUES(\(value()), \(value()), NULL)",
                "UPDATE OR REPLACE t SET b = \(value()), c = \(value()) WHERE a = \(value()) COLLATE BINARY",
                "UPDATE OR REPLACE t SET a = \(value()) WHERE a = \(value()) COLLATE BINARY",
                "UPDATE t SET b = a || b WHERE a = \(value())", "DELETE FROM t WHERE a = \(value()) COLLATE BINARY",
            ])
            try? store.outside(sql)
            if random.chance(60), try store.recordExternalChanges() != nil { copies[try store.bounds().latest.number] = try store.rows() }
        }
        if try store.recordExternalChanges() != nil { copies[try store.bounds().latest.number] = try store.rows() }
        #expect(try store.findings() == [], "seed \(seed)")
        let latest = try store.bounds().latest.number
        for (number, copy) in copies {
            try store.replay(to: store.token(number))
            let replayed = try RowDump(path: store.path("replayed.db"))
            #expect(replayed == copy, "seed \(seed), token \(number): \(replayed.difference(from: copy))")
            let queue = try DatabaseQueue(path: store.path("replayed.db"))
            let script = try store.differenceSQL(number, latest)
            try queue.writeWithoutTransaction { db in try db.execute(sql: script) }
            try queue.close()
            let brought = try RowDump(path: store.path("replayed.db"))
            #expect(brought == copies[latest], "seed \(seed), script from \(number): \(script)")
        }
    }
}
