import AnnalsCore
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

/// Law 1 for rows that end as they began: all sequences of three writes to two rows within one external transaction, compared
/// with the rows before and after.
@Suite("A row that is replaced and written again is captured as what became of it")
struct ReplaceSequenceTests {
    static let schemas = [
        "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY NOT NULL, a UNIQUE) WITHOUT ROWID",
        "CREATE TABLE t(k INTEGER PRIMARY KEY, a UNIQUE)",
        "CREATE TABLE t(k TEXT PRIMARY KEY, a UNIQUE)",
    ]

    /// Before, there are the rows ('1', 5) and ('2', 6).
    static let statements = [
        "INSERT OR REPLACE INTO t VALUES('1', 5)", "INSERT OR REPLACE INTO t VALUES('1', 6)", "INSERT OR REPLACE INTO t VALUES('2', 5)",
        "INSERT OR REPLACE INTO t VALUES('3', 5)", "UPDATE t SET a = 7 WHERE k = '1'", "UPDATE OR REPLACE t SET a = 5 WHERE k = '2'",
        "UPDATE OR REPLACE t SET k = '1' WHERE k = '2'", "UPDATE OR IGNORE t SET a = 5", "DELETE FROM t WHERE k = '1'",
        "INSERT OR IGNORE INTO t VALUES('1', 5)", "UPDATE OR REPLACE t SET k = '2' WHERE a = 5",
    ]

    /// This takes seconds. If each write examined all writes before it, it would take half an hour.
    @Test("One row that a trigger replaces for each of very many others", .timeLimit(.minutes(20)))
    func oneForAll() throws {
        let queue = try DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE a(id INTEGER PRIMARY KEY, v); CREATE TABLE last(k TEXT PRIMARY KEY, n);
                    CREATE TRIGGER t AFTER INSERT ON a BEGIN INSERT OR REPLACE INTO last VALUES('last', NEW.id); END;
                    """)
            _ = try Tracking.track(db, .all)
            try db.execute(
                sql: "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 60000) INSERT INTO a SELECT x, x FROM c")
            try TransactionRecorder.recordExternal(db, .system)
            let reader = try HistoryReader(db)
            let transaction = try #require(try reader.transactions(HistoryRequest()).last)
            let changes = try reader.changes(in: transaction)
            #expect(changes.count == 60_001 && changes.count { $0.table == "last" } == 1)
        }
    }

    @Test(arguments: schemas, [false, true])
    func sequences(schema: String, recursive: Bool) throws {
        for environment in [CaptureEnvironment.system, .leavingOutAll] { try sequences(schema, recursive, environment) }
    }

    private func sequences(_ schema: String, _ recursive: Bool, _ environment: CaptureEnvironment) throws {
        let queue = try DatabaseQueue()
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "\(schema); PRAGMA recursive_triggers = \(recursive)")
            let report = try Tracking.track(db, .all, environment)
            #expect(report.tables.map(\.isTracked) == [true])
            for first in Self.statements {
                for second in Self.statements {
                    for third in Self.statements { try check([first, second, third], db) }
                }
            }
        }
    }

    /// A row that refers to itself or to an evicted row: the action of the foreign key writes the row before its own change is logged.
    @Test(arguments: ["SET NULL", "CASCADE"], ["CASCADE", "SET NULL"])
    func selfReferences(onUpdate: String, onDelete: String) throws {
        for environment in [CaptureEnvironment.system, .leavingOutAll] { try selfReferences(onUpdate, onDelete, environment) }
    }

    private func selfReferences(_ onUpdate: String, _ onDelete: String, _ environment: CaptureEnvironment) throws {
        let queue = try DatabaseQueue()
        let statements = [
            "UPDATE OR REPLACE t SET k = k + 1", "UPDATE OR REPLACE t SET k = 1 WHERE k = 2", "UPDATE t SET up = k",
            "UPDATE t SET up = NULL",
            "UPDATE t SET up = (SELECT min(k) FROM t)", "INSERT OR REPLACE INTO t VALUES(2, 1, 'a')",
            "INSERT OR REPLACE INTO t VALUES(3, 3, 'b')",
            "DELETE FROM t WHERE k = 2", "UPDATE OR REPLACE t SET v = 'a'",
        ]
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql:
                    "CREATE TABLE t(k INTEGER PRIMARY KEY, up DEFAULT 1 REFERENCES t ON UPDATE \(onUpdate) ON DELETE \(onDelete), v UNIQUE)"
            )
            _ = try Tracking.track(db, .all, environment)
            for rows in ["(2, 2, 'a'), (3, NULL, 'b')", "(1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c')"] {
                for first in statements {
                    for second in statements {
                        for third in statements { try check([first, second, third], rows: rows, db) }
                    }
                }
            }
        }
    }

    private func check(_ statements: [String], rows: String = "('1', 5), ('2', 6)", _ db: Database) throws {
        try db.inTransaction {
            try db.execute(sql: "INSERT INTO t VALUES \(rows)")
            try TransactionRecorder.recordExternal(db)
            let before = try Fixture.rows(db)
            for statement in statements {
                do {
                    try db.execute(sql: statement)
                } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                    continue
                }
            }
            let after = try Fixture.rows(db)
            let number = try TransactionRecorder.recordExternal(db)
            let changes = try number.map { try Fixture.changes(db, of: $0) } ?? [:]
            let isWhole = before.applying(changes) == after
            #expect(isWhole, "\(rows): \(statements.joined(separator: "; "))")
            return .rollback
        }
    }
}
