import AnnalsCore
import CAnnalsSQLite
import Foundation
package import GRDB
import GRDBSQLite

/// An extension of SQLite: a shared library that adds functions, collations and modules to a connection.
package enum LoadableExtension {
    /// Loads an extension into a connection. SQL's `load_extension()` stays off, so that no statement or schema can load another one.
    ///
    /// - Parameter path: the file. A relative path is looked up in the working folder only, not where the system looks for libraries.
    /// - Throws: `AnnalsError` with code `fileNotFound`, `notPermitted`, or `configuration` if the file is no extension of SQLite.
    package static func load(_ path: String, on db: Database) throws {
        let path = URL(fileURLWithPath: path).path
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw AnnalsError(.fileNotFound, operation: "open", "the extension \(path) does not exist")
        }
        guard !isFolder.boolValue else { throw refused(path, "it is a folder") }
        guard FileManager.default.isReadableFile(atPath: path) else {
            throw AnnalsError(.notPermitted, operation: "open", "the extension \(path) cannot be read", hint: "Check its permissions")
        }
        var message: UnsafeMutablePointer<CChar>?
        let code = annals_sqlite_load_extension(db.sqliteConnection, path, &message)
        defer { sqlite3_free(message) }
        guard code != SQLITE_OK else { return }
        let reason = message.map { String(cString: $0) } ?? "the system's SQLite loads no extensions"
        // SQLite tries the path with the system's suffix too, and its message is about that file.
        throw refused(path, reason.hasPrefix("\(path).") ? "it is no shared library with an extension of SQLite" : reason)
    }

    private static func refused(_ path: String, _ reason: String) -> AnnalsError {
        AnnalsError(.configuration, operation: "open", "the extension \(path) cannot be loaded: \(reason)")
    }
}
