import Foundation
import Synchronization

/// The system's reports that a database file or its -wal or -journal file was written.
final class FileReports: Sendable {
    private let watches: FileWatches
    private let id: Int

    /// nil if the system reports nothing, or gives no more watches.
    ///
    /// - Parameters:
    ///   - databasePath: the database's file.
    ///   - watches: the watches of the process; a test has its own.
    ///   - report: called on a queue of the watches, possibly several times for a commit. It must not block.
    init?(databasePath: String, watches: FileWatches = .ofProcess, report: @escaping @Sendable () -> Void) {
        guard let id = watches.add(databasePath, report) else { return nil }
        self.watches = watches
        self.id = id
    }

    deinit {
        watches.remove(id)
    }
}

#if os(Linux)
    import Glibc

    /// One inotify descriptor that watches all databases of a process.
    ///
    /// It watches writes to the files themselves, so that other writes in the folder wake no watcher. The -wal file is deleted with
    /// the last connection, and the -journal file with each commit. So it watches the folder for created and deleted files, and
    /// watches a created file from then on. It closes the descriptor when no database is watched.
    final class FileWatches: Sendable {
        package static let ofProcess = FileWatches()

        private let state = Mutex(State())
        private let queue = DispatchQueue(label: "annals.watch")

        init() {}

        /// Starts a watch; nil if the system gives no more watches, or if the folder cannot be watched.
        package func add(_ databasePath: String, _ report: @escaping @Sendable () -> Void) -> Int? {
            let database = URL(fileURLWithPath: databasePath).resolvingSymlinksInPath()
            return state.withLock { state in
                if state.source == nil, !open(&state) { return nil }
                let id = state.next
                state.next += 1
                guard state.inotify?.watch(database, as: id, report) ?? false else {
                    closeIfIdle(&state)
                    return nil
                }
                return id
            }
        }

        package func remove(_ id: Int) {
            state.withLock { state in
                state.inotify?.unwatch(id)
                closeIfIdle(&state)
            }
        }

        private func open(_ state: inout State) -> Bool {
            guard let inotify = Inotify() else { return false }
            let descriptor = inotify.descriptor
            state.inotify = inotify
            let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
            source.setEventHandler { [weak self] in self?.deliver(from: descriptor) }
            source.setCancelHandler { close(descriptor) }
            source.activate()
            state.source = source
            return true
        }

        private func closeIfIdle(_ state: inout State) {
            guard state.inotify?.isIdle ?? false else { return }
            state.source?.cancel()
            (state.source, state.inotify) = (nil, nil)
        }

        /// Reads all waiting reports and passes them on.
        private func deliver(from descriptor: Int32) {
            let reports = state.withLock { state in
                // The descriptor may have been closed meanwhile, and its number may be in use for something else.
                state.inotify?.descriptor == descriptor ? state.inotify?.drain() ?? [] : []
            }
            for report in reports { report() }
        }

        private struct State {
            var source: (any DispatchSourceRead)?
            var inotify: Inotify?
            var next = 0
        }
    }

    /// Maps the watches of one inotify descriptor to databases.
    struct Inotify: Sendable {
        private struct Database: Sendable {
            var folder: String
            /// The file names of the database, its -wal file and its -journal file.
            var names: [String]
            var folderWatch: Int32
            var fileWatches: Set<Int32> = []
            var report: @Sendable () -> Void
        }

        package let descriptor: Int32
        private var databases: [Int: Database] = [:]
        /// The system gives one watch for each file or folder, however often it is requested.
        private var files: [Int32: Set<Int>] = [:]
        private var folders: [Int32: [[UInt8]: Set<Int>]] = [:]

        private static let bufferBytes = 16 << 10
        /// struct inotify_event: wd, mask, cookie and len of 32 bits each, then len bytes of name, padded with zeros.
        private static let headBytes = 16

        /// nil if the system gives no descriptor.
        init?() {
            descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
            guard descriptor >= 0 else { return nil }
        }

        var isIdle: Bool { databases.isEmpty }

        package mutating func watch(_ database: URL, as id: Int, _ report: @escaping @Sendable () -> Void) -> Bool {
            let folder = database.deletingLastPathComponent().path
            let names = ["", "-wal", "-journal"].map { database.lastPathComponent + $0 }
            let watch = inotify_add_watch(descriptor, folder, UInt32(IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM))
            guard watch >= 0 else { return false }
            databases[id] = Database(folder: folder, names: names, folderWatch: watch, report: report)
            for name in names { folders[watch, default: [:]][Array(name.utf8), default: []].insert(id) }
            watchFiles(of: id)
            return true
        }

        mutating func unwatch(_ id: Int) {
            guard let database = databases.removeValue(forKey: id) else { return }
            for watch in database.fileWatches {
                files[watch]?.remove(id)
                guard files[watch]?.isEmpty ?? false else { continue }
                files[watch] = nil
                inotify_rm_watch(descriptor, watch)
            }
            let watch = database.folderWatch
            for name in database.names.map({ Array($0.utf8) }) {
                folders[watch]?[name]?.remove(id)
                if folders[watch]?[name]?.isEmpty ?? false { folders[watch]?[name] = nil }
            }
            guard folders[watch]?.isEmpty ?? false else { return }
            folders[watch] = nil
            inotify_rm_watch(descriptor, watch)
        }

        /// Watches the files that exist. Watching a file twice changes nothing.
        private mutating func watchFiles(of id: Int) {
            guard let database = databases[id] else { return }
            for name in database.names {
                let watch = inotify_add_watch(descriptor, "\(database.folder)/\(name)", UInt32(IN_MODIFY))
                guard watch >= 0 else { continue }
                files[watch, default: []].insert(id)
                databases[id]?.fileWatches.insert(watch)
            }
        }

        /// Reads all waiting reports, and returns the callbacks of their databases. If the system lost reports, it returns all
        /// callbacks.
        mutating func drain() -> [@Sendable () -> Void] {
            var met: Set<Int> = []
            var buffer = [UInt8](repeating: 0, count: Self.bufferBytes)
            while true {
                let count = read(descriptor, &buffer, buffer.count)
                guard count > 0 else { break }
                buffer.withUnsafeBytes { bytes in
                    var start = 0
                    while start + Self.headBytes <= count {
                        let watch = bytes.loadUnaligned(fromByteOffset: start, as: Int32.self)
                        let mask = bytes.loadUnaligned(fromByteOffset: start + 4, as: UInt32.self)
                        let length = Int(bytes.loadUnaligned(fromByteOffset: start + 12, as: UInt32.self))
                        let end = min(start + Self.headBytes + length, count)
                        let name = bytes[(start + Self.headBytes)..<end].prefix { $0 != 0 }
                        met.formUnion(take(watch, mask, Array(name)))
                        start = end
                    }
                }
            }
            return met.compactMap { databases[$0]?.report }
        }

        /// The databases that one report concerns.
        private mutating func take(_ watch: Int32, _ mask: UInt32, _ name: [UInt8]) -> Set<Int> {
            if mask & UInt32(IN_Q_OVERFLOW) != 0 {
                for id in databases.keys { watchFiles(of: id) }
                return Set(databases.keys)
            }
            if mask & UInt32(IN_IGNORED) != 0 {
                // The file was deleted, and its watch with it.
                for id in files.removeValue(forKey: watch) ?? [] { databases[id]?.fileWatches.remove(watch) }
                return []
            }
            if mask & UInt32(IN_MODIFY) != 0 { return files[watch] ?? [] }
            let ids = folders[watch]?[name] ?? []
            for id in ids { watchFiles(of: id) }
            return ids
        }
    }
#else
    /// This system reports nothing, so the watcher polls.
    final class FileWatches: Sendable {
        package static let ofProcess = FileWatches()

        package func add(_ databasePath: String, _ report: @escaping @Sendable () -> Void) -> Int? { nil }
        package func remove(_ id: Int) {}
    }
#endif
