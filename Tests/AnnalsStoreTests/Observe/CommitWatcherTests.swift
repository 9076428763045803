import AnnalsCore
import AnnalsStore
import Foundation
import GRDB
import Synchronization
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

@Suite("Watching a store for commits", .timeLimit(.minutes(20)))
struct CommitWatcherTests {
    /// A database in a folder of its own, and the `sqlite3` shell as the other program.
    private final class Place {
        let folder = FileManager.default.temporaryDirectory.path + "/annals-watch-\(UUID())"
        var path: String { folder + "/shop.db" }

        init(_ mode: String = "delete") throws {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            try shell("PRAGMA journal_mode = \(mode); CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);")
        }

        deinit { try? FileManager.default.removeItem(atPath: folder) }

        func shell(_ sql: String) throws {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["sqlite3", "-bail", path, ".timeout 20000", sql]
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            try #require(process.terminationStatus == 0)
        }
    }

    /// Only the system's reports count: the poll would come after the end of the test.
    private static let reportsAlone = CommitWatcher.Timing(
        rechecks: CommitWatcher.Timing.system.rechecks, poll: .seconds(3600), pollAlone: .seconds(3600),
        pause: CommitWatcher.Timing.system.pause)

    @Test("another process's commit is told of by the system's report", arguments: ["wal", "delete", "truncate", "persist"])
    func report(_ mode: String) async throws {
        let place = try Place(mode)
        let watcher = try CommitWatcher(path: place.path, timing: Self.reportsAlone)
        for number in 1...5 {
            // The first time, the watcher waits already, or finds the commit when it begins to wait.
            async let notice: Void = watcher.next()
            try place.shell("INSERT INTO t (v) VALUES ('\(number)');")
            try await notice
        }
    }

    @Test("where nothing is reported the poll finds the commit")
    func poll() async throws {
        let place = try Place()
        let watcher = try CommitWatcher(
            path: place.path, timing: .init(rechecks: [], poll: .seconds(3600), pollAlone: .zero, pause: { _ in await Task.yield() }),
            hearsReports: false)
        async let notice: Void = watcher.next()
        try place.shell("INSERT INTO t (v) VALUES ('x');")
        try await notice
    }

    @Test("without a commit there is no notice, however often it looks")
    func quiet() async throws {
        let place = try Place()
        let looks = Mutex(0)
        struct Enough: Error {}
        let watcher = try CommitWatcher(
            path: place.path,
            timing: .init(rechecks: [], poll: .zero, pollAlone: .milliseconds(1)) { _ in
                if looks.withLock({
                    $0 += 1
                    return $0 > 100
                }) {
                    throw Enough()
                }
            }, hearsReports: false)
        try place.shell("SELECT count(*) FROM t;")
        await #expect(throws: Enough.self) { try await watcher.next() }
    }

    @Test("commits that come close together are told of once")
    func coalesced() async throws {
        let place = try Place("wal")
        let looks = Mutex(0)
        struct Enough: Error {}
        let watcher = try CommitWatcher(
            path: place.path,
            timing: .init(rechecks: [], poll: .zero, pollAlone: .zero) { _ in
                if looks.withLock({
                    $0 += 1
                    return $0 > 20
                }) {
                    throw Enough()
                }
            }, hearsReports: false)
        for number in 1...5 { try place.shell("INSERT INTO t (v) VALUES ('\(number)');") }
        try await watcher.next()
        await #expect(throws: Enough.self) { try await watcher.next() }
    }

    #if os(Linux)
        @Test("writing to other files of the folder is not reported, writing to the database's own is", arguments: ["wal", "delete"])
        func otherFiles(_ mode: String) throws {
            let place = try Place(mode)
            var files = try #require(Inotify())
            defer { close(files.descriptor) }
            #expect(files.watch(URL(fileURLWithPath: place.path), as: 1) {})
            for number in 1...50 { try Data("\(number)".utf8).write(to: URL(fileURLWithPath: place.folder + "/other.log")) }
            #expect(files.drain().isEmpty)
            // The second commit finds files that the first one created and deleted.
            for _ in 1...2 {
                try place.shell("INSERT INTO t (v) VALUES ('x');")
                #expect(files.drain().count == 1)
                #expect(files.drain().isEmpty)
            }
            files.unwatch(1)
            #expect(files.isIdle)
        }

        @Test("databases of one folder are told apart, also one that is watched twice, over one descriptor")
        func oneDescriptor() throws {
            let place = try Place("delete")
            let other = "\(place.folder)/other.db"
            let queue = try DatabaseQueue(path: other)
            try queue.write { db in try db.execute(sql: "CREATE TABLE t(v TEXT)") }
            var files = try #require(Inotify())
            defer { close(files.descriptor) }
            let told = Mutex<[Int]>([])
            func watch(_ path: String, _ id: Int) -> Bool {
                files.watch(URL(fileURLWithPath: path), as: id) { told.withLock { $0.append(id) } }
            }
            #expect(watch(place.path, 1) && watch(other, 2) && watch(place.path, 3))
            func reports() -> [Int] {
                for report in files.drain() { report() }
                return told.withLock { ids in
                    defer { ids = [] }
                    return ids.sorted()
                }
            }
            try place.shell("INSERT INTO t (v) VALUES ('x');")
            #expect(reports() == [1, 3])
            try queue.write { db in try db.execute(sql: "INSERT INTO t VALUES('x')") }
            #expect(reports() == [2])
            files.unwatch(1)
            try place.shell("INSERT INTO t (v) VALUES ('x');")
            #expect(reports() == [3])
            files.unwatch(3)
            try place.shell("INSERT INTO t (v) VALUES ('x');")
            try queue.write { db in try db.execute(sql: "INSERT INTO t VALUES('x')") }
            #expect(reports() == [2])
        }

        @Test("many watchers take one descriptor for the system's reports, and the last gives it back")
        func sharedDescriptor() throws {
            let place = try Place("wal")
            func descriptors() throws -> Int {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter { name in
                    (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")) == "anon_inode:inotify"
                }.count
            }
            // Other tests of this process watch files with the descriptor of the process.
            let watches = FileWatches()
            let before = try descriptors()
            var reports = (0..<40).compactMap { _ in FileReports(databasePath: place.path, watches: watches) {} }
            #expect(reports.count == 40)
            #expect(try descriptors() <= before + 2)
            reports = []
            #expect(FileReports(databasePath: "\(place.folder)/none/at.db", watches: watches) {} == nil)
        }
    #endif

    @Test("cancellation ends the waiting")
    func cancellation() async throws {
        let place = try Place()
        let watcher = try CommitWatcher(path: place.path, timing: Self.reportsAlone)
        let waiting = Task { try await watcher.next() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }

    @Test("a signal raised before anyone waits is seen, and seen once")
    func signal() async throws {
        let signal = Signal()
        signal.raise()
        signal.raise()
        #expect(try await signal.wait())
        let second = Task { try await signal.wait() }
        second.cancel()
        await #expect(throws: CancellationError.self) { try await second.value }
    }

    @Test("what is no database cannot be watched")
    func noDatabase() throws {
        #expect { try CommitWatcher(path: "/nowhere/at/all.db") } throws: { ($0 as? AnnalsError)?.code == .fileNotFound }
    }

    @Test("opening a store or a watcher takes no lock away from a store that is open: the -wal file stays")
    func locksStay() async throws {
        let place = try Place("wal")
        let store = try Store(path: place.path)
        try await store.track(.all)
        _ = try Store(path: place.path)
        _ = try CommitWatcher(path: place.path)
        // A program that finds no other connection writes the -wal file back and deletes it when it ends.
        try place.shell("INSERT INTO t (v) VALUES ('elsewhere');")
        #expect(FileManager.default.fileExists(atPath: place.path + "-wal"))
        try await store.write { db in try db.execute(sql: "INSERT INTO t (v) VALUES ('here')") }
        try place.shell("UPDATE t SET v = v || '!';")
        let values = try await store.read { db in try String.fetchAll(db, sql: "SELECT v FROM t ORDER BY id") }
        #expect(values == ["elsewhere!", "here!"])
    }
}
