import AnnalsCore
import Foundation

/// A folder for files on their way, on the disk where the result will be.
///
/// Whoever makes one holds a lock in it, which ends with the process. So what a killed program left is told from what
/// another is at work in, and the next one in the same place removes it.
struct WorkFolder {
    let path: String
    private let lock: Int32

    static let prefix = ".annals-"
    private static let nameDigits = 8
    /// No other program makes a file of that name, so a folder that has it is one of these.
    private static let lockName = "annals-work.lock"
    private static let attempts = 10

    /// - Throws: `AnnalsError.cannotCreate`.
    init(in parent: String) throws {
        Self.removeLeftovers(in: parent)
        for _ in 0..<Self.attempts {
            let path = "\(parent)/\(Self.prefix)\(ReplicaID.random().description.prefix(Self.nameDigits))"
            guard mkdir(path, 0o777) == 0 else {
                if errno == EEXIST { continue }
                break
            }
            let lock = open("\(path)/\(Self.lockName)", O_RDWR | O_CREAT | O_CLOEXEC, 0o666)
            // Until it is locked another program may take it for a leftover.
            if lock >= 0, flock(lock, LOCK_EX | LOCK_NB) == 0, Self.isThere(lock) {
                self.path = path
                self.lock = lock
                return
            }
            if lock >= 0 { close(lock) }
            try? FileManager.default.removeItem(atPath: path)
        }
        throw AnnalsError(
            .cannotCreate, operation: "clone", "no file can be made in \(parent)", hint: "Check the folder and its permissions")
    }

    /// Removes it with all that is in it.
    func remove() {
        try? FileManager.default.removeItem(atPath: path)
        close(lock)
    }

    private static func isThere(_ file: Int32) -> Bool {
        var status = stat()
        return fstat(file, &status) == 0 && status.st_nlink > 0
    }

    private static func isOwn(_ name: String) -> Bool {
        name.hasPrefix(prefix) && name.utf8.count == prefix.utf8.count + nameDigits
            && name.dropFirst(prefix.count).allSatisfy { $0.isHexDigit && $0.isASCII }
    }

    private static func removeLeftovers(in parent: String) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []
        for name in names where isOwn(name) {
            let lock = open("\(parent)/\(name)/\(lockName)", O_RDWR | O_CLOEXEC)
            guard lock >= 0 else { continue }
            if flock(lock, LOCK_EX | LOCK_NB) == 0 { try? FileManager.default.removeItem(atPath: "\(parent)/\(name)") }
            close(lock)
        }
    }
}
