import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsReplica
@testable import AnnalsRows
@testable import AnnalsSQLite
@testable import AnnalsSchema
@testable import AnnalsStore

/// A store in a temporary file. Other programs write it, then the writes are recorded.
final class HistoryFile {
    let file: TemporaryFile
    let queue: DatabaseQueue
    let clock = TestClock()
    /// For `CaptureEnvironment`.
    private let largeValue: Int?

    /// - Parameter leavesOutAll: Updates leave out all texts and blobs that they did not change, also short ones.
    init(_ schema: String = "", leavesOutAll: Bool = false) throws {
        largeValue = leavesOutAll ? 0 : nil
        file = try TemporaryFile()
        queue = try Self.open(file.path)
        try outside(schema)
    }

    /// Begins with a copy of another file.
    init(copyOf path: String) throws {
        largeValue = nil
        file = try TemporaryFile()
        try FileManager.default.copyItem(atPath: path, toPath: file.path)
        queue = try Self.open(file.path)
    }

    private static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(20)
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    var environment: CaptureEnvironment {
        let clock = clock
        var environment = CaptureEnvironment(
            now: { clock.milliseconds }, makeTransactionID: { .random() }, makeStoreID: { .random() }, processName: "tests")
        environment.largeValue = largeValue
        return environment
    }

    @discardableResult
    func track(_ tables: String...) throws -> TrackingReport {
        try queue.write { db in try Tracking.track(db, tables.isEmpty ? .all : .tables(tables), environment) }
    }

    /// Writes as another program does: a connection of its own with SQLite's default settings.
    func outside(_ sql: String, foreignKeys: Bool = false) throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = foreignKeys
        let other = try DatabaseQueue(path: file.path, configuration: configuration)
        try other.writeWithoutTransaction { db in try db.execute(sql: sql) }
        try other.close()
    }

    @discardableResult
    func recordExternalChanges() throws -> Int64? {
        try queue.write { db in try TransactionRecorder.recordExternal(db, environment) }
    }

    /// Runs statements of another program and records them as one transaction. Returns its number.
    @discardableResult
    func external(_ sql: String) throws -> Int64? {
        try outside(sql)
        return try recordExternalChanges()
    }

    @discardableResult
    func managed(_ author: String? = nil, _ context: String? = nil, _ sql: String) throws -> Int64? {
        clock.milliseconds += 1_000
        return try queue.write { db in
            try TransactionRecorder.managedWrite(db, author: author, contextName: context, environment) { try $0.execute(sql: sql) }.number
        }
    }

    func bounds() throws -> HistoryBounds { try queue.read { try HistoryBounds($0) } }

    func token(_ number: Int64) throws -> HistoryToken { HistoryToken(number: number, store: try bounds().storeID) }

    func transactions(_ request: HistoryRequest = HistoryRequest()) throws -> [HistoryTransaction] {
        try queue.read { try HistoryReader($0).transactions(request) }
    }

    func changes(_ number: Int64, _ request: HistoryRequest = HistoryRequest()) throws -> [HistoryChange] {
        try queue.read { db in
            let reader = try HistoryReader(db)
            return try reader.changes(in: try #require(try reader.transaction(number)), request)
        }
    }

    func steps(_ number: Int64, _ request: HistoryRequest = HistoryRequest()) throws -> [HistoryStep] {
        try queue.read { db in
            let reader = try HistoryReader(db)
            var found: [HistoryStep] = []
            try reader.forEachStep(in: #require(try reader.transaction(number)), request) { found.append($0) }
            return found
        }
    }

    /// Gives the raw changes of a table times of their own: `start` for the first, and `seconds` more for each later one.
    func setTimes(of table: String, from start: Date, every seconds: Double) throws {
        try setTimes(of: table, "julianday(\(start.timeIntervalSince1970), 'unixepoch') + (id - 1) * \(seconds) / 86400.0")
    }

    /// Gives the raw changes of a table the times that an SQL expression says, as Julian days.
    func setTimes(of table: String, _ sql: String) throws {
        let tables = try queue.read { try TrackedTable.fetchTracked($0) }
        let list = try #require(tables.first { $0.name == table }).id
        try queue.write { db in try db.execute(sql: "UPDATE \(StoreSchema.changesTable(list)) SET at = \(sql)") }
    }

    /// A path in the folder of the store.
    func path(_ name: String) -> String { file.folder.appendingPathComponent(name).path }

    @discardableResult
    func replay(to token: HistoryToken, _ name: String = "replayed.db", force: Bool = true) throws -> Replay.Outcome {
        try queue.writeWithoutTransaction { db in
            try Replay.write(db, to: HistoryPoint(token), output: path(name), force: force, environment: environment)
        }
    }

    /// The name of a table's capture trigger with this suffix.
    func triggerName(_ suffix: String, of table: String) throws -> String {
        let tables = try queue.read { try TrackedTable.fetchTracked($0) }
        let table = try #require(tables.first { $0.name == table })
        return try #require(CaptureTriggers.names(id: table.id).first { $0.contains(suffix) })
    }

    func digest() throws -> Digest { try queue.read { try StoreDigest.rows($0) } }

    func findings() throws -> [Finding] {
        try queue.writeWithoutTransaction { try Verification.run($0, environment: environment) }
    }

    func rows() throws -> RowDump { try queue.read { try RowDump($0) } }
}

/// The wall clock of a test.
final class TestClock: @unchecked Sendable {
    // Because each test runs on one thread.
    var milliseconds: Int64 = 1_700_000_000_000
}

/// All rows of all tables except Annals' own, as text that shows storage classes and bytes.
struct RowDump: Equatable, CustomStringConvertible {
    private(set) var tables: [String: [String]] = [:]

    init(_ db: Database, only names: Set<String>? = nil) throws {
        for table in try SchemaReader(db).tables() where table.kind == .table && names?.contains(table.name) ?? true {
            let columns = table.columns.map { column in
                let name = SQL.quote(column.name)
                return "typeof(\(name)) || ':' || CASE typeof(\(name)) WHEN 'real' THEN quote(\(name)) ELSE hex(CAST(\(name) AS BLOB)) END"
            }
            let row = columns.joined(separator: " || '|' || ")
            tables[table.name] = try String.fetchAll(
                db, sql: "SELECT ifnull(\(row), '?') AS line FROM \(SQL.quote(table.name)) ORDER BY line")
        }
    }

    init(path: String, only names: Set<String>? = nil) throws {
        let queue = try DatabaseQueue(path: path)
        self = try queue.read { try RowDump($0, only: names) }
        try queue.close()
    }

    /// The rows that only one of the two has.
    func difference(from other: RowDump) -> String {
        var lines: [String] = []
        for name in Set(tables.keys).union(other.tables.keys).sorted() {
            for change in (tables[name] ?? ["no such table"]).difference(from: other.tables[name] ?? ["no such table"]) {
                switch change {
                case .insert(_, let line, _): lines.append("+ \(name) \(line)")
                case .remove(_, let line, _): lines.append("- \(name) \(line)")
                }
            }
        }
        return lines.joined(separator: "\n")
    }

    var description: String { tables.map { "\($0): \($1)" }.joined(separator: "\n") }
}
