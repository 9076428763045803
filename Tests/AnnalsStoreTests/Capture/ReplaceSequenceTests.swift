import AnnalsCore
import GRDB
import Testing

@testable import AnnalsStore

/// Law 1 for rows that come to look as they did before: all ways of writing two rows three times within one stranger's
/// transaction, held against the rows before and after.
@Suite("A row that is replaced and written again is captured as what became of it")
struct ReplaceSequenceTests {
    static let schemas = [
        "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY NOT NULL, a UNIQUE) WITHOUT ROWID",
        "CREATE TABLE t(k INTEGER PRIMARY KEY, a UNIQUE)",
        "CREATE TABLE t(k TEXT PRIMARY KEY, a UNIQUE)",
    ]

    /// The rows ('1', 5) and ('2', 6) are there before.
    static let statements = [
        "INSERT OR REPLACE INTO t VALUES('1', 5)", "INSERT OR REPLACE INTO t VALUES('1', 6)", "INSERT OR REPLACE INTO t VALUES('2', 5)",
        "INSERT OR REPLACE INTO t VALUES('3', 5)", "UPDATE t SET a = 7 WHERE k = '1'", "UPDATE OR REPLACE t SET a = 5 WHERE k = '2'",
        "UPDATE OR REPLACE t SET k = '1' WHERE k = '2'", "UPDATE OR IGNORE t SET a = 5", "DELETE FROM t WHERE k = '1'",
        "INSERT OR IGNORE INTO t VALUES('1', 5)", "UPDATE OR REPLACE t SET k = '2' WHERE a = 5",
    ]

    @Test(arguments: schemas, [false, true])
    func sequences(schema: String, recursive: Bool) throws {
        let queue = try DatabaseQueue()
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "\(schema); PRAGMA recursive_triggers = \(recursive)")
            let report = try Tracking.track(db, .all)
            #expect(report.tables.map(\.isTracked) == [true])
            for first in Self.statements {
                for second in Self.statements {
                    for third in Self.statements { try check([first, second, third], db) }
                }
            }
        }
    }

    private func check(_ statements: [String], _ db: Database) throws {
        try db.inTransaction {
            try db.execute(sql: "INSERT INTO t VALUES('1', 5), ('2', 6)")
            try Sealing.seal(db)
            let before = try Fixture.rows(db)
            for statement in statements { try db.execute(sql: statement) }
            let after = try Fixture.rows(db)
            let number = try Sealing.seal(db)
            let changes = try number.map { try Fixture.changes(db, of: $0) } ?? [:]
            let isWhole = before.applying(changes) == after
            #expect(isWhole, "\(statements.joined(separator: "; "))")
            return .rollback
        }
    }
}
