import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

@Suite("Commits of every process are told", .timeLimit(.minutes(20)))
struct RemoteChangesTests {
    private func open(_ file: TemporaryFile) async throws -> Store {
        let store = try Store(path: file.path)
        try await store.track(.all)
        return store
    }

    private func file(_ mode: String = "wal") throws -> TemporaryFile {
        let file = try TemporaryFile()
        try file.shell("PRAGMA journal_mode = \(mode); CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE \"un\"(v);")
        return file
    }

    private func write(_ store: Store, _ sql: String = "INSERT INTO t(v) VALUES(1)") async throws {
        try await store.write { try $0.execute(sql: sql) }
    }

    @Test("this store's own, another store's and another program's", arguments: ["wal", "delete"])
    func all(mode: String) async throws {
        let file = try file(mode)
        let store = try await open(file)
        let other = try Store(path: file.path)
        var changes = store.remoteChanges.makeAsyncIterator()
        try await write(store)
        let own = try await changes.next()
        #expect(own?.token.number == 1 && own?.isExternal == false)
        try await write(other)
        let second = try await changes.next()
        #expect(second?.token.number == 2 && second?.isExternal == true)
        try file.shell(".timeout 20000\nINSERT INTO t(v) VALUES(2);")
        let third = try await changes.next()
        #expect(third?.token.number == 3 && third?.isExternal == true)
        try await write(store)
        let last = try await changes.next()
        #expect(last?.token.number == 4 && last?.isExternal == false)
        #expect(last?.storeIdentifier == own?.storeIdentifier && last?.storeIdentifier.isEmpty == false)
    }

    @Test("a second task that iterates the same sequence is told so, and the first goes on", arguments: [true, false])
    func shared(inMemory: Bool) async throws {
        let file = try file()
        let store = inMemory ? try Store(inMemory: nil) : try Store(path: file.path)
        if inMemory { try await write(store, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)") }
        try await store.track(.all)
        let changes = store.remoteChanges
        try await withThrowingTaskGroup(of: Result<Int64?, any Error>.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    var changes = changes.makeAsyncIterator()
                    do { return .success(try await changes.next()?.token.number) } catch { return .failure(error) }
                }
            }
            let first = try await group.next()
            let refusal = #expect(throws: AnnalsError.self) { try first?.get() }
            #expect(refusal?.code == .usage)
            try await write(store)
            #expect(try await group.next()?.get() == 1)
        }
    }

    @Test func `what was committed before anyone asked is told first, from a token on`() async throws {
        let file = try file()
        let store = try await open(file)
        let start = try await store.latestToken()
        try await write(store)
        try file.shell("INSERT INTO t(v) VALUES(2);")
        var changes = store.remoteChanges(after: start).makeAsyncIterator()
        #expect(try await changes.next()?.token.number == 2)
        try file.shell("INSERT INTO un VALUES(2);")
        try await write(store)
        #expect(try await changes.next()?.token.number == 3)
    }

    @Test func `a purge that passes the listener does not end the sequence`() async throws {
        let file = try file()
        defer { withExtendedLifetime(file) {} }
        let store = try await open(file)
        let start = try await store.latestToken()
        var changes = store.remoteChanges.makeAsyncIterator()
        try await write(store)
        #expect(try await changes.next()?.isExternal == false)
        for _ in 1...3 { try await write(store) }
        try await store.deleteHistory(before: store.latestToken())
        let passed = try await changes.next()
        #expect(passed?.token.number == 4 && passed?.isExternal == true)
        try await write(store)
        let next = try await changes.next()
        #expect(next?.token.number == 5 && next?.isExternal == false)
        // A caller that names a point gets an error if the point is purged.
        var named = store.remoteChanges(after: start).makeAsyncIterator()
        await #expect { try await named.next() } throws: { ($0 as? AnnalsError)?.code == .tokenExpired }
    }

    @Test("none is lost while many write, and the last state is told", arguments: [false, true])
    func many(inMemory: Bool) async throws {
        let file = try file()
        let store: Store
        if inMemory {
            store = try Store(inMemory: nil)
            try await store.write { try $0.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)") }
            try await store.track(.all)
        } else {
            store = try await open(file)
        }
        let changes = store.remoteChanges
        let start = try await store.latestToken()
        let writing = Task { for _ in 1...200 { try await write(store) } }
        var last = start
        var seen: [Int64] = []
        for try await change in changes {
            #expect(last < change.token)
            for try await transaction in store.history(HistoryRequest(after: last), pageSize: 7)
            where transaction.number <= change.token.number {
                seen.append(transaction.number)
            }
            last = change.token
            if last.number == start.number + 200 { break }
        }
        try await writing.value
        #expect(seen == Array(start.number + 1...start.number + 200))
    }

    @Test func `in memory, what an app writes by itself is sealed and told once`() async throws {
        let queue = try DatabaseQueue()
        try await queue.write { try $0.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)") }
        let store = try Store(wrapping: queue)
        try await store.track(.all)
        var changes = store.remoteChanges.makeAsyncIterator()
        for number in Int64(1)...3 {
            try await queue.write { try $0.execute(sql: "INSERT INTO t(v) VALUES(1)") }
            #expect(try await changes.next()?.token.number == number)
        }
        #expect(try await store.fetchOrigins() == ["external", "external", "external"])
    }

    @Test func `cancellation ends it`() async throws {
        let file = try file()
        let store = try await open(file)
        let watching = Task { () async throws -> Int in
            var count = 0
            for try await _ in store.remoteChanges { count += 1 }
            return count
        }
        watching.cancel()
        #expect(try await watching.value == 0)
    }

    @Test func `a file without history, or none at all, is an error`() async throws {
        let file = try file()
        let store = try Store(path: file.path)
        var changes = store.remoteChanges.makeAsyncIterator()
        try file.shell("INSERT INTO t(v) VALUES(2);")
        let error = await #expect(throws: AnnalsError.self) { try await changes.next() }
        #expect(error?.code == .notTracked)
    }
}

extension Store {
    fileprivate func fetchOrigins() async throws -> [String] {
        var origins: [String] = []
        for try await transaction in history() { origins.append(transaction.origin.name) }
        return origins
    }
}

@Suite("History in pages")
struct HistoryTransactionsTests {
    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { try $0.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id INTEGER PRIMARY KEY)") }
        try await store.track(.all)
        for number in 1...10 {
            try await store.write(author: number % 2 == 0 ? "Ann" : nil) { db in
                try db.execute(sql: "INSERT OR REPLACE INTO t VALUES(?, ?)", arguments: [number % 4, number])
                if number == 7 { try db.execute(sql: "INSERT INTO u VALUES(1)") }
            }
        }
        return store
    }

    private func numbers(_ transactions: HistoryTransactions) async throws -> [Int64] {
        var numbers: [Int64] = []
        for try await transaction in transactions { numbers.append(transaction.number) }
        return numbers
    }

    @Test("are all there, whatever the page's size", arguments: [1, 3, 5, 10, 256])
    func pages(size: Int) async throws {
        let store = try await store()
        #expect(try await numbers(store.history(pageSize: size)) == Array(1...10))
        #expect(try await numbers(store.history(HistoryRequest().authors("Ann"), pageSize: size)) == [2, 4, 6, 8, 10])
        #expect(try await numbers(store.history(HistoryRequest().authors("Ann").limit(3), pageSize: size)) == [2, 4, 6])
        let third = try await store.token(named: "3")
        #expect(try await numbers(store.history(HistoryRequest(after: third).limit(0), pageSize: size)) == [])
        #expect(try await numbers(store.history(HistoryRequest(after: third).updating("v").limit(5), pageSize: size)) == [5, 6, 7, 8, 9])
    }

    @Test func `transactions, changes, rows and their number are of one request`() async throws {
        let store = try await store()
        let request = HistoryRequest().tables("u")
        #expect(try await store.historyCount(request) == 1)
        #expect(try await store.historyCount() == 10)
        var iterator = store.history(request).makeAsyncIterator()
        let transaction = try #require(try await iterator.next())
        #expect(try await store.changes(in: transaction, request).map(\.table) == ["u"])
        #expect(try await store.changes(in: transaction).count == 2)
        #expect(try await store.touchedRows(request) == [PersistentIdentifier(table: "u", key: [.integer(1)])])
        #expect(try await store.touchedRows().count == 5)
        let counted = Counter()
        try await store.forEachChange { _, change in counted.add(change.columns.count) }
        #expect(counted.sum == 4 * 2 + 1 + 6)
        struct Enough: Error {}
        await #expect(throws: Enough.self) { try await store.forEachChange { _, _ in throw Enough() } }
        let latest = try await store.latestToken()
        let oldest = try await store.token(named: "start")
        await #expect(throws: Enough.self) { try await store.diff(from: oldest, to: latest) { _ in throw Enough() } }
        #expect(try await store.diff(from: latest, to: oldest).count == 5)
    }

    @Test func `a page that was purged meanwhile is told`() async throws {
        let store = try await store()
        var iterator = store.history(pageSize: 2).makeAsyncIterator()
        #expect(try await iterator.next()?.number == 1)
        try await store.write { try $0.execute(sql: "UPDATE annals_tables SET gap = 5") }
        #expect(try await iterator.next()?.number == 2)
        let error = await #expect(throws: AnnalsError.self) { try await iterator.next() }
        #expect(error?.code == .tokenExpired)
    }

    private final class Counter: @unchecked Sendable {
        // Because it is only used inside one access at a time.
        private(set) var sum = 0
        func add(_ count: Int) { sum += count }
    }
}
