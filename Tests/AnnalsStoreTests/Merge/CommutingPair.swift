import AnnalsCore
import AnnalsMerge
import AnnalsWire
import GRDB

@testable import AnnalsHistory
@testable import AnnalsReplica
@testable import AnnalsRows
@testable import AnnalsSchema
@testable import AnnalsStore

/// One legal state, transactions that are each legal on it, and the results of two of them in both orders.
final class CommutingPair {
    /// A transaction as it was captured, with the store that made it.
    struct Made {
        var statements: [String]
        var row: Outbox.Row
        var body: [UInt8]
        var queue: DatabaseQueue
        var changes: [(rules: FootprintRules, old: [Value]?, new: [Value]?)]
    }

    let schema: CommutingSchema
    private let start: DatabaseQueue
    private let tables: TrackedTables
    private let layouts: [Int: TableLayout]

    init(_ random: inout some RandomNumberGenerator) throws {
        let schema = CommutingSchema(&random)
        let start = try Self.memory()
        try start.write { db in try db.execute(sql: schema.sql) }
        let rows = (0..<40).map { _ in schema.insert(&random) }
        for row in rows { try? start.write { db in try db.execute(sql: row) } }
        (tables, layouts) = try start.write { db in
            _ = try Tracking.track(db, .all)
            try ReplicaTables.createIfMissing(db)
            try Meta(db).set(.outboxed, try Int64.fetchOne(db, sql: "SELECT ifnull(max(number), 0) FROM annals_transactions"))
            return (try TrackedTables.load(db), try LayoutNames(db).all)
        }
        self.schema = schema
        self.start = start
    }

    private static func memory() throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = true
        return try DatabaseQueue(configuration: configuration)
    }

    /// A copy has another schema version. Its triggers are known to be correct, and checking them took most of the time.
    private func copy() throws -> DatabaseQueue {
        let queue = try Self.memory()
        try start.backup(to: queue)
        try queue.write { db in try StoreSchema.set(.schemaVersion, to: Int64.fetchOne(db, sql: "PRAGMA schema_version"), db) }
        return queue
    }

    /// nil if the statements are refused or change nothing.
    func make(_ statements: [String]) throws -> Made? {
        let queue = try copy()
        let isLegal = try queue.writeWithoutTransaction { db in
            do {
                try db.inTransaction {
                    _ = try TransactionRecorder.managedWrite(db) { db in for statement in statements { try db.execute(sql: statement) } }
                    return .commit
                }
                return try Self.problems(db).isEmpty
            } catch is DatabaseError {
                return false
            }
        }
        guard isLegal else { return nil }
        let written: (row: Outbox.Row, body: [UInt8])? = try queue.write { [tables] db in
            try OutboxFiller(db: db, tables: tables, limits: OutboxLimits()) { .none }.fill()
            return try Outbox.row(db, sequence: 1).map { ($0, try Outbox.body(db, of: $0.sequence, part: 0, parts: $0.parts)) }
        }
        guard let (row, body) = written else { return nil }
        var changes: [(rules: FootprintRules, old: [Value]?, new: [Value]?)] = []
        try apply(body, to: start) { table, old, new, _, _ in changes.append((table.rules, old, new)) }
        return Made(statements: statements, row: row, body: body, queue: queue, changes: changes)
    }

    struct End: Equatable {
        var rows: [[DatabaseValue]] = []
        var problems: [String] = []
    }

    /// The rows after `second` was applied verbatim on the result of `first`, and their errors.
    func end(_ first: Made, _ second: Made) -> End {
        do {
            return try apply(second.body, to: first.queue)
        } catch {
            return End(problems: ["does not apply: \(error)"])
        }
    }

    /// Applies in a transaction that is rolled back.
    @discardableResult
    private func apply(
        _ body: [UInt8], to queue: DatabaseQueue, observe: ((RowTable, [Value]?, [Value]?, RowMark?, Int64) -> Void)? = nil
    ) throws -> End {
        let triggers = UserTriggers(temporaries: [], reached: [], tracked: [])
        return try queue.writeWithoutTransaction { [tables, layouts] db in
            try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
                var end = End()
                try db.inTransaction {
                    let session = MergeSession(db, registry: tables)
                    let applier = EntryApplier(session: session, direction: .forward, position: Position(1), observe: observe)
                    try applier.apply(TransactionParts(BodyReader(bytes: body), layouts: layouts))
                    if try !session.checks.dangling().isEmpty { end.problems.append("a child is left without its parent") }
                    for table in tables.entries {
                        let rows = try Row.fetchAll(db, sql: "SELECT * FROM \(table.definition.name) ORDER BY +k, 1, 2")
                        end.rows += rows.map { [table.definition.name.databaseValue] + $0.databaseValues }
                    }
                    end.problems += try Self.problems(db)
                    return .rollback
                }
                return end
            }
        }
    }

    private static func problems(_ db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
            + Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { "foreign key: \($0)" }
    }
}
