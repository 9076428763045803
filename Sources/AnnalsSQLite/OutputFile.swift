package import AnnalsCore
import Foundation
package import GRDB

/// A file that gets its name only when it is complete. It is not readable by more users than the file that it is made from.
///
/// It is written under a temporary name in the same folder. If the program is killed, only files with this name remain. The program
/// holds a lock on a file next to it. If the lock is free, the next program that writes to the same path removes the remaining files.
package struct OutputFile {
    package let path: String
    package let temporaryPath: String
    private let mayReplace: Bool
    private let operation: String
    /// The file descriptor of the lock file; -1 if there is none.
    private let lock: Int32

    private static let infix = ".annals-"
    private static let lockSuffix = ".lock"
    private static let suffixes = ["", "-journal", "-wal", "-shm", lockSuffix]
    private static let nameDigits = 12

    /// - Parameters:
    ///   - source: the file that is read. It is never replaced, even if `mayReplace` is true.
    ///   - mayReplace: whether an existing file may be replaced.
    /// - Throws: `AnnalsError` with code `cannotCreate` if a file exists and must not be replaced, or if the folder does not exist.
    package init(_ path: String, source: String, mayReplace: Bool, operation: String) throws {
        let path = DatabaseFile.plain(path)
        self.path = path
        self.mayReplace = mayReplace
        self.operation = operation
        temporaryPath = "\(path)\(Self.infix)\(Hexadecimal.encode(TransactionID.random().bytes.prefix(Self.nameDigits / 2)))"
        let url = URL(fileURLWithPath: path)
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: url.deletingLastPathComponent().path, isDirectory: &isFolder), isFolder.boolValue
        else {
            throw Self.failure(operation, "\(path) cannot be created: there is no such folder")
        }
        if Self.exists(path) {
            if Self.isSameFile(path, source) { throw Self.failure(operation, "\(path) is the store itself", hint: "Choose another name") }
            guard mayReplace else { throw Self.taken(path, operation) }
            switch Self.type(of: path) {
            // A link to a missing file is replaced itself.
            case nil, S_IFREG: break
            case S_IFDIR: throw Self.failure(operation, "\(path) is a folder")
            // A replacement of a device such as /dev/null would break other programs.
            default: throw Self.failure(operation, "\(path) is not a regular file", hint: "Choose another name")
            }
        }
        Self.removeLeftovers(of: url)
        lock = Self.locked(temporaryPath + Self.lockSuffix, O_CREAT | O_EXCL)
        Self.makeFile(temporaryPath, like: source)
    }

    /// Creates the file, because SQLite would create one that other users may read. An error is ignored here: SQLite reports it later.
    private static func makeFile(_ path: String, like source: String) {
        var status = stat()
        guard stat(source, &status) == 0 else { return }
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, status.st_mode & 0o666 | 0o600)
        if file >= 0 { close(file) }
    }

    /// Opens and locks a file; -1 if it cannot be opened or locked. A separate file is used, because SQLite has its own locks on a
    /// database.
    private static func locked(_ path: String, _ flags: Int32 = 0) -> Int32 {
        let file = open(path, O_RDWR | O_CLOEXEC | flags, 0o600)
        guard file >= 0 else { return -1 }
        if flock(file, LOCK_EX | LOCK_NB) == 0 { return file }
        close(file)
        return -1
    }

    /// Removes the files that killed programs left for the same path.
    private static func removeLeftovers(of file: URL) {
        let folder = file.deletingLastPathComponent()
        let prefix = file.lastPathComponent + infix
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? [] {
            guard name.hasPrefix(prefix), name.hasSuffix(lockSuffix) else { continue }
            let digits = name.dropFirst(prefix.count).dropLast(lockSuffix.count)
            guard digits.count == nameDigits, digits.allSatisfy(\.isHexDigit) else { continue }
            let path = folder.appendingPathComponent(String(name.dropLast(lockSuffix.count))).path
            let lock = locked(path + lockSuffix)
            guard lock >= 0 else { continue }
            for suffix in suffixes { _ = unlink(path + suffix) }
            close(lock)
        }
    }

    private static func type(of path: String) -> mode_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & S_IFMT : nil
    }

    /// A file that other code has written, on the same disk. It never replaces a file.
    package init(_ path: String, writtenAt temporaryPath: String, operation: String) {
        self.path = path
        self.temporaryPath = temporaryPath
        self.operation = operation
        mayReplace = false
        lock = -1
    }

    /// Gives the file its name. Then it is durable.
    package func finish() throws {
        try synchronize(temporaryPath)
        try place()
        try synchronize(URL(fileURLWithPath: path).deletingLastPathComponent().path)
        unlock()
    }

    /// Writes the current content of a file to disk, on another thread, so that `finish` takes less time. Errors are ignored.
    ///
    /// Call it only for a file that no other program uses, because it releases the locks that this process holds on the file.
    package static func beginStoring(_ path: String) async {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                let file = open(path, O_RDONLY | O_CLOEXEC)
                if file >= 0 {
                    _ = fsync(file)
                    close(file)
                }
                continuation.resume()
            }
        }
    }

    private func place() throws {
        if mayReplace {
            // SQLite would apply a journal of the old file to the new one.
            for suffix in ["-wal", "-shm", "-journal"] { _ = unlink(path + suffix) }
            guard rename(temporaryPath, path) == 0 else { throw failure("\(path) cannot be created: \(Self.reason)") }
            return
        }
        // Unlike rename, link never replaces a file that was created meanwhile. Some file systems have no links.
        if link(temporaryPath, path) == 0 {
            _ = unlink(temporaryPath)
        } else if errno == EEXIST || Self.exists(path) {
            throw Self.taken(path, operation)
        } else {
            guard rename(temporaryPath, path) == 0 else { throw failure("\(path) cannot be created: \(Self.reason)") }
        }
    }

    /// An error with this file's name if SQLite could not write it; nil for other errors.
    package func writingFailure(_ error: DatabaseError) -> AnnalsError? {
        guard Self.writingFailures.contains(error.extendedResultCode) else { return nil }
        return AnnalsError(
            .cannotCreate, operation: operation, "\(path) cannot be written: \(error.message ?? "disk I/O error")",
            hint: "Check the disk, and the limit for the size of a file", underlying: error)
    }

    /// The same, also for an error on opening. Use it only if no other file can be missing.
    package func failure(_ error: DatabaseError) -> AnnalsError? {
        guard error.resultCode == .SQLITE_CANTOPEN else { return writingFailure(error) }
        return AnnalsError(
            .cannotCreate, operation: operation, "\(path) cannot be created", hint: "Check the folder's permissions", underlying: error)
    }

    private static let writingFailures: [ResultCode] = [.SQLITE_IOERR_WRITE, .SQLITE_IOERR_TRUNCATE, .SQLITE_IOERR_FSYNC]

    /// Removes the temporary file.
    package func discard() {
        for suffix in Self.suffixes.dropLast() { _ = unlink(temporaryPath + suffix) }
        unlock()
    }

    private func unlock() {
        guard lock >= 0 else { return }
        _ = unlink(temporaryPath + Self.lockSuffix)
        close(lock)
    }

    private func synchronize(_ fileOrFolder: String) throws {
        let file = open(fileOrFolder, O_RDONLY)
        guard file >= 0 else { throw failure("\(path) cannot be created: \(Self.reason)") }
        defer { close(file) }
        guard fsync(file) == 0 else { throw failure("\(path) cannot be written: \(Self.reason)") }
    }

    /// The error for a file that exists and must not be replaced.
    package static func taken(_ path: String, _ operation: String) -> AnnalsError {
        AnnalsError(
            .cannotCreate, operation: operation, "\(path) already exists", hint: "Choose another name, or pass force: true",
            commandHint: "Choose another name, or use --force")
    }

    private func failure(_ message: String) -> AnnalsError { Self.failure(operation, message) }

    private static func failure(_ operation: String, _ message: String, hint: String? = nil) -> AnnalsError {
        AnnalsError(.cannotCreate, operation: operation, message, hint: hint)
    }

    private static var reason: String { String(cString: strerror(errno)) }

    /// Also true for a symbolic link to a missing file.
    package static func exists(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    private static func isSameFile(_ left: String, _ right: String) -> Bool {
        var a = stat()
        var b = stat()
        guard stat(left, &a) == 0, stat(right, &b) == 0 else { return false }
        return a.st_dev == b.st_dev && a.st_ino == b.st_ino
    }
}
