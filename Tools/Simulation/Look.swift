import AnnalsCore
import AnnalsWire
import Foundation
import GRDB
import GRDBSQLite

/// The state of a replica's database, as another program reads it.
struct Look {
    /// A transaction of history.
    struct Recorded {
        var number: Int64
        var id: TransactionID
        var time: HybridTime
        var origin: Int
    }

    /// A transaction of the outbox.
    struct Waiting {
        var decoded: DecodedBody

        var id: TransactionID { decoded.info.id }
    }

    var rows = Rows()
    var replica = ReplicaID(high: 0, low: 0)
    var position: Int64 = 0
    /// Transactions of history up to this number are or were in the outbox.
    var outboxed: Int64 = 0
    /// Positions of own entries after `position`, in the order of their counters.
    var ahead: [Int64] = []
    /// Positions of buffered parts of other replicas' transactions.
    var kept: [Int64] = []
    var outbox: [Waiting] = []
    /// Whether the store has noted that its rows must be compared with the log.
    var isInDoubt = false
    /// History up to this number was purged.
    var purged: Int64 = 0
    /// Whether a transaction in the outbox leaves children without parents. The store must repair this before it sends the outbox.
    var unsettled = false
    /// History since the last look.
    var recorded: [Recorded] = []

    /// The table names for the ids in stored bodies.
    static func tableNumbers(_ db: Database) throws -> [Int: String] {
        var names: [Int: String] = [:]
        for row in try Row.fetchAll(db, sql: "SELECT id, name FROM annals_tables") { names[row["id"]] = row["name"] }
        return names
    }

    init() {}

    init(_ db: Database, _ schema: Schema, tables: [Int: String], after number: Int64) throws {
        rows = try Self.rows(db, schema)
        var outboxParts = 0
        for row in try Row.fetchAll(db.cachedStatement(sql: Self.facts)) {
            switch row["name"] as String {
            case "position": position = row["value"]
            case "outboxed": outboxed = row["value"]
            case "rows_unverified": isInDoubt = true
            case "purged": purged = row["value"]
            case "unsettled": unsettled = true
            case "ahead": ahead.append(row["value"])
            case "kept": kept.append(row["value"])
            case "outbox parts": outboxParts = row["value"]
            default: replica = ReplicaID(row["value"] as String) ?? replica
            }
        }
        ahead.sort()
        kept.sort()
        outbox = try Self.outbox(db, tables, hasParts: outboxParts > 0)
        let transactions = try db.cachedStatement(
            sql: "SELECT number, id, time, time_counter, origin FROM annals_transactions WHERE number > ? ORDER BY number")
        for row in try Row.fetchAll(transactions, arguments: [number]) {
            guard let id = TransactionID(bytes: row["id"] as Data) else { throw Violation("law 1", "a transaction without an id") }
            let time = HybridTime(milliseconds: row["time"], counter: row["time_counter"])
            recorded.append(Recorded(number: row["number"], id: id, time: time, origin: row["origin"]))
        }
    }

    /// Numbers and names. One statement reads all, because SQLite compiles each statement again after every pull.
    private static let facts = """
        SELECT name, value FROM annals_meta WHERE name IN ('position', 'outboxed', 'replica', 'rows_unverified', 'purged')
        UNION ALL SELECT 'ahead', position FROM annals_ahead
        UNION ALL SELECT 'kept', position FROM annals_parts
        UNION ALL SELECT 'unsettled', 1 FROM annals_unsettled
        UNION ALL SELECT 'outbox parts', count(*) FROM annals_outbox_parts
        """

    /// The whole outbox, with the parts of each transaction joined.
    private static func outbox(_ db: Database, _ tables: [Int: String], hasParts: Bool) throws -> [Waiting] {
        var parts: [Int64: [Data]] = [:]
        let sql = "SELECT sequence, part, body FROM annals_outbox_parts ORDER BY sequence, part"
        for row in hasParts ? try Row.fetchAll(db.cachedStatement(sql: sql)) : [] {
            let (sequence, part) = (row["sequence"] as Int64, row["part"] as Int)
            guard part == parts[sequence]?.count ?? 0 else { throw Violation("law 6", "part \(part) comes too soon in the outbox") }
            parts[sequence, default: []].append(row["body"])
        }
        let rows = try Row.fetchAll(db.cachedStatement(sql: "SELECT sequence, parts, body FROM annals_outbox ORDER BY sequence"))
        let outbox = try rows.map { row in
            let bodies = (parts.removeValue(forKey: row["sequence"]) ?? []) + [row["body"]]
            guard bodies.count == row["parts"] else { throw Violation("law 6", "an unsent transaction has \(bodies.count) parts") }
            var pieces = GatheredPieces()
            var decoded: DecodedBody?
            for (number, body) in bodies.enumerated() {
                guard let whole = try pieces.add([UInt8](body), parts: bodies.count - number) else { continue }
                let part = try DecodedBody(whole) { tables[$0] }
                if decoded == nil { decoded = part } else { try decoded?.append(part) }
            }
            guard let decoded, !pieces.isAmid else { throw Violation("law 6", "an unsent transaction ends amid a body") }
            return Waiting(decoded: decoded)
        }
        guard parts.isEmpty else { throw Violation("law 6", "the outbox keeps parts of \(parts.count) transactions that are not there") }
        return outbox
    }

    /// All rows of the tables that are synced, with storage class and bytes of each value.
    static func rows(_ db: Database, _ schema: Schema) throws -> Rows {
        var rows = Rows()
        for table in schema.tables {
            let columns = table.names(Array(table.columns.indices))
            let statement = try db.cachedStatement(sql: "SELECT \(columns) FROM \(table.name) WHERE \(table.hasWholeKeySQL)")
            let handle = statement.sqliteStatement
            defer { sqlite3_reset(handle) }
            while true {
                let code = sqlite3_step(handle)
                if code == SQLITE_DONE { break }
                guard code == SQLITE_ROW else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
                rows.put(table, table.columns.indices.map { cell(handle, Int32($0)) })
            }
        }
        return rows
    }

    private static func cell(_ statement: OpaquePointer, _ column: Int32) -> Cell {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: return .real(sqlite3_column_double(statement, column) + 0)
        case SQLITE_TEXT:
            let text = sqlite3_column_text(statement, column)
            return .text(Array(UnsafeRawBufferPointer(start: text, count: Int(sqlite3_column_bytes(statement, column)))))
        case SQLITE_BLOB:
            let blob = sqlite3_column_blob(statement, column)
            return .blob(Array(UnsafeRawBufferPointer(start: blob, count: Int(sqlite3_column_bytes(statement, column)))))
        default: return .null
        }
    }
}
