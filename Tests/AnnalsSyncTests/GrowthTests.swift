import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsTesting
import Foundation
import GRDB
import Testing

/// The limit that Documentation/history.md states.
@Suite("A store whose rows are updated for ever stays within the stated bound")
struct GrowthTests {
    private static let rows = 100
    private static let noteBytes = 200
    private static let keptDays = 5
    private static let days = 40
    private static let transactionsPerDay = 20
    private static let rowsPerTransaction = 10

    /// The limit of the stored log is so low that entries are dropped from the first days on.
    private static let limits: OutboxLimits = {
        var limits = OutboxLimits()
        limits.recentLog = 16 << 10...16 << 10
        return limits
    }()

    private static let schema = """
        CREATE TABLE item(id TEXT PRIMARY KEY NOT NULL, n INT, note TEXT);
        WITH RECURSIVE number(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM number WHERE n < \(rows))
        INSERT INTO item SELECT printf('%08d', n), 0, printf('%.\(noteBytes)c', 'x') FROM number
        """

    /// The sum in the documentation: the file without history, and the transactions that the rule keeps, until it is applied the
    /// next time.
    private static func bound(rows: Int64, isWAL: Bool) -> Int64 {
        let transactions = Int64((keptDays + 1) * transactionsPerDay)
        // The key, the number and the note, before and after.
        let change = Int64(2 * (8 + 2 + noteBytes)) + 50
        let history = transactions * (200 + Int64(rowsPerTransaction) * change)
        return (rows + history + limits.recentLog.upperBound) * 5 / 4 + (isWAL ? 4 << 20 : 0) + 128 << 10
    }

    private func update(_ store: Store, _ round: Int) async throws {
        try await store.write { db in
            for place in 0..<Self.rowsPerTransaction {
                let row = (round * Self.rowsPerTransaction + place) % Self.rows + 1
                try db.execute(
                    sql: "UPDATE item SET n = n + 1, note = printf('%.\(Self.noteBytes)c', ?) WHERE id = printf('%08d', ?)",
                    arguments: [round / (Self.rows / Self.rowsPerTransaction) % 2 == 0 ? "a" : "b", row])
            }
        }
    }

    private func size(_ path: String) throws -> Int64 {
        try ["", "-wal"].reduce(0) { sum, suffix in
            guard FileManager.default.fileExists(atPath: path + suffix) else { return sum }
            return sum + (try FileManager.default.attributesOfItem(atPath: path + suffix)[.size] as? Int64 ?? 0)
        }
    }

    /// Runs the days, each with its updates and then the work of a sync, and checks the size of the file.
    private func live(_ store: Store, isWAL: Bool, endOfDay: () async throws -> Void, pass: (Duration) -> Void) async throws {
        if isWAL { try await store.setJournalMode("wal") }
        let bound = Self.bound(rows: try size(store.path), isWAL: isWAL)
        var (sizes, files): ([Int64], [Int64]) = ([], [])
        for day in 0..<Self.days {
            for number in 0..<Self.transactionsPerDay {
                try await update(store, day * Self.transactionsPerDay + number)
                pass(.seconds(86_400 / Self.transactionsPerDay))
            }
            try await endOfDay()
            sizes.append(try size(store.path))
            files.append(try await store.read { db in try Int64.fetchOne(db, sql: "PRAGMA page_count") ?? 0 })
        }
        let settled = Self.keptDays + 3
        #expect(sizes.allSatisfy { $0 <= bound }, "\(sizes) beyond \(bound)")
        #expect(files[(2 * settled)...].max() == files[settled..<(2 * settled)].max(), "\(files) pages go on growing")
        #expect(try await store.status().transactions <= (Self.keptDays + 1) * Self.transactionsPerDay)
        #expect(try await store.verify() == [])
    }

    @Test("Law 9: joined, by its syncs", arguments: [false, true])
    func joined(isWAL: Bool) async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema, outboxLimits: Self.limits)
        world.clock.advance(.milliseconds(Store.Configuration().now() - world.clock.milliseconds))
        let store = world.stores[0]
        try await store.setRetention(.days(Self.keptDays))
        try await live(store, isWAL: isWAL, endOfDay: { try await world.sync(0) }, pass: { world.clock.advance($0) })
    }

    @Test("Law 9: not joined, by `annals purge`, which applies the store's own rule", arguments: [false, true])
    func unjoined(isWAL: Bool) async throws {
        let folder = try TemporaryFolder()
        let queue = try DatabaseQueue(path: folder.file("shop.db"))
        try await queue.write { db in try db.execute(sql: Self.schema) }
        try queue.close()
        let clock = ManualClock(milliseconds: Store.Configuration().now())
        var configuration = Store.Configuration()
        configuration.now = { clock.milliseconds }
        let store = try Store(path: folder.file("shop.db"), configuration: configuration)
        try await store.track(.all)
        try await store.setRetention(.days(Self.keptDays))
        try await live(store, isWAL: isWAL, endOfDay: { try await store.purge(store.retention()) }, pass: { clock.advance($0) })
    }

    @Test("Law 9: a rule of a share alone keeps history below it")
    func share() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema, outboxLimits: Self.limits)
        world.clock.advance(.milliseconds(Store.Configuration().now() - world.clock.milliseconds))
        let store = world.stores[0]
        try await store.setRetention(.untilConsumed.whenHistoryFraction(ofStoreExceeds: 0.5))
        let start = try size(store.path)
        var sizes: [Int64] = []
        for round in 0..<400 {
            try await update(store, round)
            world.clock.advance(.seconds(7_200))
            if round % 4 == 3 { try await world.sync(0) }
            sizes.append(try size(store.path))
        }
        // History is as large as the rows, plus four transactions until the next sync.
        #expect(sizes.allSatisfy { $0 <= start * 5 / 2 + Self.limits.recentLog.upperBound * 5 / 2 + 128 << 10 }, "\(start): \(sizes)")
        #expect(sizes[200...].max() == sizes[100..<200].max(), "\(sizes) goes on growing")
    }
}
