public import AnnalsCore
import AnnalsMerge
import Foundation
public import GRDB

enum Tracking {
    static func begin(_ db: Database, tables: [String], step: ManagedStep) throws {
        try StoreSchema.createCommonTables(db)
        let meta = Meta(db)
        if try meta.integer(.format) == nil {
            try meta.set(.format, StoreSchema.format)
            try meta.set(.storeID, StoreID.random().description)
        }
        for name in tables {
            guard let table = try SchemaReader(db).table(name) else { continue }
            let columns = try String(decoding: JSONEncoder().encode(table.columns.map(\.name)), as: UTF8.self)
            let key = try String(decoding: JSONEncoder().encode(table.primaryKey), as: UTF8.self)
            try db.execute(
                sql: "INSERT INTO annals_tables (name, columns, key, state, shape) VALUES (?, ?, ?, 'tracked', ?)",
                arguments: [table.name, columns, key, table.shape])
            let id = db.lastInsertedRowID
            try StoreSchema.createChangesTable(db, id: id, columns: table.columns.count, byRowid: false)
            let quoted = table.columns.map { SQL.quote($0.name) }
            let old = table.columns.indices.map { "o\($0)" }.joined(separator: ", ")
            let new = table.columns.indices.map { "n\($0)" }.joined(separator: ", ")
            let olds = quoted.map { "old.\($0)" }.joined(separator: ", ")
            let news = quoted.map { "new.\($0)" }.joined(separator: ", ")
            let changed = quoted.map { "(old.\($0) COLLATE BINARY IS NOT new.\($0) OR typeof(old.\($0)) <> typeof(new.\($0)))" }.joined(separator: " OR ")
            let target = StoreSchema.changesTable(id)
            let name = SQL.quote(table.name)
            try db.execute(
                sql: """
                    CREATE TRIGGER annals_insert_\(id) AFTER INSERT ON \(name) BEGIN
                      INSERT INTO \(target) (at, op, \(new)) VALUES (julianday('now'), 1, \(news)); END;
                    CREATE TRIGGER annals_update_\(id) AFTER UPDATE ON \(name) WHEN \(changed) BEGIN
                      INSERT INTO \(target) (at, op, \(old), \(new)) VALUES (julianday('now'), 2, \(olds), \(news)); END;
                    CREATE TRIGGER annals_delete_\(id) AFTER DELETE ON \(name) BEGIN
                      INSERT INTO \(target) (at, op, \(old)) VALUES (julianday('now'), 3, \(olds)); END;
                    """)
        }
    }
}

final class ManagedStep {
    let db: Database
    let process: String
    var clock: MergeClock

    init(db: Database, configuration: Store.Configuration) {
        self.db = db
        process = configuration.process
        var last = HybridTime.zero
        if (try? db.tableExists("annals_meta")) == true {
            let meta = Meta(db)
            last = HybridTime(
                milliseconds: (try? meta.integer(.clockMilliseconds)) ?? 0, counter: UInt32(truncatingIfNeeded: (try? meta.integer(.clockCounter)) ?? 0))
        }
        clock = MergeClock(last: last, milliseconds: configuration.now())
    }

    func now() -> HybridTime { clock.now }

    func save(_ time: HybridTime) throws {
        try Meta(db).set(.clockMilliseconds, time.milliseconds)
        try Meta(db).set(.clockCounter, Int64(time.counter))
    }

    @discardableResult
    func seal(_ origin: HistoryOrigin = .external, author: String? = nil, context: String? = nil) throws -> Int64? {
        var spans: [(layoutID: Int64, first: Int64, last: Int64)] = []
        for id in try Int64.fetchAll(db, sql: "SELECT id FROM annals_tables WHERE state = 'tracked'") {
            let last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM \(StoreSchema.changesTable(id))") ?? 0
            let sealed = try Int64.fetchOne(db, sql: "SELECT last FROM annals_spans WHERE table_id = ? ORDER BY number DESC LIMIT 1", arguments: [id]) ?? 0
            if last > sealed { spans.append((id, sealed + 1, last)) }
        }
        guard !spans.isEmpty else { return nil }
        try HistoryLog(db: db, process: process).append(
            .init(id: .random(), time: clock.now, author: author, context: context, origin: origin), spans: spans)
        try save(clock.last)
        return try Int64.fetchOne(db, sql: "SELECT max(number) FROM annals_transactions")
    }
}

enum NetChanges {
    static func forEach(
        _ db: Database, transaction number: Int64, tables: TrackedTables,
        _ visit: (TrackedTables.Entry, [Value]?, [Value]?) throws -> Void
    ) throws {
        let entries = tables.entries.sorted { (tables.order[$0.definition.name] ?? 0) < (tables.order[$1.definition.name] ?? 0) }
        for entry in entries {
            guard
                let span = try GRDB.Row.fetchOne(
                    db, sql: "SELECT first, last FROM annals_spans WHERE table_id = ? AND number = ?", arguments: [entry.id, number])
            else { continue }
            let first: Int64 = span["first"]
            let last: Int64 = span["last"]
            let count = entry.definition.columns.count
            let statement = try PreparedStatement(
                db, "SELECT * FROM \(StoreSchema.changesTable(entry.id)) WHERE id BETWEEN \(first) AND \(last) ORDER BY id")
            var order: [[Value]?] = []
            var state: [(old: [Value]?, new: [Value]?)] = []
            var index: [[Value]: Int] = [:]
            func key(_ row: [Value]) -> [Value] { entry.definition.primaryKey.map { row[$0] } }
            while try statement.step() {
                let op = statement.integer(2)
                let old = op == 1 ? nil : statement.values(3..<(3 + count))
                let new = op == 3 ? nil : statement.values((3 + count)..<(3 + 2 * count))
                if let old, let place = index.removeValue(forKey: key(old)) {
                    state[place].new = new
                    index[key(new ?? old)] = place
                } else if old == nil, let new, let place = index[key(new)] {
                    state[place].new = new
                } else {
                    index[key(new ?? old ?? [])] = state.count
                    state.append((old, new))
                }
            }
            _ = order.popLast()
            for row in state where row.old != row.new { try visit(entry, row.old, row.new) }
        }
    }
}

extension Store {
    public func track(all: Bool) async throws -> [String] {
        try await managed("track") { db, step in
            let names = try SchemaReader(db).tables().filter { $0.kind == .table && !$0.primaryKey.isEmpty }.map(\.name)
            try Tracking.begin(db, tables: names, step: step)
            return names
        }
    }

    public func write<T: Sendable>(author: String? = nil, contextName: String? = nil, _ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await managed("write") { db, step in
            try step.seal()
            let result = try body(db)
            try step.seal(.local, author: author, context: contextName)
            return result
        }
    }

    public func digest() async throws -> Digest { try await read { try RowsDigest.compute($0) } }

    public func conflicts() async throws -> [Conflict] { try await read { try ConflictJournal.all($0) } }

    public func close() throws { try database.close() }
}

public enum RowsDigest {
    public static func compute(_ db: Database) throws -> Digest {
        var hasher = Digest.Hasher()
        for entry in try TrackedTables.load(db).entries.sorted(by: { $0.definition.name < $1.definition.name }) {
            let table = entry.definition
            let order = table.primaryKey.map { SQL.quote(table.columns[$0].name) }.joined(separator: ", ")
            let columns = table.columns.map { SQL.quote($0.name) }.joined(separator: ", ")
            let statement = try PreparedStatement(db, "SELECT \(columns) FROM \(SQL.quote(table.name)) ORDER BY \(order)")
            hasher.update(Array(table.name.utf8)[...])
            while try statement.step() {
                hasher.update(Array("\(statement.values(0..<table.columns.count))".utf8)[...])
            }
        }
        return hasher.finish()
    }
}

struct UserTriggers {
    static func plan(_ db: Database, tracked: Set<String>) throws -> UserTriggers { UserTriggers() }
}
