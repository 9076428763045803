import AnnalsCore
import AnnalsSchema
import Foundation
import GRDB
import SeededRandom
import Synchronization
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

/// Stops a purge in the middle.
struct Interrupted: Error {}

/// A store with history, opened as an app opens it, with a clock that the test sets.
struct PurgedStore {
    let file: HistoryFile
    let store: Store
    /// The number of slices after which a purge fails; nil if it does not fail.
    let slicesLeft = Mutexed<Int?>(nil)
    let pauses = Mutexed(0)

    init(_ file: HistoryFile) throws {
        self.file = file
        var configuration = Store.Configuration()
        let (clock, slicesLeft, pauses, ticks) = (file.clock, slicesLeft, pauses, Mutexed(Int64(0)))
        configuration.now = { clock.milliseconds }
        configuration.process = "tests"
        // Each reading of the clock takes three milliseconds, so a slice has a few steps with a few rows each.
        configuration.microseconds = {
            ticks.withLock { ticks in
                ticks += 3_000
                return ticks
            }
        }
        configuration.pause = { _ in
            pauses.withLock { $0 += 1 }
            try slicesLeft.withLock { left in
                guard let count = left else { return }
                if count == 0 { throw Interrupted() }
                left = count - 1
            }
        }
        store = try Store(path: file.file.path, configuration: configuration)
    }

    init(_ schema: String) throws {
        try self.init(HistoryFile(schema))
        try file.track()
    }
}

/// A value that the closures of a test share.
final class Mutexed<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) { self.value = Mutex(value) }

    func withLock<T: Sendable, Failure: Error>(_ body: (inout Value) throws(Failure) -> T) throws(Failure) -> T {
        try value.withLock { held throws(Failure) in
            var copy = held
            defer { held = copy }
            return try body(&copy)
        }
    }
}

@Suite("Purging history")
struct PurgeTests {
    private func shop(_ transactions: Int) throws -> PurgedStore {
        let shop = try PurgedStore("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INT)")
        for number in 1...transactions {
            try shop.file.managed("till", nil, "INSERT INTO item VALUES(\(number), 'item \(number)', \(number))")
        }
        return shop
    }

    @Test("What is before the token goes, its transaction stays, and older tokens fail with what to do")
    func byToken() async throws {
        let shop = try shop(10)
        let result = try await shop.store.deleteHistory(before: shop.file.token(7))
        #expect(result.transactions == 6)
        #expect(result.changes == 6)
        #expect(result.oldest == (try shop.file.token(6)))
        #expect(try shop.file.transactions().map(\.number) == [7, 8, 9, 10])
        #expect(try shop.file.bounds().oldest == shop.file.token(6))
        #expect(try shop.file.findings() == [])
        await #expect { try await shop.store.token(named: "5") } throws: { error in
            (error as? AnnalsError)?.code == .tokenExpired && "\(error)".contains("The oldest token is")
        }
        try shop.file.replay(to: shop.file.token(6))
        #expect(throws: AnnalsError.self) { try shop.file.replay(to: shop.file.token(5)) }
        let again = try await shop.store.deleteHistory(before: shop.file.token(7))
        #expect(again.transactions == 0)
    }

    @Test("By date: what was committed before it goes")
    func byDate() async throws {
        let shop = try shop(10)
        // Transaction n is n seconds after the start.
        let date = Date(timeIntervalSince1970: 1_700_000_004)
        #expect(try await shop.store.deleteHistory(before: date).transactions == 3)
        #expect(try await shop.store.deleteHistory(before: "2023-11-14T22:13:26Z").transactions == 2)
        #expect(try shop.file.transactions().map(\.number) == [6, 7, 8, 9, 10])
    }

    @Test("After a purge the first moment is that of the last dropped transaction")
    func firstMoment() async throws {
        let shop = try shop(10)
        let kept = try await shop.store.token(named: "2023-11-14T22:13:26.500Z")
        #expect(kept.number == 6)
        try await shop.store.deleteHistory(before: shop.file.token(7))
        #expect(try await shop.store.token(named: "2023-11-14T22:13:26.500Z") == kept)
        await #expect { try await shop.store.token(named: "2023-11-14T22:13:25.999Z") } throws: { error in
            (error as? AnnalsError)?.code == .tokenExpired && "\(error)".contains("The first moment is 2023-11-14T22:13:26.000Z")
        }
    }

    @Test("By age, and a rule that keeps all keeps all")
    func byAge() async throws {
        let shop = try shop(10)
        shop.file.clock.milliseconds += 1_000
        #expect(try await shop.store.purge(.all).transactions == 0)
        #expect(try await shop.store.purge(.untilConsumed.keepingAtLeast(.seconds(3))).transactions == 7)
        #expect(try await shop.store.purge(.days(1)).transactions == 0)
    }

    @Test("All of it can go; numbers go on rising, and what is written then is captured")
    func everything() async throws {
        let shop = try shop(5)
        #expect(try await shop.store.purge(.untilConsumed).transactions == 5)
        #expect(try shop.file.transactions() == [])
        #expect(try shop.file.bounds().oldest == shop.file.bounds().latest)
        #expect(try shop.file.findings() == [])
        #expect(try shop.file.recordExternalChanges() == nil, "nothing is left to seal")
        // Only the number of the last change is left.
        let left = try await shop.store.read { db in
            try GRDB.Row.fetchAll(db, sql: "SELECT * FROM annals_changes_1").map { row in row.filter { !$1.isNull }.map(\.0) }
        }
        #expect(left == [["id"]])
        #expect(try shop.file.external("INSERT OR REPLACE INTO item VALUES(9, 'item 2', 0)") == 6)
        #expect(try shop.file.changes(6).map(\.kind).sorted { "\($0)" < "\($1)" } == [.delete, .insert])
        #expect(try await shop.store.purge(.untilConsumed).transactions == 1)
        #expect(try shop.file.managed("till", nil, "DELETE FROM item") == 7)
        #expect(try shop.file.changes(7).count == 5)
        #expect(try shop.file.findings() == [])
    }

    @Test("A purge that is interrupted has expired its tokens and shows nothing half; the next one ends it")
    func interrupted() async throws {
        let shop = try shop(3)
        for _ in 0..<40 { try shop.file.managed(nil, nil, "UPDATE item SET n = n + 1") }
        let copy = try shop.file.rows()
        shop.slicesLeft.withLock { $0 = 3 }
        await #expect(throws: Interrupted.self) { try await shop.store.deleteHistory(before: shop.file.token(40)) }
        #expect(try shop.file.bounds().oldest.number == 39)
        #expect(try shop.file.transactions().map(\.number) == Array(40...43))
        #expect(try shop.file.findings() == [])
        let left = try await shop.store.read { try Int64.fetchOne($0, sql: "SELECT min(number) FROM annals_transactions") }
        #expect(try #require(left) < 39, "something is left to do")
        try shop.file.replay(to: shop.file.token(39))
        shop.slicesLeft.withLock { $0 = nil }
        #expect(try await shop.store.deleteHistory(before: shop.file.token(40)).transactions == 0)
        let first = try await shop.store.read { db in
            try (
                Int64.fetchOne(db, sql: "SELECT min(number) FROM annals_transactions"),
                Int64.fetchOne(db, sql: "SELECT min(number) FROM annals_spans")
            )
        }
        #expect(first == (40, 40))
        #expect(try shop.file.rows() == copy)
        #expect(try shop.file.findings() == [])
    }

    @Test("Between two slices others can write, and what they write is captured")
    func slices() async throws {
        let shop = try shop(2)
        for _ in 0..<50 { try shop.file.managed(nil, nil, "UPDATE item SET n = n + 1") }
        let newest = try shop.file.bounds().latest
        #expect(try await shop.store.purge(.untilConsumed).transactions == 52)
        #expect(shop.pauses.withLock { $0 } > 5)
        #expect(try shop.file.bounds().oldest == newest)
    }

    @Test("A dry run says what would go and changes nothing")
    func dryRun() async throws {
        let shop = try shop(10)
        let result = try await shop.store.deleteHistory(before: shop.file.token(7), dryRun: true)
        #expect(result.transactions == 6)
        #expect(result.bytes > 0)
        #expect(try shop.file.transactions().count == 10)
        #expect(try shop.file.bounds().oldest.number == 0)
    }

    @Test("Freed room is used again, and vacuum gives it back")
    func room() async throws {
        let shop = try PurgedStore("CREATE TABLE doc(id INTEGER PRIMARY KEY, body BLOB)")
        try shop.file.managed(nil, nil, "INSERT INTO doc VALUES(1, randomblob(10000))")
        for _ in 0..<100 { try shop.file.managed(nil, nil, "UPDATE doc SET body = randomblob(10000)") }
        let result = try await shop.store.purge(.untilConsumed)
        #expect(result.bytes > 1_500_000, "old and new of a hundred changes")
        let size = try FileManager.default.attributesOfItem(atPath: shop.file.file.path)[.size] as? Int ?? 0
        for _ in 0..<50 { try shop.file.managed(nil, nil, "UPDATE doc SET body = randomblob(10000)") }
        #expect(try FileManager.default.attributesOfItem(atPath: shop.file.file.path)[.size] as? Int == size)
        _ = try await shop.store.purge(.untilConsumed)
        #expect(try await shop.store.vacuum() > 1_500_000)
        #expect(try shop.file.findings() == [])
    }

    @Test("History's size is told within a quarter, whatever the rows")
    func size() async throws {
        for (rows, body) in [(2_000, "randomblob(20)"), (400, "randomblob(abs(random()) % 9000)"), (3_000, "hex(randomblob(60))")] {
            let shop = try PurgedStore("CREATE TABLE doc(id INTEGER PRIMARY KEY, body, n INT)")
            for _ in 0..<20 {
                try shop.file.managed(nil, nil, "DELETE FROM doc")
                let numbers = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < \(rows / 20))"
                try shop.file.managed(nil, nil, "\(numbers) INSERT INTO doc SELECT i, \(body), i FROM c")
            }
            let told = try await shop.store.read { try HistorySize($0).total() }
            _ = try await shop.store.vacuum()
            let full = try await shop.store.read { try HistorySize.file($0) }
            _ = try await shop.store.purge(.untilConsumed)
            _ = try await shop.store.vacuum()
            let measured = try await full - shop.store.read { try HistorySize.file($0) }
            #expect(abs(told / measured - 1) < 0.25, "\(body): told \(told), is \(measured)")
        }
    }

    @Test("By share: history that is almost the whole file keeps the share")
    func smallShare() async throws {
        let file = try TemporaryFile()
        try file.shell(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t SELECT i, i, 'x' FROM n
            """)
        let store = try Store(path: file.path)
        _ = try await store.track(.all)
        for _ in 0..<60 { try await store.write { db in try db.execute(sql: "UPDATE t SET a = a + 1") } }
        let before = try await store.status().historyShare ?? 0
        #expect(before > 0.9 && before < 1, "\(before)")
        _ = try await store.purge(HistoryRetention.untilConsumed.whenHistoryFraction(ofStoreExceeds: 0.9))
        let left = try await store.status()
        #expect(left.transactions > 5 && left.transactions < 60, "\(left.transactions)")
    }

    @Test("By share: no more goes than brings history down to it")
    func byShare() async throws {
        let shop = try PurgedStore("CREATE TABLE doc(id INTEGER PRIMARY KEY, body BLOB)")
        for id in 1...50 { try shop.file.managed(nil, nil, "INSERT INTO doc VALUES(\(id), randomblob(3000))") }
        for id in 1...50 { try shop.file.managed(nil, nil, "UPDATE doc SET body = randomblob(3000) WHERE id = \(id)") }
        let rule = HistoryRetention.untilConsumed.whenHistoryFraction(ofStoreExceeds: 0.4)
        let result = try await shop.store.purge(rule)
        #expect(result.transactions > 20)
        let share = try await shop.store.status().historyShare ?? 0
        #expect(share > 0.3 && share <= 0.42, "\(share)")
        #expect(try await shop.store.purge(rule).transactions <= 2)
    }
}

@Suite("Law 8 and law 10: after any purge history reproduces the store at every token it kept")
struct PurgeLawTests {
    static let seeds = Seeds.given ?? Array(1...12)

    @Test("Random statements and purges", arguments: seeds)
    func randomPurges(seed: UInt64) async throws {
        var random = RandomStore(seed: seed)
        let shop = try PurgedStore(HistoryFile(random.schema, leavesOutAll: seed % 2 == 1))
        try shop.file.track()
        var copies: [Int64: RowDump] = [0: try shop.file.rows()]
        for _ in 0..<40 {
            try shop.file.file.shell(random.statements().map { $0 + ";\n" }.joined(), stopsAtError: false)
            shop.file.clock.milliseconds += 1_000
            try shop.file.recordExternalChanges()
            let latest = try shop.file.bounds().latest
            copies[latest.number] = try shop.file.rows()
            guard random.random.chance(25) else { continue }
            let oldest = try shop.file.bounds().oldest.number
            let number = Int64.random(in: oldest...latest.number, using: &random.random)
            if random.random.chance(30) { shop.slicesLeft.withLock { $0 = Int.random(in: 0...3, using: &random.random) } }
            do {
                if random.random.chance(30) {
                    _ = try await shop.store.purge(.untilConsumed)
                } else {
                    _ = try await shop.store.deleteHistory(before: shop.file.token(number))
                }
            } catch is Interrupted {}
            shop.slicesLeft.withLock { $0 = nil }
            let after = try shop.file.bounds()
            #expect(after.latest == latest, "seed \(seed)")
            #expect(after.oldest.number >= max(oldest, number - 1), "seed \(seed)")
            #expect(try shop.file.rows() == copies[latest.number], "seed \(seed): a purge touches no row")
            #expect(try shop.file.findings().filter { $0.code != .foreignKey } == [], "seed \(seed) after a purge to \(number)")
        }
        let bounds = try shop.file.bounds()
        for (number, copy) in copies.sorted(by: { $0.key < $1.key }) {
            guard number >= bounds.oldest.number else {
                #expect(throws: AnnalsError.self, "seed \(seed), token \(number)") { try shop.file.replay(to: shop.file.token(number)) }
                continue
            }
            try shop.file.replay(to: shop.file.token(number))
            let replayed = try RowDump(path: shop.file.path("replayed.db"))
            #expect(replayed == copy, "seed \(seed), token \(number): \(replayed.difference(from: copy))")
        }
    }
}
