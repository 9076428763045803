import AnnalsCore
import Foundation

/// A folder for temporary files, on the disk of the result. Only its owner can read it.
///
/// The process that creates a folder holds a lock in it, and the lock ends with the process. So the folder of a killed
/// program can be distinguished from one in use. The next program in the same place removes it: at once, or after a day
/// if it has a packed snapshot and a noted purpose (`WorkFolder+Keeping`).
struct WorkFolder: Sendable {
    let path: String
    private let lock: Int32

    static let prefix = ".annals-"
    private static let nameDigits = 8
    /// No other program creates a file with this name, so a folder that has it was created by this type.
    static let lockName = "annals-work.lock"
    private static let attempts = 10

    /// - Throws: `AnnalsError.cannotCreate`.
    init(in parent: String) throws {
        Self.removeLeftovers(in: parent)
        for _ in 0..<Self.attempts {
            let path = "\(parent)/\(Self.prefix)\(ReplicaID.random().description.prefix(Self.nameDigits))"
            guard mkdir(path, 0o700) == 0 else {
                if errno == EEXIST { continue }
                break
            }
            let lock = open("\(path)/\(Self.lockName)", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            // Before it is locked, another program may remove it as unused.
            if lock >= 0, flock(lock, LOCK_EX | LOCK_NB) == 0, Self.isThere(lock) {
                self.init(path: path, lock: lock)
                return
            }
            if lock >= 0 { close(lock) }
            try? FileManager.default.removeItem(atPath: path)
        }
        throw AnnalsError(
            .cannotCreate, operation: "clone", "cannot create a file in \(parent)", hint: "Check the folder and its permissions")
    }

    private init(path: String, lock: Int32) {
        self.path = path
        self.lock = lock
    }

    /// Takes over the folder that was kept for a purpose. nil if there is none, or if it is in use.
    init?(keptIn parent: String, for purpose: String) {
        for path in Self.folders(in: parent) where Self.purpose(of: path) == purpose && Self.isWorthKeeping(path) {
            guard let lock = Self.locked(path) else { continue }
            self.init(path: path, lock: lock)
            removeAllButKept()
            return
        }
        return nil
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Removes the files in it, including the kept ones.
    func clear() {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] where name != Self.lockName {
            try? FileManager.default.removeItem(atPath: file(name))
        }
    }

    /// Removes the folder with its content.
    func remove() {
        try? FileManager.default.removeItem(atPath: path)
        close(lock)
    }

    /// Releases the folder so that another process can take it over, if it contains kept files. Returns whether it
    /// does.
    func leave() -> Bool {
        guard Self.purpose(of: path) != nil, Self.isWorthKeeping(path) else { return false }
        removeAllButKept()
        close(lock)
        return true
    }

    /// Locks a folder. nil if another program uses it.
    private static func locked(_ path: String) -> Int32? {
        let lock = open("\(path)/\(lockName)", O_RDWR | O_CLOEXEC)
        guard lock >= 0 else { return nil }
        if flock(lock, LOCK_EX | LOCK_NB) == 0, isThere(lock) { return lock }
        close(lock)
        return nil
    }

    private static func isThere(_ file: Int32) -> Bool {
        var status = stat()
        return fstat(file, &status) == 0 && status.st_nlink > 0
    }

    private static func isOwn(_ name: String) -> Bool {
        name.hasPrefix(prefix) && name.utf8.count == prefix.utf8.count + nameDigits
            && name.dropFirst(prefix.count).allSatisfy { $0.isHexDigit && $0.isASCII }
    }

    static func folders(in parent: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []).filter(isOwn).map { "\(parent)/\($0)" }
    }

    private static func removeLeftovers(in parent: String) {
        for path in folders(in: parent) {
            guard let lock = locked(path) else { continue }
            if purpose(of: path) == nil || !isWorthKeeping(path) { try? FileManager.default.removeItem(atPath: path) }
            close(lock)
        }
    }
}
