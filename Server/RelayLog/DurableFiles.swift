internal import AnnalsCore
internal import Foundation
package import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// A failed system call, with its errno.
struct SystemCallError: Error, CustomStringConvertible {
    let call: String
    let number: Int32

    init(_ call: String, number: Int32 = errno) {
        self.call = call
        self.number = number
    }

    var isDiskFull: Bool { number == ENOSPC || number == EDQUOT }
    var description: String { "\(call): \(String(cString: strerror(number)))" }
}

/// Files and directories that must survive a loss of power.
///
/// The fsync of a file does not make its name durable: the directory needs its own fsync.
package enum DurableFiles {
    /// An operation on a file or folder.
    package enum Call: Sendable {
        case create(String)
        /// Writes at the end of the file.
        case append(String, [UInt8])
        case synchronize(String)
        case rename(String, to: String)
        case remove(String)
        case createDirectory(String)
        case synchronizeDirectory(String)
    }

    /// Called after each successful operation, for tests that simulate a loss of power; nil otherwise.
    package static let observer = Mutex<(@Sendable (Call) -> Void)?>(nil)

    fileprivate static func note(_ call: @autoclosure () -> Call) {
        guard let observer = observer.withLock({ $0 }) else { return }
        observer(call())
    }

    /// Creates the directory and its missing parents with access for their owner only, and makes their names durable.
    static func createDirectory(_ path: String) throws {
        var missing: [String] = []
        var current = (path as NSString).standardizingPath
        while !current.isEmpty, current != "/", !FileManager.default.fileExists(atPath: current) {
            missing.append(current)
            current = parent(of: current)
        }
        for directory in missing.reversed() {
            guard mkdir(directory, 0o700) == 0 || errno == EEXIST else { throw SystemCallError("mkdir") }
            note(.createDirectory(directory))
            let parent = parent(of: directory)
            try synchronizeDirectory(parent.isEmpty ? "." : parent)
        }
    }

    /// The part before the last slash: empty for a name without a slash, `/` for an item of the root folder.
    ///
    /// Foundation's function traps on Linux if the path is one character.
    static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "" }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// Creates an empty file that only its owner can read; returns false if the file exists.
    static func createIfMissing(_ path: String) throws -> Bool {
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            guard errno == EEXIST else { throw SystemCallError("create") }
            return false
        }
        systemClose(descriptor)
        note(.create(path))
        return true
    }

    static func synchronizeDirectory(_ path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemCallError("open directory") }
        defer { systemClose(descriptor) }
        guard fsync(descriptor) == 0 else { throw SystemCallError("fsync directory") }
        note(.synchronizeDirectory(path))
    }
}

extension DurableFiles {
    /// Renames a file atomically: readers find the old or the new content.
    static func rename(_ path: String, to other: String) throws {
        guard Foundation.rename(path, other) == 0 else { throw SystemCallError("rename") }
        note(.rename(path, to: other))
    }

    /// Gives a file, or a folder with everything in it, to the owner of another file. Only root can do that, so that it does
    /// nothing for other users.
    ///
    /// - Returns: false if it belongs to root now and should not.
    static func give(_ path: String, toOwnerOf model: String) -> Bool {
        guard geteuid() == 0 else { return true }
        var owner = stat()
        guard stat(model, &owner) == 0 else { return false }
        let inner = (try? FileManager.default.subpathsOfDirectory(atPath: path)) ?? []
        // The folder is the last one: until then only root can reach what is in it.
        let paths: [String] = inner.map { "\(path)/\($0)" } + [path]
        return paths.allSatisfy { lchown($0, owner.st_uid, owner.st_gid) == 0 }
    }

    /// Removes a file if it exists.
    static func remove(_ path: String) {
        if unlink(path) == 0 { note(.remove(path)) }
    }
}

/// An open file. It is closed when it is deallocated.
final class DurableFile: Sendable {
    let path: String
    private let descriptor: Mutex<Int32>

    /// Creates a file that only its owner can read.
    init(creating path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SystemCallError("create") }
        self.path = path
        self.descriptor = Mutex(descriptor)
        DurableFiles.note(.create(path))
    }

    init(reading path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemCallError("open") }
        self.path = path
        self.descriptor = Mutex(descriptor)
    }

    deinit { close() }

    func write(_ bytes: UnsafeRawBufferPointer) throws {
        try descriptor.withLock { descriptor in
            var rest = bytes
            while let start = rest.baseAddress, !rest.isEmpty {
                let count = systemWrite(descriptor, start, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw SystemCallError("write") }
                DurableFiles.note(.append(path, Array(rest.prefix(count))))
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
        }
    }

    func read(at offset: Int64, count: Int) throws -> [UInt8] {
        try descriptor.withLock { descriptor in
            try [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                while filled < count {
                    let start = UnsafeMutableRawPointer(buffer.baseAddress.map { $0 + filled })
                    let got = pread(descriptor, start, count - filled, off_t(offset) + off_t(filled))
                    if got < 0, errno == EINTR { continue }
                    guard got >= 0 else { throw SystemCallError("read") }
                    if got == 0 { return }
                    filled += got
                }
            }
        }
    }

    func synchronize() throws {
        try descriptor.withLock { guard fsync($0) == 0 else { throw SystemCallError("fsync") } }
        DurableFiles.note(.synchronize(path))
    }

    func close() {
        descriptor.withLock { descriptor in
            if descriptor >= 0 { systemClose(descriptor) }
            descriptor = -1
        }
    }
}

private func systemWrite(_ descriptor: Int32, _ start: UnsafeRawPointer, _ count: Int) -> Int {
    write(descriptor, start, count)
}

private func systemClose(_ descriptor: Int32) {
    close(descriptor)
}

/// An exclusive lock on a file, held until it is released, so that two relays cannot serve one data directory.
package final class DirectoryLock: Sendable {
    private let descriptor: Mutex<Int32>

    /// Throws `SystemCallError` with EWOULDBLOCK if another process holds the lock.
    init(path: String) throws {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SystemCallError("open lock file") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let error = SystemCallError("flock")
            systemClose(descriptor)
            throw error
        }
        self.descriptor = Mutex(descriptor)
    }

    deinit { release() }

    func release() {
        descriptor.withLock { descriptor in
            guard descriptor >= 0 else { return }
            // A child process that is about to exec still has a copy of the descriptor, so a close alone would not
            // release the lock.
            _ = flock(descriptor, LOCK_UN)
            systemClose(descriptor)
            descriptor = -1
        }
    }

    static func isHeldElsewhere(_ error: any Error) -> Bool {
        (error as? SystemCallError)?.number == EWOULDBLOCK
    }
}
