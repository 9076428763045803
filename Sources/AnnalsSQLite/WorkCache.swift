import Foundation
package import GRDB
import CAnnalsSQLite
import Synchronization

/// The page cache of a connection while it works on many rows: applies entries, rebases, replays, compares or verifies.
///
/// Rows with text keys lie at random places of the file. If their pages do not fit into the cache, SQLite reads and writes each page many
/// times. SQLite allocates a page when it needs it, so a small file takes little memory whatever the limit is.
package enum WorkCache {
    /// The cache of each piece of work, in kibibytes.
    package static let least = 4 << 10
    /// The cache of one piece of work in a process. All others have `least`, so an agent with many stores does not multiply it.
    static let most = 256 << 10
    /// The part of the free memory that the cache may take.
    static let share = 64

    private static let isTaken = Mutex(false)

    /// Calls `body` with the size of the cache in kibibytes.
    ///
    /// The environment variable `ANNALS_WORK_CACHE` limits it, in mebibytes. Programs that must stay small set it to 4.
    package static func with<T>(_ body: (_ kibibytes: Int) throws -> T) rethrows -> T {
        let isFree = isTaken.withLock { isTaken in
            defer { isTaken = true }
            return !isTaken
        }
        guard isFree else { return try body(least) }
        defer { isTaken.withLock { $0 = false } }
        return try body(limit)
    }

    /// Calls `release`, which makes the caches of a connection small or closes its other files, and gives the memory back to the system if it
    /// is much. By itself the C library keeps it for later.
    package static func giveBack(_ db: Database, _ release: () throws -> Void) rethrows {
        let isLarge = annals_sqlite_cache_bytes(db.sqliteConnection) > keptBytes
        defer { if isLarge { annals_give_back_memory() } }
        try release()
    }

    private static let keptBytes = 16 << 20

    /// The value of `PRAGMA cache_size` for work. A program that chose a larger cache, or a number of pages, keeps it.
    ///
    /// - Parameter found: the value before: a number of pages, or a negative number of kibibytes.
    package static func pragma(_ found: Int, _ kibibytes: Int) -> Int { found > 0 ? found : min(found, -kibibytes) }

    /// Gives a connection's file this cache while `body` runs.
    package static func with<T>(on db: Database, _ body: () throws -> T) throws -> T {
        let found = try Int.fetchOne(db, sql: "PRAGMA main.cache_size") ?? 0
        return try with { kibibytes in
            try db.execute(sql: "PRAGMA main.cache_size = \(pragma(found, kibibytes))")
            defer { giveBack(db) { try? db.execute(sql: "PRAGMA main.cache_size = \(found)") } }
            return try body()
        }
    }

    private static let limit = size(
        spare: spareBytes(), set: ProcessInfo.processInfo.environment["ANNALS_WORK_CACHE"].flatMap { Int($0) })

    /// - Parameters:
    ///   - spare: The free memory of the machine in bytes; nil if it is not known.
    ///   - set: The limit in mebibytes that the environment sets.
    static func size(spare: Int64?, set: Int?) -> Int {
        let possible = spare.map { Int(clamping: $0 / 1_024 / Int64(share)) } ?? least
        return max(least, min(possible, most, set.map { min(max(0, $0), most) << 10 } ?? most))
    }

    /// What the machine, or the process's control group on Linux, has free.
    private static func spareBytes() -> Int64? {
        #if os(Linux)
            func text(_ path: String) -> String? { try? String(contentsOfFile: path, encoding: .utf8) }
            func number(_ text: some StringProtocol) -> Int64? { Int64(String(text.filter(\.isNumber))) }
            let line = text("/proc/meminfo")?.split(separator: "\n").first { $0.hasPrefix("MemAvailable:") }
            let machine = line.flatMap(number).map { $0 * 1_024 }
            let group = "/sys/fs/cgroup/memory"
            let limit = text("\(group).max").flatMap(number)
            let used = text("\(group).current").flatMap(number) ?? 0
            return [machine, limit.map { max(0, $0 - used) }].compactMap { $0 }.min()
        #else
            return Int64(clamping: ProcessInfo.processInfo.physicalMemory / 4)
        #endif
    }
}
