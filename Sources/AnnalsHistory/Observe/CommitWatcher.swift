import AnnalsCore
import AnnalsSQLite
import Foundation
import GRDB
import Synchronization

/// Reports commits to a SQLite file by any process, including this one.
///
///     let watcher = try CommitWatcher(path: "shop.db")
///     for try await _ in watcher { … }
///
/// It uses two sources. `PRAGMA data_version` on a separate connection says for certain whether another connection committed, and
/// takes two microseconds. The system reports writes to the file, its -wal or its -journal, so that the watcher knows when to
/// check. Such a report comes before the commit is visible. So the check is repeated, first in short and then in longer intervals.
/// A slow poll finds commits without a report. If the system reports nothing, only a faster poll is used.
///
/// Commits in quick succession cause one report. A watcher has one listener at a time.
package final class CommitWatcher: Sendable {
    /// The intervals of checks; tests replace them so that they do not wait.
    package struct Timing: Sendable {
        /// The pauses between checks after a report.
        package var rechecks: [Duration]
        /// The pause between checks without a report, if the system reports writes.
        package var poll: Duration
        /// The same if the system reports nothing.
        package var pollAlone: Duration
        package var pause: @Sendable (Duration) async throws -> Void

        package init(
            rechecks: [Duration], poll: Duration, pollAlone: Duration, pause: @escaping @Sendable (Duration) async throws -> Void
        ) {
            self.rechecks = rechecks
            self.poll = poll
            self.pollAlone = pollAlone
            self.pause = pause
        }

        /// Half a second of checks after a report covers a commit with a slow fsync; the poll finds slower ones. Most commits are
        /// visible within two milliseconds, so the first checks are frequent.
        package static let system = Timing(
            rechecks: Array(repeating: .microseconds(250), count: 4) + (0..<10).map { .microseconds(500 << $0) }, poll: .seconds(2),
            pollAlone: .milliseconds(100),
            pause: { try await ContinuousClock().sleep(for: $0) })
    }

    private let version: DataVersion
    private let reports: FileReports?
    private let signal = Signal()
    private let timing: Timing

    /// - Throws: `AnnalsError` if the file cannot be opened.
    package convenience init(path: String, timing: Timing = .system) throws {
        try self.init(path: path, timing: timing, hearsReports: true)
    }

    /// - Parameter hearsReports: false leaves only the poll, as on systems that report nothing.
    package init(path: String, timing: Timing, hearsReports: Bool) throws {
        self.timing = timing
        do {
            version = try DataVersion(path: path)
        } catch {
            throw StoreError.thrown(error, operation: "watch", path: path)
        }
        let signal = signal
        reports = hearsReports ? FileReports(databasePath: path) { signal.raise() } : nil
    }

    /// Returns after a commit since the last return, or since the watcher was created.
    ///
    /// - Throws: `CancellationError`.
    package func next() async throws {
        while true {
            try Task.checkCancellation()
            if version.hasMoved() { return }
            guard try await reportOrPoll() else { continue }
            for pause in timing.rechecks {
                if version.hasMoved() { return }
                try await timing.pause(pause)
            }
        }
    }

    /// Waits; true if there was a report.
    private func reportOrPoll() async throws -> Bool {
        guard reports != nil else {
            try await timing.pause(timing.pollAlone)
            return false
        }
        return try await withThrowingTaskGroup(of: Bool.self) { [signal, timing] group in
            defer { group.cancelAll() }
            group.addTask { try await signal.wait() }
            group.addTask {
                try await timing.pause(timing.poll)
                return false
            }
            return try await group.next() ?? false
        }
    }
}

extension CommitWatcher: AsyncSequence {
    package struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let watcher: CommitWatcher

        package mutating func next() async throws -> Void? {
            try await watcher.next()
        }
    }

    package func makeAsyncIterator() -> AsyncIterator { AsyncIterator(watcher: self) }
}

/// Asks SQLite whether another connection has changed the file.
private final class DataVersion: Sendable {
    private let connection: DatabaseQueue
    private let last: Mutex<Int64>

    /// The connection is writable but never writes. A read-only connection that closes last would leave -wal and -shm files.
    init(path: String) throws {
        try DatabaseFile.check(path)
        var configuration = GRDB.Configuration()
        configuration.label = "annals.watch"
        configuration.busyMode = BusyTimeout(.seconds(10)).busyMode
        connection = try DatabaseQueue(path: path, configuration: configuration)
        last = Mutex(
            try connection.unsafeRead { db in
                let version = try Self.read(db)
                // From here on, a lock means that another connection is committing, and the next check finds the commit.
                try db.execute(sql: "PRAGMA busy_timeout = 0")
                return version
            })
    }

    /// Whether there was a commit since the last call. Returns false for a locked or missing file.
    ///
    /// It waits for no lock, so the thread of the caller asks.
    func hasMoved() -> Bool {
        guard let version = try? connection.unsafeRead({ try Self.read($0) }) else { return false }
        return last.withLock { last in
            defer { last = version }
            return version != last
        }
    }

    private static func read(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) ?? 0
    }
}
