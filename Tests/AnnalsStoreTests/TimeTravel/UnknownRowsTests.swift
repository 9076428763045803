import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsRows
@testable import AnnalsStore

/// A table that already has rows when a store with history begins to track it.
@Suite("Rows from before tracking")
struct UnknownRowsTests {
    /// A file in which `a` is tracked and has two transactions, and `old` has a row and is not tracked.
    private func store(tracking selection: Tracking.Selection = .tables(["a"])) async throws -> (TemporaryFile, Store) {
        let file = try TemporaryFile()
        try file.shell("CREATE TABLE a(id INTEGER PRIMARY KEY, x)")
        if case .tables = selection { try file.shell("CREATE TABLE old(id INTEGER PRIMARY KEY, x); INSERT INTO old VALUES(1, 'there')") }
        let store = try Store(path: file.path)
        _ = try await store.track(selection)
        for number in 1...2 { try await store.write { db in try db.execute(sql: "INSERT INTO a VALUES(?, 'x')", arguments: [number]) } }
        return (file, store)
    }

    private func transactions(_ store: Store) async throws -> [HistoryTransaction] {
        _ = try await store.latestToken()
        return try await store.read { db in try HistoryReader(db).transactions(HistoryRequest()) }
    }

    private func expectUnknown(_ name: String, _ body: () async throws -> Void) async {
        await #expect {
            try await body()
        } throws: { error in
            (error as? AnnalsError)?.code == .tokenExpired && "\(error)".contains("the rows of \(name) are not known there")
        }
    }

    /// Replays without a table, and returns the values of `x` in the new file.
    private func values(without name: String, _ file: TemporaryFile, _ store: Store, at point: HistoryToken) async throws -> [String] {
        let path = file.path + ".without"
        let outcome = try await store.replay(to: point, output: path, leavingOut: [name.uppercased()])
        #expect(outcome.notes == ["left out tables, to which other rows may refer, are empty: \(name)"])
        return try await DatabaseQueue(path: path).read { db in
            try String.fetchAll(db, sql: "SELECT x FROM a UNION ALL SELECT x FROM \(name)")
        }
    }

    @Test func theirRowsAreRecordedAndNoTokenExpires() async throws {
        let (file, store) = try await store()
        defer { withExtendedLifetime(file) {} }
        let first = try await store.token(named: "1")
        try await store.register("index", from: first)
        try await store.track(.tables(["old"]))
        let unread = try await store.unread(by: "index")
        #expect(unread.map(\.number) == [2, 3] && unread.last?.tables == ["old"])
        #expect(unread.last?.contextName == UnknownRows.context && unread.last?.author == nil)
        #expect(try await store.verify() == [])
    }

    @Test func aPointBeforeIsRefusedForThisTableOnly() async throws {
        let (file, store) = try await store()
        let first = try await store.token(named: "1")
        try await store.track(.tables(["old"]))
        let latest = try await store.latestToken()
        await expectUnknown("old") { try await store.restore(to: first) }
        await expectUnknown("old") { _ = try await store.replay(to: first, output: file.path + ".replayed") }
        await expectUnknown("old") { _ = try await store.diff(from: first, to: latest) { _ in } }
        #expect(!FileManager.default.fileExists(atPath: file.path + ".replayed"))
        #expect(try await values(without: "old", file, store, at: first) == ["x"])
        await #expect {
            try await store.replay(to: first, output: file.path + ".replayed", leavingOut: ["odl"])
        } throws: { ($0 as? AnnalsError)?.code == .notTracked }
        #expect(try await store.diff(from: first, to: latest, only: DifferenceFilter(tables: ["a"])) { _ in }.total == 1)
        try await store.restore(to: first, tables: ["A"])
        #expect(try file.shell("SELECT count(*) FROM a; SELECT count(*) FROM old") == "1\n1\n")
        // From there on everything is known.
        _ = try await store.replay(to: latest, output: file.path + ".replayed")
        #expect(try await store.verify() == [])
    }

    @Test func theRecordOfTheRowsCannotBeReverted() async throws {
        let (file, store) = try await store()
        try await store.track(.tables(["old"]))
        await #expect {
            try await store.revert(transaction: 3, later: .overwrite)
        } throws: {
            ($0 as? AnnalsError)?.code == .rowNotFound && "\($0)".contains("recorded rows that a table had")
        }
        #expect(try file.shell("SELECT count(*) FROM old") == "1\n")
    }

    @Test func rowsOfARenamedTableStayUnknown() async throws {
        let (file, store) = try await store()
        let first = try await store.token(named: "1")
        try await store.track(.tables(["old"]))
        try file.shell("ALTER TABLE old RENAME TO new; ALTER TABLE new ADD COLUMN y; INSERT INTO new VALUES(2, 'x', 1)")
        await expectUnknown("new") { try await store.restore(to: first) }
    }

    @Test func untrackingForgetsThem() async throws {
        let (file, store) = try await store()
        defer { withExtendedLifetime(file) {} }
        let first = try await store.token(named: "1")
        try await store.track(.tables(["old"]))
        _ = try await store.untrack(["old"])
        try await store.restore(to: first)
        #expect(try await store.verify() == [])
    }

    // MARK: A store that tracks all tables

    @Test func aTableCreatedSinceTheLastSearchIsKnownToHaveBeenAbsent() async throws {
        let (file, store) = try await store(tracking: .all)
        // Transaction 3 is recorded before Annals searches for new tables, and may be older or newer than the table.
        try file.shell("UPDATE a SET x = 'y' WHERE id = 1; CREATE TABLE new(id INTEGER PRIMARY KEY); INSERT INTO new VALUES(1)")
        try await DatabaseQueue(path: file.path).write { db in _ = try TransactionRecorder.recordExternal(db) }
        let report = try await store.track(.all)
        #expect(report.tables.map(\.recordedRows) == [0, 1])
        #expect(try await store.latestToken().number == 4)
        await expectUnknown("new") { try await store.restore(to: store.token(named: "3"), isTrial: true) }
        for number in 1...2 {
            #expect(try await store.restore(to: store.token(named: "\(number)"), isTrial: true).rows.deleted == 3 - number)
        }
    }

    @Test func aTableThatTheSearchLeftIsNot() async throws {
        let (file, store) = try await store(tracking: .all)
        try file.shell("CREATE TABLE keyless(x); INSERT INTO keyless VALUES(1)")
        try await store.track(.all)
        try await store.write { db in try db.execute(sql: "UPDATE a SET x = 'y' WHERE id = 1") }
        try file.shell("ALTER TABLE keyless RENAME TO gone; CREATE TABLE keyless(x INTEGER PRIMARY KEY); INSERT INTO keyless VALUES(1)")
        try await store.track(.all)
        await expectUnknown("keyless") { try await store.restore(to: store.token(named: "1"), isTrial: true) }
    }

    @Test(arguments: [false, true])
    func aRenamedTableThatTheSearchLeftIsNot(isNameUsedAgain: Bool) async throws {
        let (file, store) = try await store(tracking: .all)
        try file.shell("CREATE TABLE django_migrations(id INTEGER PRIMARY KEY); INSERT INTO django_migrations VALUES(1)")
        try await store.track(.all)
        try await store.write { db in try db.execute(sql: "UPDATE a SET x = 'y' WHERE id = 1") }
        try file.shell("ALTER TABLE django_migrations RENAME TO steps")
        if isNameUsedAgain { try file.shell("CREATE TABLE django_migrations(id INTEGER PRIMARY KEY)") }
        try await store.track(.all)
        await expectUnknown("steps") { try await store.restore(to: store.token(named: "1"), isTrial: true) }
    }

    @Test func aMigrationThatBeginsToTrackATableLeavesItsRowsToo() async throws {
        let (file, store) = try await store()
        let first = try await store.token(named: "1")
        try await store.migrate(label: "v2", tracking: .named(["old"])) { db in
            try db.execute(sql: "CREATE TABLE unrelated(a); UPDATE a SET x = 'm' WHERE id = 1")
        }
        await expectUnknown("old") { try await store.restore(to: first) }
        try await store.revert(transaction: 3)
        #expect(try file.shell("SELECT count(*) FROM old; SELECT x FROM a WHERE id = 1") == "1\nx\n")
        #expect(try await store.verify() == [])
    }

    @Test func rowsWithNullInTheirKeyAreNotRecordedSoTokensExpire() async throws {
        let file = try TemporaryFile()
        try file.shell(
            "CREATE TABLE a(id INTEGER PRIMARY KEY, x); CREATE TABLE n(k TEXT PRIMARY KEY); INSERT INTO n VALUES(NULL), (NULL)")
        let store = try Store(path: file.path)
        _ = try await store.track(.tables(["a"]))
        try await store.register("index")
        try await store.write { db in try db.execute(sql: "INSERT INTO a VALUES(1, 'x')") }
        try await store.track(.tables(["n"]))
        await #expect { try await store.unread(by: "index") } throws: { ($0 as? AnnalsError)?.code == .tokenExpired }
    }

    @Test func aConsumerOfAStoreWithoutTransactionsGetsTheRows() async throws {
        let file = try TemporaryFile()
        try file.shell("CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE old(id INTEGER PRIMARY KEY); INSERT INTO old VALUES(1)")
        let store = try Store(path: file.path)
        _ = try await store.track(.tables(["a"]))
        try await store.register("index")
        try await store.track(.tables(["old"]))
        #expect(try await store.unread(by: "index").map(\.tables) == [["old"]])
    }

    // MARK: A table that another program rebuilt

    @Test func otherTablesKeepTheirHistoryWhenOneIsRebuilt() async throws {
        let file = try TemporaryFile()
        try file.shell(
            "CREATE TABLE a(id INTEGER PRIMARY KEY, x); CREATE TABLE b(id INTEGER PRIMARY KEY, x); INSERT INTO b VALUES(1, 'x')")
        let store = try Store(path: file.path)
        _ = try await store.track(.all)
        try await store.register("index")
        try await store.write(author: "Ann") { db in try db.execute(sql: "INSERT INTO a VALUES(1, 'x')") }
        try await store.write { db in try db.execute(sql: "UPDATE a SET x = 'y'; UPDATE b SET x = 'y'") }
        try file.shell(
            """
            CREATE TABLE new(id INTEGER PRIMARY KEY, x, y NOT NULL DEFAULT 0); INSERT INTO new(id, x) SELECT id, x FROM b;
            DROP TABLE b; ALTER TABLE new RENAME TO b;
            """)
        let all = try await transactions(store)
        #expect(all.map(\.number) == [1, 2, 3])
        // A listing in pages passes the point.
        var numbers: [Int64] = []
        for try await transaction in store.history(pageSize: 1) { numbers.append(transaction.number) }
        #expect(numbers == [1, 2, 3])
        let status = try await store.status()
        #expect(status.incomplete.map(\.table) == ["b"] && status.incomplete.map(\.before) == [3] && status.transactions == 3)
        let blame = try await store.blame(table: "a", key: [.integer(1)])
        #expect(blame.columns.count == 2 && blame.columns.allSatisfy { if case .transaction = $0.writer { true } else { false } })
        let first = try await store.token(named: "1")
        await expectUnknown("b") { try await store.restore(to: first) }
        await expectUnknown("b") { _ = try await store.replay(to: first, output: file.path + ".replayed") }
        #expect(try await values(without: "b", file, store, at: first) == ["x"])
        #expect(try await store.restore(to: first, tables: ["a"], isTrial: true).rows.updated == 1)
        #expect(try await store.diff(from: first, to: store.latestToken(), only: DifferenceFilter(tables: ["a"])).count == 1)
        // A reader that follows history would miss the writes without capture.
        await #expect { try await store.unread(by: "index") } throws: { ($0 as? AnnalsError)?.code == .tokenExpired }
        await #expect { try await store.historyCount(HistoryRequest(after: first)) } throws: { ($0 as? AnnalsError)?.code == .tokenExpired }
        #expect(try await store.verify() == [])
        // A purge deletes only what it names.
        #expect(try await store.deleteHistory(before: try await store.token(named: "2"), mode: .force).transactions == 1)
        #expect(try await transactions(store).map(\.number) == [2, 3])
    }
}
