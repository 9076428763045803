import AnnalsCore
import AnnalsSQLite
import Foundation
import GRDB

/// Tells of commits to a SQLite file by any process, this one included.
///
///     let watcher = try CommitWatcher(path: "shop.db")
///     for try await _ in watcher { … }
///
/// Two things work together. `PRAGMA data_version` on a connection of its own says for certain whether another
/// connection has committed, and costs two microseconds. When to ask is told by the system, which reports that the
/// file, its -wal or its -journal was written. That report comes before the commit is visible, so the question is
/// repeated, often at first and then ever more rarely. A slow poll finds what no report told of; where the system reports nothing, a quicker
/// poll is all there is.
///
/// Commits that come close together are told of once. It has one listener at a time.
package final class CommitWatcher: Sendable {
    /// When to look, so that tests need not wait.
    package struct Timing: Sendable {
        /// The pauses between looks after a report.
        package var rechecks: [Duration]
        /// Between looks when nothing is reported, while reports are to be had.
        package var poll: Duration
        /// The same where the system reports nothing.
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

        /// Half a second of looks after a report covers a commit whose fsync is slow; the poll finds a slower one. Most are there
        /// within two milliseconds, so until then it looks often.
        package static let system = Timing(
            rechecks: Array(repeating: .microseconds(250), count: 8) + (0..<10).map { .microseconds(500 << $0) }, poll: .seconds(2),
            pollAlone: .milliseconds(100),
            pause: { try await ContinuousClock().sleep(for: $0) })
    }

    private let version: DataVersion
    private let reports: FileReports?
    private let signal = Signal()
    private let timing: Timing

    /// - Throws: `AnnalsError` when the file cannot be opened.
    package convenience init(path: String, timing: Timing = .system) throws {
        try self.init(path: path, timing: timing, hearsReports: true)
    }

    /// - Parameter hearsReports: false leaves only the poll, as on systems that report nothing.
    package init(path: String, timing: Timing, hearsReports: Bool) throws {
        self.timing = timing
        do {
            version = try DataVersion(path: path)
        } catch {
            throw StoreError.translate(error, operation: "watch", path: path)
        }
        let signal = signal
        reports = hearsReports ? FileReports(databasePath: path) { signal.raise() } : nil
    }

    /// Returns when something was committed since the last return, or since the watcher was made.
    ///
    /// - Throws: `CancellationError`.
    package func next() async throws {
        while true {
            try Task.checkCancellation()
            if await version.hasMoved() { return }
            guard try await reportOrPoll() else { continue }
            for pause in timing.rechecks {
                if await version.hasMoved() { return }
                try await timing.pause(pause)
            }
        }
    }

    /// Waits; true when there was a report.
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

/// SQLite's own answer to whether another connection has changed the file.
private actor DataVersion {
    private let connection: DatabaseQueue
    private var last: Int64

    /// The connection could write but never does: a read-only one that closes last would leave -wal and -shm behind.
    init(path: String) throws {
        try DatabaseFile.check(path)
        var configuration = GRDB.Configuration()
        configuration.label = "annals.watch"
        configuration.busyMode = BusyTimeout(.seconds(10)).busyMode
        connection = try DatabaseQueue(path: path, configuration: configuration)
        last = try connection.unsafeRead { db in
            let version = try Self.read(db)
            // From here on a lock means that someone is committing, and the next look will tell.
            try db.execute(sql: "PRAGMA busy_timeout = 0")
            return version
        }
    }

    /// Whether there was a commit since the last time this was asked. A locked or vanished file has no news.
    func hasMoved() async -> Bool {
        guard let version = try? await connection.unsafeRead({ try Self.read($0) }), version != last else { return false }
        last = version
        return true
    }

    private static func read(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "PRAGMA data_version") ?? 0
    }
}
