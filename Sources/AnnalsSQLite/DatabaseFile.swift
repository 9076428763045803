import AnnalsCore
import Foundation
package import GRDB

/// What can be said of a database file before SQLite opens it, and how it is opened.
///
/// The file itself is never opened but by SQLite: when a process closes a file, the system takes away every lock that
/// the process holds on it, also those of SQLite's connections, and then another program may drop the -wal file under
/// them (https://sqlite.org/howtocorrupt.html, section 2.2).
package enum DatabaseFile {
    /// A path as SQLite takes it for one. It has other meanings for names that begin with `file:`, and for `:memory:`.
    package static func plain(_ path: String) -> String {
        path.hasPrefix("file:") || path == ":memory:" ? "./\(path)" : path
    }

    /// The file of a database that somebody else has opened; `:memory:` where SQLite has none, as behind an empty name or one that asks
    /// for memory. An address (`file:`) is not a path, and SQLite says which it means.
    package static func path(of writer: any DatabaseWriter) -> String {
        let file = (try? writer.unsafeReentrantRead { db in db.mainFile }) ?? writer.path
        guard FileManager.default.fileExists(atPath: file) else { return ":memory:" }
        return writer.path.hasPrefix("file:") ? file : writer.path
    }

    /// - Throws: `AnnalsError` when there is no such file, it is none, or it is empty.
    package static func check(_ path: String) throws {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw AnnalsError(.fileNotFound, operation: "open", path.isEmpty ? "the name of the file is empty" : "there is no file \(path)")
        }
        guard !isFolder.boolValue else { throw AnnalsError(.notADatabase, operation: "open", "\(path) is a folder") }
        guard FileManager.default.isReadableFile(atPath: path) else {
            throw AnnalsError(.notPermitted, operation: "open", "\(path) cannot be read", hint: "Check its permissions")
        }
        let size = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int64
        if size == 0 { throw AnnalsError(.notADatabase, operation: "open", "\(path) is empty", hint: "Create its tables first") }
    }

    /// Whether a new file may be made there without touching anything: there is none, or an empty one.
    package static func isMissing(_ path: String) throws -> Bool {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else { return true }
        guard !isFolder.boolValue else { return false }
        return try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int64 == 0
    }

    /// Makes a file, in WAL mode: then readers and the writer do not wait for each other.
    ///
    /// - Throws: `AnnalsError.cannotCreate`.
    package static func create(_ path: String, _ options: GRDB.Configuration) throws -> any DatabaseWriter {
        do {
            return try DatabasePool(path: path, configuration: options)
        } catch let error as DatabaseError where [.SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM].contains(error.resultCode) {
            throw AnnalsError(
                .cannotCreate, operation: "open", "the file \(path) cannot be made", hint: "Its folder must exist and be writable",
                underlying: error)
        }
    }

    /// Opens it in the journal mode that it has: a pool would turn a file with a rollback journal to WAL.
    package static func open(_ path: String, _ options: GRDB.Configuration) throws -> any DatabaseWriter {
        let queue = try DatabaseQueue(path: path, configuration: options)
        let mode = try queue.unsafeRead { db in try String.fetchOne(db, sql: "PRAGMA journal_mode") }
        guard mode == "wal" else {
            try makeCommitsDurable(queue)
            return queue
        }
        // The pool comes first, so that the queue is not the last connection, whose end would drop the -wal file.
        let pool = try DatabasePool(path: path, configuration: options)
        try queue.close()
        return pool
    }

    /// A rollback journal whose removal a loss of power undoes takes the last commit back. By default (FULL) SQLite does not sync its
    /// folder after the removal. Who chose less than that has it.
    private static func makeCommitsDurable(_ queue: DatabaseQueue) throws {
        try queue.unsafeRead { db in
            guard try Int.fetchOne(db, sql: "PRAGMA synchronous") == fullSynchronous else { return }
            try db.execute(sql: "PRAGMA synchronous = EXTRA")
        }
    }

    private static let fullSynchronous = 2
}
