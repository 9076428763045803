import AnnalsCore
import Foundation
package import GRDB

/// Checks a database file before SQLite opens it, and opens it.
///
/// Only SQLite may open the file itself. When a process closes a file, the system releases every lock of the process on
/// it, including those of SQLite's connections. Then another program may delete the -wal file while these connections
/// use it (https://sqlite.org/howtocorrupt.html, section 2.2).
package enum DatabaseFile {
    /// The path in a form that SQLite reads as a path. Names that begin with `file:`, and `:memory:`, have other
    /// meanings.
    package static func plain(_ path: String) -> String {
        path.hasPrefix("file:") || path == ":memory:" ? "./\(path)" : path
    }

    /// The file of a database that the caller has opened. `:memory:` if it has no file, as with an empty name or a name
    /// for a database in memory. If the name is a URI (`file:`), SQLite's own path is used.
    package static func path(of writer: any DatabaseWriter) -> String {
        let file = (try? writer.unsafeReentrantRead { db in db.mainFile }) ?? writer.path
        guard FileManager.default.fileExists(atPath: file) else { return ":memory:" }
        return writer.path.hasPrefix("file:") ? file : writer.path
    }

    /// - Throws: `AnnalsError` if there is no such file, or if it is a folder, unreadable or empty.
    package static func check(_ path: String) throws {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw AnnalsError(
                .fileNotFound, operation: "open", path.isEmpty ? "the name of the file is empty" : "the file \(path) does not exist",
                hint: "Check the path. Store.Configuration.createIfMissing creates a new file", commandHint: "Check the path")
        }
        guard !isFolder.boolValue else { throw AnnalsError(.notADatabase, operation: "open", "\(path) is a folder") }
        guard FileManager.default.isReadableFile(atPath: path) else {
            throw AnnalsError(.notPermitted, operation: "open", "\(path) cannot be read", hint: "Check its permissions")
        }
        let size = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int64
        if size == 0 { throw AnnalsError(.notADatabase, operation: "open", "\(path) is empty", hint: "Create its tables first") }
    }

    /// Whether a new database may be created there without changing anything: there is no file, or it is empty.
    package static func isMissing(_ path: String) throws -> Bool {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else { return true }
        guard !isFolder.boolValue else { return false }
        return try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int64 == 0
    }

    /// Creates a file in WAL mode, so that readers and the writer do not block each other.
    ///
    /// - Throws: `AnnalsError.cannotCreate`.
    package static func create(_ path: String, _ options: GRDB.Configuration) throws -> any DatabaseWriter {
        do {
            return try DatabasePool(path: path, configuration: options)
        } catch let error as DatabaseError where [.SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM].contains(error.resultCode) {
            throw AnnalsError(
                .cannotCreate, operation: "open", "cannot create the file \(path)", hint: "Its folder must exist and be writable",
                underlying: error)
        }
    }

    /// Opens a file in its own journal mode. A pool alone would change a rollback journal to WAL.
    package static func open(_ path: String, _ options: GRDB.Configuration) throws -> any DatabaseWriter {
        let queue = try DatabaseQueue(path: path, configuration: options)
        let mode = try queue.unsafeRead { db in try String.fetchOne(db, sql: "PRAGMA journal_mode") }
        guard mode == "wal" else {
            try makeCommitsDurable(queue)
            return queue
        }
        // The pool is opened first, so that the queue is not the last connection. The last connection would delete the
        // -wal file when it closes.
        let pool = try DatabasePool(path: path, configuration: options)
        try queue.close()
        return pool
    }

    /// If a loss of power undoes the deletion of a rollback journal, the last commit is lost. By default (FULL) SQLite
    /// does not sync the folder after the deletion, so EXTRA is set. A weaker setting is a user's choice and stays.
    private static func makeCommitsDurable(_ queue: DatabaseQueue) throws {
        try queue.unsafeRead { db in
            guard try Int.fetchOne(db, sql: "PRAGMA synchronous") == fullSynchronous else { return }
            try db.execute(sql: "PRAGMA synchronous = EXTRA")
        }
    }

    private static let fullSynchronous = 2
}
