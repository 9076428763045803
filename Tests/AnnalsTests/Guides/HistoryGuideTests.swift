import Annals
import Foundation
import Testing

/// The examples of the article History, line by line.
@Suite("The guide to history")
struct HistoryGuideTests {
    @Test("its examples do what it says")
    func examples() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-guide-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let yesterday = folder.appendingPathComponent("yesterday.db").path
        let queue = try DatabaseQueue(path: folder.appendingPathComponent("shop.db").path)
        try await queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price INTEGER);
                    CREATE TABLE indexed (id INTEGER PRIMARY KEY, name TEXT, key TEXT);
                    INSERT INTO item VALUES (1, 'milk', 4);
                    """)
        }
        let store = try Store(wrapping: queue)

        try await store.track(.all)
        try await store.write(author: "till 3", contextName: "opening") { db in
            try db.execute(sql: "INSERT INTO item (name, price) VALUES ('tea', 4)")
            try db.execute(sql: "UPDATE item SET price = 5 WHERE name = 'milk'")
        }

        let start = try await store.latestToken()
        try await store.write(author: "till 3") { db in
            try db.execute(sql: "UPDATE item SET price = 6 WHERE name = 'milk'")
        }
        let request = HistoryRequest(after: start).tables("item").excludingAuthors("import")
        for try await transaction in store.history(request) {
            for change in try await store.changes(in: transaction, request) {
                print(transaction.author ?? "?", change.kind, change.identifier)
                for column in change.columns { print(" ", column.name, column.old as Any, column.new as Any) }
            }
        }
        #expect(try await store.historyCount(request) == 1)

        try await store.register("search index", from: start)
        let others = HistoryRequest().excludingAuthors("search index")
        var isMore = true
        while isMore {
            isMore = try await store.consume(as: "search index", matching: others) { db, history, transactions in
                for transaction in transactions {
                    for row in try history.touchedRows(in: transaction) {
                        try db.execute(sql: "INSERT INTO indexed (name, key) VALUES (?, ?)", arguments: [row.table, "\(row.key)"])
                    }
                }
            }
        }
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM indexed WHERE name = 'item'") } == 1)

        do {
            try await store.consume(as: "search index") { _, _, _ in }
        } catch let error as AnnalsError where error.code == .tokenExpired {
            try await store.startOver("search index") { db in try db.execute(sql: "DELETE FROM indexed") }
        }

        try await store.setRetention(.untilConsumed.keepingAtLeast(.seconds(90 * 86_400)))
        let result = try await store.purge(.untilConsumed.keepingAtLeast(.seconds(90 * 86_400)))
        print(result.transactions, result.bytes, result.heldBackBy)
        #expect(result.transactions == 0)

        let now = try await store.latestToken()
        for change in try await store.diff(from: start, to: now) { print(change.kind, change.identifier) }

        let blame = try await store.blame(table: "item", key: [.integer(1)])
        for column in blame.columns { print(column.name, column.value, column.writer) }

        for try await transaction in store.history(HistoryRequest(after: start).authors("till 3").limit(1)) {
            try await store.revert(transaction: transaction.number, author: "till 3")
        }

        _ = try await store.replay(to: start, output: yesterday)
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT price FROM item WHERE id = 1") } == 5)
        let old = try DatabaseQueue(path: yesterday)
        #expect(try await old.read { db in try Int.fetchOne(db, sql: "SELECT price FROM item WHERE id = 1") } == 5)
        try old.close()

        for try await change in store.remoteChanges(after: start) {
            print(change.token, change.isExternal)
            break
        }
    }
}
