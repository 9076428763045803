import AnnalsCore
import Foundation
import GRDB
import GRDBSQLite
import Testing

@testable import AnnalsHistory
@testable import AnnalsSQLite
@testable import AnnalsSchema
@testable import AnnalsStore

/// A SQLite file in a temporary folder of its own. It is deleted with the object.
final class TemporaryFile {
    let folder: URL
    var path: String { folder.appendingPathComponent("store.db").path }

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    /// Runs statements as another program does: in the sqlite3 shell, a process of its own. Returns its output.
    @discardableResult
    func shell(_ sql: String, stopsAtError: Bool = true) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["sqlite3", "-batch"] + (stopsAtError ? ["-bail"] : []) + [path]
        let input = Pipe()
        let output = Pipe()
        let errors = Pipe()
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        // A separate reader, or both sides would wait when a pipe is full.
        let writing = Thread {
            input.fileHandleForWriting.write(Data(sql.utf8))
            try? input.fileHandleForWriting.close()
        }
        writing.start()
        let printed = output.fileHandleForReading.readDataToEndOfFile()
        let complaint = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 || !stopsAtError else { throw Complaint(text: complaint) }
        return String(decoding: printed, as: UTF8.self)
    }
}

struct Complaint: Error {
    var text: String
}

/// A connection as any program opens it: through the C interface, with default pragmas.
final class BareConnection {
    private var handle: OpaquePointer?

    init(_ path: String) throws {
        guard sqlite3_open(path, &handle) == SQLITE_OK else { throw Complaint(text: "cannot open") }
        sqlite3_busy_timeout(handle, 5000)
    }

    deinit {
        sqlite3_close_v2(handle)
    }

    func run(_ sql: String) throws {
        var message: UnsafeMutablePointer<CChar>?
        guard sqlite3_exec(handle, sql, nil, nil, &message) == SQLITE_OK else {
            let text = message.map { String(cString: $0) } ?? ""
            sqlite3_free(message)
            throw Complaint(text: text)
        }
    }
}

/// The rows of one table, with the number of times that each occurs.
typealias Rows = [[Value]: Int]

extension CaptureEnvironment {
    /// Updates leave out all texts and blobs that they did not change, also short ones.
    static let leavingOutAll: CaptureEnvironment = {
        var environment = CaptureEnvironment.system
        environment.largeValue = 0
        return environment
    }()
}

/// A store with tables that other programs write.
final class Fixture {
    let file: TemporaryFile
    let queue: DatabaseQueue

    /// Creates the schema in the shell. `queue` has GRDB's settings, as when the product opens a file.
    init(_ schema: String = "") throws {
        file = try TemporaryFile()
        try file.shell("PRAGMA journal_mode;" + schema)
        queue = try DatabaseQueue(path: file.path)
    }

    convenience init(tracking schema: String) throws {
        try self.init(schema)
        try track()
    }

    /// Tracks all tables. Fails if one is refused.
    func track(_ environment: CaptureEnvironment = .system) throws {
        let report = try queue.writeWithoutTransaction { db in try Tracking.track(db, .all, environment) }
        for table in report.tables where !table.isTracked && table.outcome != .skipped(.view) { throw Complaint(text: "\(table)") }
    }

    func tracked() throws -> [TrackedTable] {
        try queue.read { db in try TrackedTable.fetchTracked(db) }
    }

    /// The rows of the tracked tables.
    func rows() throws -> [String: Rows] {
        try queue.read { db in try Self.rows(db) }
    }

    static func rows(_ db: Database) throws -> [String: Rows] {
        var found: [String: Rows] = [:]
        for table in try TrackedTable.fetchTracked(db) {
            let columns = table.columns.map(SQL.quote).joined(separator: ", ")
            let statement = try db.makeStatement(sql: "SELECT \(columns) FROM \(SQL.quote(table.name))")
            var rows: Rows = [:]
            while try statement.step() { rows[statement.values(at: 0..<table.columns.count), default: 0] += 1 }
            found[table.name] = rows
        }
        return found
    }

    @discardableResult
    func recordExternal(_ environment: CaptureEnvironment = .system) throws -> Int64? {
        try queue.write { db in try TransactionRecorder.recordExternal(db, environment) }
    }

    /// The net changes of all transactions after `number`, by table name.
    func changes(after number: Int64 = 0) throws -> [(number: Int64, changes: [String: [NetChange]])] {
        try queue.read { db in
            try Int64.fetchAll(db, sql: "SELECT number FROM annals_transactions WHERE number > ? ORDER BY number", arguments: [number])
                .map { ($0, try Self.changes(db, of: $0)) }
        }
    }

    /// Folded from the raw changes one by one. History and outbox read them in another way and must have the same result.
    static func changes(_ db: Database, of number: Int64) throws -> [String: [NetChange]] {
        var found: [String: [NetChange]] = [:]
        for span in try Row.fetchAll(db, sql: "SELECT * FROM annals_spans WHERE number = ?", arguments: [number]) {
            let table = try #require(try TrackedTable.fetch(db, id: span["table_id"]))
            var folder = NetChangeFolder(table.identityRule)
            try RawChangeReader(db, table).read((span["first"] as Int64)...(span["last"] as Int64)) { folder.add($0) }
            let changes = folder.finish()
            found[table.name, default: []] += changes
            var read: [NetChange] = []
            let section = NetChanges.Section(layout: table.id, first: span["first"], last: span["last"])
            try NetChanges(db, tables: TrackedTables.load(db)).forEachRow(in: section) { read.append($0) }
            // A row with NULL in its key may get another rowid and keep all values. History has nothing to show for it.
            let isSame = Set(read) == Set(changes.filter { $0.old == nil || $0.old != $0.new })
            #expect(isSame, "\(table.name): history reads \(read) where the changes are \(changes)")
        }
        return found
    }

    /// Runs `write`, records, and checks that the recorded changes explain the difference of the rows exactly. Returns the changes
    /// by table.
    @discardableResult
    func account(_ note: Comment? = nil, at location: SourceLocation = #_sourceLocation, _ write: () throws -> Void) throws
        -> [String: [NetChange]]
    {
        let newest = try newestNumber()
        let before = try rows()
        try write()
        let after = try rows()
        try recordExternal()
        var found: [String: [NetChange]] = [:]
        for (_, changes) in try changes(after: newest) {
            for (table, changes) in changes { found[table, default: []] += changes }
        }
        #expect(try rows() == after, note, sourceLocation: location)
        #expect(after == before.applying(found), note, sourceLocation: location)
        try expectNothingOpen(note, location)
        return found
    }

    private func newestNumber() throws -> Int64 {
        try queue.read { db in try Int64.fetchOne(db, sql: "SELECT max(number) FROM annals_transactions") ?? 0 }
    }

    private func expectNothingOpen(_ note: Comment?, _ location: SourceLocation) throws {
        let open = try queue.read { db in try UnrecordedRange.fetchAll(db).map(\.id) }
        #expect(open.isEmpty, note, sourceLocation: location)
    }
}

extension [String: Rows] {
    /// The rows after the changes. A removed row that does not exist counts less than zero.
    func applying(_ changes: [String: [NetChange]]) -> [String: Rows] {
        var result = self
        for (table, changes) in changes {
            for change in changes {
                let change = change.filled(from: result[table] ?? [:], self[table] ?? [:])
                if let old = change.old { result[table, default: [:]][old, default: 0] -= 1 }
                if let new = change.new { result[table, default: [:]][new, default: 0] += 1 }
            }
            result[table] = result[table]?.filter { $0.value != 0 }
        }
        return result
    }
}

extension NetChange {
    /// The row of `rows` that existed before the change, also if the change leaves some of its values out.
    fileprivate func row(of rows: Rows) -> [Value]? {
        for (row, count) in rows where count > 0 {
            if row.indices.allSatisfy({ leftOut.contains($0) || row[$0] == old?[$0] }) { return row }
        }
        return nil
    }

    /// The change with its left-out values, if one of the rows has them.
    func filled(from rows: Rows...) -> NetChange {
        guard !leftOut.isEmpty, let row = rows.lazy.compactMap({ row(of: $0) }).first else { return self }
        var change = self
        for place in leftOut { change.fill(place, row[place]) }
        change.leftOut = []
        return change
    }
}

extension NetChange: CustomTestStringConvertible {
    public var testDescription: String {
        func text(_ row: [Value]?) -> String { row.map { "(" + $0.map(\.brief).joined(separator: ", ") + ")" } ?? "∅" }
        return "\(text(old)) → \(text(new))"
    }
}

extension Value {
    var brief: String {
        switch self {
        case .null: "NULL"
        case .integer(let integer): "\(integer)"
        case .real(let real): "\(real)"
        case .text(let text): "'\(text.string ?? Hexadecimal.encode(text.bytes))'"
        case .blob(let blob): "x'\(Hexadecimal.encode(blob.bytes))'"
        }
    }
}
