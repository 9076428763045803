import Foundation
import GRDBSQLite

/// A plain SQLite connection with prepared statements, without Annals.
final class BareConnection {
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    enum Value {
        case null, integer(Int64), real(Double), text(String)
    }

    private(set) var handle: OpaquePointer?
    private var statements: [String: OpaquePointer] = [:]

    init(_ path: String) throws {
        guard sqlite3_open(path, &handle) == SQLITE_OK else { throw Failure(description: "cannot open \(path)") }
        sqlite3_busy_timeout(handle, 10_000)
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close(handle)
    }

    /// Runs statements and ignores their rows.
    func execute(_ sql: String) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure() }
    }

    /// Compiles a statement and does not run it.
    func compile(_ sql: String) throws {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK else { throw failure() }
    }

    /// Runs a statement that is prepared once.
    func run(_ sql: String, _ values: [Value]) throws {
        let statement = try prepared(sql)
        for (index, value) in values.enumerated() {
            let place = Int32(index + 1)
            switch value {
            case .null: sqlite3_bind_null(statement, place)
            case .integer(let integer): sqlite3_bind_int64(statement, place, integer)
            case .real(let real): sqlite3_bind_double(statement, place, real)
            case .text(let text): sqlite3_bind_text(statement, place, text, -1, unsafeBitCast(-1, to: sqlite3_destructor_type.self))
            }
        }
        defer { sqlite3_reset(statement) }
        guard sqlite3_step(statement) == SQLITE_DONE else { throw failure() }
    }

    /// Runs a query to its end and ignores its rows.
    func query(_ sql: String) throws {
        let statement = try prepared(sql)
        defer { sqlite3_reset(statement) }
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: continue
            case SQLITE_DONE: return
            default: throw failure()
            }
        }
    }

    /// The first value of a query's first row; nil if there is none.
    func integer(_ sql: String) throws -> Int64? {
        let statement = try prepared(sql)
        defer { sqlite3_reset(statement) }
        switch sqlite3_step(statement) {
        case SQLITE_ROW: return sqlite3_column_int64(statement, 0)
        case SQLITE_DONE: return nil
        default: throw failure()
        }
    }

    /// Runs a statement once for each row of another connection's query, with the row's values bound.
    func run(_ sql: String, forEachOf query: String, in other: BareConnection) throws {
        let (statement, rows) = (try prepared(sql), try other.prepared(query))
        defer { sqlite3_reset(rows) }
        while true {
            switch sqlite3_step(rows) {
            case SQLITE_DONE: return
            case SQLITE_ROW:
                for column in 0..<sqlite3_column_count(rows) {
                    sqlite3_bind_value(statement, column + 1, sqlite3_column_value(rows, column))
                }
                let code = sqlite3_step(statement)
                guard code == SQLITE_DONE || code == SQLITE_ROW else { throw failure() }
                sqlite3_reset(statement)
            default: throw other.failure()
            }
        }
    }

    private func prepared(_ sql: String) throws -> OpaquePointer? {
        if let statement = statements[sql] { return statement }
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK else { throw failure() }
        statements[sql] = statement
        return statement
    }

    func failure() -> Failure {
        Failure(description: String(cString: sqlite3_errmsg(handle)))
    }
}

/// A folder that is deleted when this object is released.
final class BenchmarkFolder {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.path + "/annals-bench-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Copies a database that no connection has open.
    func copy(_ name: String, to other: String) throws -> String {
        try? FileManager.default.removeItem(atPath: file(other))
        for suffix in ["-wal", "-shm", "-journal"] { try? FileManager.default.removeItem(atPath: file(other) + suffix) }
        try FileManager.default.copyItem(atPath: file(name), toPath: file(other))
        return file(other)
    }
}
