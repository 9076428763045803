import Foundation

#if os(Linux)
    import Glibc

    /// The system's reports that a database file or one of its companions was written (inotify).
    ///
    /// Writing is watched on the files themselves, so that whoever else writes in the folder wakes nobody. The -wal file
    /// goes with the last connection and the -journal with each commit, so the folder is watched for files that come and
    /// go, and one that came is watched from then on.
    final class FileReports: Sendable {
        /// Because Dispatch lets its sources be cancelled from any thread, which is all that happens to it after `init`.
        nonisolated(unsafe) private let source: any DispatchSourceRead

        /// nil when the system gives no more watches. `report` is called on a queue of its own, more than once for a
        /// commit.
        init?(databasePath: String, report: @escaping @Sendable () -> Void) {
            guard let files = WatchedFiles(databasePath: databasePath) else { return nil }
            source = DispatchSource.makeReadSource(fileDescriptor: files.descriptor, queue: DispatchQueue(label: "annals.watch"))
            source.setEventHandler { if files.drain() { report() } }
            source.setCancelHandler { files.end() }
            source.activate()
        }

        deinit {
            source.cancel()
        }
    }

    /// What one inotify descriptor watches for a database.
    struct WatchedFiles: Sendable {
        let descriptor: Int32
        private let folder: String
        /// The last components of the database's path and its companions'.
        private let names: [String]
        private let nameBytes: Set<[UInt8]>

        private static let bufferBytes = 16 << 10
        /// struct inotify_event: wd, mask, cookie and len of 32 bits each, then len bytes of name, padded with zeros.
        private static let headBytes = 16

        /// nil when the system gives no more watches, or the folder cannot be watched.
        init?(databasePath: String) {
            let database = URL(fileURLWithPath: databasePath).resolvingSymlinksInPath()
            folder = database.deletingLastPathComponent().path
            names = ["", "-wal", "-journal"].map { database.lastPathComponent + $0 }
            nameBytes = Set(names.map { Array($0.utf8) })
            descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
            guard descriptor >= 0 else { return nil }
            guard inotify_add_watch(descriptor, folder, UInt32(IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM)) >= 0 else {
                end()
                return nil
            }
            watchFiles()
        }

        func end() {
            close(descriptor)
        }

        /// Watches those that are there; asking twice changes nothing.
        private func watchFiles() {
            for name in names { inotify_add_watch(descriptor, "\(folder)/\(name)", UInt32(IN_MODIFY)) }
        }

        /// Takes all reports that wait; whether one was about the database. Reports that were lost count as well.
        func drain() -> Bool {
            var isMet = false
            var hasNewFiles = false
            var buffer = [UInt8](repeating: 0, count: Self.bufferBytes)
            while true {
                let count = read(descriptor, &buffer, buffer.count)
                guard count > 0 else { break }
                buffer.withUnsafeBytes { bytes in
                    var start = 0
                    while start + Self.headBytes <= count {
                        let mask = bytes.loadUnaligned(fromByteOffset: start + 4, as: UInt32.self)
                        let length = Int(bytes.loadUnaligned(fromByteOffset: start + 12, as: UInt32.self))
                        let end = min(start + Self.headBytes + length, count)
                        let name = bytes[(start + Self.headBytes)..<end].prefix { $0 != 0 }
                        if mask & UInt32(IN_MODIFY | IN_Q_OVERFLOW) != 0 {
                            isMet = true
                        } else if nameBytes.contains(Array(name)) {
                            isMet = true
                            hasNewFiles = true
                        }
                        start = end
                    }
                }
            }
            if hasNewFiles { watchFiles() }
            return isMet
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
