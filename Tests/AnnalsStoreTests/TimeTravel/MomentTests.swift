import AnnalsCore
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsRows
@testable import AnnalsSQLite
@testable import AnnalsSchema
@testable import AnnalsStore

@Suite("Moments within a transaction of several commits")
struct MomentTests {
    /// Commits of other programs, one in each second. They are recorded together.
    private final class Commits {
        let store: HistoryFile
        /// The rows after each commit; the first are those before them.
        private(set) var rows: [RowDump]
        private static let start: Int64 = 4_107_542_400_000

        init(_ store: HistoryFile) throws {
            self.store = store
            rows = [try store.rows()]
        }

        func milliseconds(_ index: Int) -> Int64 { Self.start + Int64(index) * 1_000 }

        func add(_ statements: String...) throws {
            let lists = try store.queue.read { try TrackedTable.fetchTracked($0) }.map { StoreSchema.changesTable($0.id) }
            let ends = try store.queue.read { db in try lists.map { try Int64.fetchOne(db, sql: "SELECT max(id) FROM \($0)") ?? 0 } }
            for statement in statements { try? store.outside(statement) }
            let time = "julianday(\(Double(milliseconds(rows.count)) / 1_000), 'unixepoch')"
            try store.queue.write { db in
                for (list, end) in zip(lists, ends) { try db.execute(sql: "UPDATE \(list) SET at = \(time) WHERE id > \(end)") }
            }
            rows.append(try store.rows())
        }

        /// The point half a second after a commit.
        func point(after index: Int) throws -> HistoryPoint {
            try store.queue.read { db in
                try HistoryPoint(named: ISODate.text(milliseconds: milliseconds(index) + 500), HistoryBounds(db), db)
            }
        }

        func replay(_ point: HistoryPoint) throws -> RowDump {
            try store.queue.writeWithoutTransaction { db in
                _ = try Replay.write(db, to: point, output: store.path("then.db"), force: true, environment: store.environment)
            }
            return try RowDump(path: store.path("then.db"))
        }

        func difference(_ from: HistoryPoint, _ to: HistoryPoint) throws -> String {
            try store.queue.writeWithoutTransaction { db in
                var sql = ""
                _ = try Difference(db: db, environment: store.environment).writeSQL(from: from, to: to) { sql += $0 }
                return sql
            }
        }
    }

    private func shop() throws -> HistoryFile {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE); CREATE TABLE u(id INTEGER PRIMARY KEY, w)")
        try store.track()
        return store
    }

    @Test func `the rows between two commits that were recorded together`() throws {
        let store = try shop()
        try store.external("INSERT INTO t VALUES(1, 'x')")
        let commits = try Commits(store)
        try commits.add("UPDATE t SET v = 'ann wrote'")
        try commits.add("UPDATE t SET v = 'bob wrote'; INSERT INTO u VALUES(1, 1)")
        try commits.add("DELETE FROM t", "UPDATE u SET w = 2")
        let number = try #require(try store.recordExternalChanges())
        for index in 1...3 {
            let point = try commits.point(after: index)
            #expect(point.dividedTransaction == (index < 3 ? number : nil))
            #expect(point.token.number == (index < 3 ? number - 1 : number))
            #expect(try commits.replay(point) == commits.rows[index])
            #expect((point.note == nil) == (index == 3))
        }
        let points = try (1...3).map { try commits.point(after: $0) }
        #expect(
            points[0].isAfter(HistoryPoint(try store.token(number - 1))) && points[1].isAfter(points[0]) && points[2].isAfter(points[1]))
        #expect("\(points[0])".hasSuffix(" with the writes up to 2100-03-01T00:00:01.500Z"), "\(points[0])")
    }

    // MARK: Reverts

    private func date(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1_000) }

    @Test func `a revert undoes what a transaction wrote after a moment, or between two`() async throws {
        let file = try shop()
        let commits = try Commits(file)
        try commits.add("INSERT INTO t VALUES(1, 'x')", "INSERT INTO u VALUES(1, 1)")
        try commits.add("UPDATE t SET v = 'mistake'")
        try commits.add("UPDATE u SET w = 2")
        let number = try #require(try file.recordExternalChanges())
        let store = try Store(path: file.file.path)
        let moments = (1...3).map { date(commits.milliseconds($0) + 500) }
        let whole = try await store.revert(transaction: number, moments: RevertMoments(after: moments[0]))
        #expect(whole.rows.updated == 2)
        #expect(try file.rows() == commits.rows[1])
        try await store.revert(transaction: try #require(whole.number))
        let one = try await store.revert(transaction: number, moments: RevertMoments(after: moments[0], before: moments[1]))
        #expect(one.rows.total == 1)
        #expect(try file.file.shell("SELECT v FROM t; SELECT w FROM u") == "x\n2\n")
        #expect(try await store.verify() == [])
    }

    @Test func `later commits of the same transaction are in the way of such a revert`() async throws {
        let file = try shop()
        let commits = try Commits(file)
        try commits.add("INSERT INTO u VALUES(1, 1)")
        try commits.add("UPDATE u SET w = 2")
        let number = try #require(try file.recordExternalChanges())
        let store = try Store(path: file.file.path)
        let moments = RevertMoments(before: date(commits.milliseconds(1) + 500))
        let error = await #expect(throws: AnnalsError.self) { try await store.revert(transaction: number, moments: moments) }
        #expect(error?.code == .rowsDiffer)
        let refusal = try #require(error?.underlying as? RevertRefusal)
        #expect(refusal.isWithinItself && refusal.transactions.isEmpty, "\(refusal)")
        #expect(error?.hint?.contains("itself wrote them again later: choose other moments") == true, "\(error?.hint ?? "")")
        try await store.revert(transaction: number, moments: moments, later: .overwrite)
        #expect(try file.file.shell("SELECT count(*) FROM u") == "0\n")
    }

    @Test func `a transaction that is one commit has no moments for a revert`() async throws {
        let file = try shop()
        let store = try Store(path: file.file.path)
        try await store.write(author: "Ann") { db in try db.execute(sql: "INSERT INTO t VALUES(1, 'x')") }
        let transaction = try #require(try await store.read { try HistoryReader($0).transaction(1) })
        let lunch = Date()
        let error = await #expect(throws: AnnalsError.self) {
            let moments = RevertMoments(after: lunch)
            try await store.revert(transaction: transaction.number, moments: moments)
        }
        #expect(error?.code == .usage && error?.message == "transaction 1 is one commit, so it has no moments within")
    }

    @Test func `a transaction with an author is not divided`() throws {
        let store = try shop()
        try store.external("INSERT INTO t VALUES(1, 'x')")
        let commits = try Commits(store)
        try commits.add(
            "BEGIN; INSERT INTO annals_context VALUES('ann', NULL); INSERT INTO t VALUES(2, 2), (3, 3); DELETE FROM annals_context; COMMIT")
        let number = try #require(try store.recordExternalChanges())
        let list = StoreSchema.changesTable(1)
        try store.queue.write { db in try db.execute(sql: "UPDATE \(list) SET at = at - 1 WHERE id = 2") }
        let point = try commits.point(after: 0)
        #expect(point == HistoryPoint(try store.token(number - 1)))
    }

    @Test func `a moment before a removal at an unknown time is refused`() throws {
        let store = try shop()
        try store.external("INSERT INTO t VALUES(1, 'x')")
        let commits = try Commits(store)
        try commits.add("INSERT INTO u VALUES(1, 1)")
        try commits.add("REPLACE INTO t VALUES(2, 'x')")
        try store.recordExternalChanges()
        let point = try commits.point(after: 1)
        let error = #expect(throws: AnnalsError.self) { try commits.replay(point) }
        #expect(error?.code == .tokenExpired && error?.message.contains("has no time") == true)
    }

    @Test func `a removal that a REPLACE placed before later changes does not make the transaction older`() throws {
        let store = try shop()
        try store.external("INSERT INTO t VALUES(1, 'x'), (2, 'y')")
        let commits = try Commits(store)
        try commits.add("UPDATE OR REPLACE t SET v = 'y' WHERE id = 1; UPDATE t SET v = 'z'")
        try commits.add("INSERT INTO t VALUES(3, 'later')")
        let number = try #require(try store.recordExternalChanges())
        let point = try commits.point(after: 1)
        #expect(point.token.number < number)
        if let rows = try? commits.replay(point) { #expect(rows == commits.rows[1]) }
    }

    static let seeds = Seeds.givenOrNew(8)

    @Test(arguments: seeds)
    func `the rows at each moment are those after the commits until then, or the moment is refused`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let store = try HistoryFile(RandomCaptureTests.schema, leavesOutAll: seed % 2 == 0)
        try store.track()
        try store.external("INSERT INTO tree VALUES(1, NULL, 'a'); INSERT INTO parent VALUES(1, 'a', 1), (2, 'b', 2)")
        let commits = try Commits(store)
        for _ in 0..<8 {
            var statements = (0..<Int.random(in: 1...4, using: &generator)).map { _ in RandomCaptureTests.Statement.random(&generator) }
            statements.removeAll { ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"].contains($0) }
            try commits.add(statements.joined(separator: ";"))
        }
        try store.recordExternalChanges()
        var known: [(index: Int, point: HistoryPoint)] = []
        for index in 1..<commits.rows.count {
            let point = try commits.point(after: index)
            do {
                #expect(try commits.replay(point) == commits.rows[index], "ANNALS_SEED=\(seed), after commit \(index)")
                known.append((index, point))
            } catch let error as AnnalsError where error.code == .tokenExpired {
                #expect(error.message.contains("has no time"))
            }
        }
        for _ in 0..<4 {
            guard let from = known.randomElement(using: &generator), let to = known.randomElement(using: &generator) else { break }
            let sql = try commits.difference(from.point, to.point)
            _ = try commits.replay(from.point)
            let file = try DatabaseQueue(path: store.path("then.db"))
            try file.writeWithoutTransaction { db in try db.execute(sql: sql) }
            let rows = try file.read { try RowDump($0) }
            #expect(rows == commits.rows[to.index], "ANNALS_SEED=\(seed), from \(from.index) to \(to.index)")
        }
    }
}
