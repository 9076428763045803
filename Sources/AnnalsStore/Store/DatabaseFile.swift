import AnnalsCore
import Foundation

/// What a file's first bytes tell before SQLite opens it.
enum DatabaseFile {
    /// Whether the file is in WAL mode.
    ///
    /// - Throws: `AnnalsError` when there is no such file, it cannot be read, or it is no SQLite database.
    static func inspect(_ path: String) throws -> Bool {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw AnnalsError(.fileNotFound, operation: "open", "there is no file \(path)")
        }
        guard !isFolder.boolValue else { throw AnnalsError(.notADatabase, operation: "open", "\(path) is a folder") }
        guard let file = FileHandle(forReadingAtPath: path) else {
            throw AnnalsError(.notPermitted, operation: "open", "\(path) cannot be read", hint: "Check its permissions")
        }
        defer { try? file.close() }
        let head = [UInt8](try file.read(upToCount: headerBytes) ?? Data())
        if head.isEmpty { throw AnnalsError(.notADatabase, operation: "open", "\(path) is empty", hint: "Create its tables first") }
        guard head.count == headerBytes, head.starts(with: magic) else {
            throw AnnalsError(.notADatabase, operation: "open", "\(path) is not a SQLite database, or it is encrypted")
        }
        return head[writeVersionOffset] == walVersion
    }

    /// https://sqlite.org/fileformat.html, section 1.3.
    private static let headerBytes = 100
    private static let magic = Array("SQLite format 3\0".utf8)
    private static let writeVersionOffset = 18
    private static let walVersion: UInt8 = 2
}
