import Foundation

#if os(Linux)
    import Glibc

    /// The system's reports that a database file or one of its companions was written (inotify).
    ///
    /// The folder is watched and not the files: the -wal file goes with the last connection and the -journal with each
    /// commit, and reports about a folder's files come under one watch whether they existed before or not.
    final class FileReports: Sendable {
        /// Because Dispatch lets its sources be cancelled from any thread, which is all that happens to it after `init`.
        nonisolated(unsafe) private let source: any DispatchSourceRead

        /// nil when the system gives no more watches. `report` is called on a queue of its own, more than once for a commit.
        init?(databasePath: String, report: @escaping @Sendable () -> Void) {
            let url = URL(fileURLWithPath: databasePath).resolvingSymlinksInPath()
            let names = Set(["", "-wal", "-journal"].map { Array((url.lastPathComponent + $0).utf8) })
            let descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
            guard descriptor >= 0 else { return nil }
            let mask = UInt32(IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_TO)
            guard inotify_add_watch(descriptor, url.deletingLastPathComponent().path, mask) >= 0 else {
                close(descriptor)
                return nil
            }
            source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: DispatchQueue(label: "annals.watch"))
            source.setEventHandler {
                if Self.drain(descriptor, meets: names) { report() }
            }
            source.setCancelHandler { close(descriptor) }
            source.activate()
        }

        deinit {
            source.cancel()
        }

        private static let bufferBytes = 16 << 10

        /// Takes all reports that wait; whether one was about these names. Reports that were lost count as well.
        private static func drain(_ descriptor: Int32, meets names: Set<[UInt8]>) -> Bool {
            var isMet = false
            var buffer = [UInt8](repeating: 0, count: bufferBytes)
            while true {
                let count = read(descriptor, &buffer, buffer.count)
                guard count > 0 else { return isMet }
                // struct inotify_event: wd, mask, cookie and len of 32 bits each, then len bytes of name, padded with zeros.
                var start = 0
                buffer.withUnsafeBytes { bytes in
                    while start + 16 <= count {
                        let mask = bytes.loadUnaligned(fromByteOffset: start + 4, as: UInt32.self)
                        let length = Int(bytes.loadUnaligned(fromByteOffset: start + 12, as: UInt32.self))
                        let end = min(start + 16 + length, count)
                        let name = bytes[(start + 16)..<end].prefix { $0 != 0 }
                        if mask & UInt32(IN_Q_OVERFLOW) != 0 || names.contains(Array(name)) { isMet = true }
                        start = end
                    }
                }
            }
        }
    }
#else
    /// On this system nothing is reported, and the watcher polls.
    final class FileReports: Sendable {
        init?(databasePath: String, report: @escaping @Sendable () -> Void) {
            return nil
        }
    }
#endif
