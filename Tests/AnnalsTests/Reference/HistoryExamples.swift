import Annals
import Synchronization
import Testing

/// The examples in the documentation of history's types, unchanged.
@Suite("The reference's examples: history")
struct HistoryExamples {
    @Test("history is read from a token on, with filters")
    func reading() async throws {
        let store = try await Shop().store
        let before = try await store.latestToken()
        try await store.write { db in try db.execute(sql: "UPDATE invoice SET isPaid = 1") }
        for try await transaction in store.history(HistoryRequest(after: before)) { print(transaction.tables) }

        let token = before
        let request = HistoryRequest(after: token).excludingAuthors("till 3").tables("invoice").limit(50)
        #expect(try await store.historyCount(request) == 1)
        for try await transaction in store.history(HistoryRequest(after: token).tables("invoice")) {
            print(transaction.number, try await store.changes(in: transaction).count)
        }
        let touched = Mutex(0)
        try await store.read { db in
            let reader = try HistoryReader(db)
            try reader.forEachTransaction(HistoryRequest(after: token)) { transaction in
                try reader.forEachChange(in: transaction) { change in print(change.table, change.kind, change.key) }
                return true
            }
            try reader.forEachTransaction(HistoryRequest(after: token)) { transaction in
                try reader.forEachStep(in: transaction) { step in print(step.time ?? transaction.timestamp, step.change.kind) }
                return true
            }
            func show(_ row: Row?) { touched.withLock { $0 += row == nil ? 0 : 1 } }
            try reader.forEachTransaction(HistoryRequest(after: token)) { transaction in
                let ids = try reader.touchedRows(in: transaction)
                for id in ids where id.table == "invoice" { show(try id.fetch(db)) }
                return true
            }
        }
        #expect(touched.withLock { $0 } == 2)
    }

    @Test("a consumer goes on where it stopped")
    func consumers() async throws {
        let store = try await Shop().store
        let indexed = Mutex(0)
        @Sendable func updateIndex(_ db: Database, _ changes: [HistoryChange]) { indexed.withLock { $0 += changes.count } }
        @Sendable func rebuildIndex(_ db: Database) throws { indexed.withLock { $0 = 0 } }
        do {
            let search: HistoryConsumer = "search index"
            try await store.register(search)
            try await store.write { db in try db.execute(sql: "UPDATE invoice SET isPaid = 1 WHERE id = 17") }
            var isMore = true
            while isMore {
                isMore = try await store.consume(as: search, limit: 100) { db, reader, transactions in
                    for transaction in transactions { try updateIndex(db, reader.changes(in: transaction)) }
                }
            }
        }
        #expect(indexed.withLock { $0 } == 1)
        try await store.startOver("search index") { db in try rebuildIndex(db) }
        #expect(indexed.withLock { $0 } == 0)

        let token = try await store.latestToken()
        try await store.register("search index", from: token)
        try await store.write { db in try db.execute(sql: "CREATE TABLE widget (total INTEGER); INSERT INTO widget VALUES (0)") }
        try await store.register("widget")
        try await store.write { db in
            try db.execute(sql: "UPDATE widget SET total = (SELECT count(*) FROM invoice)")
            try HistoryConsumer("widget").acknowledge(token, in: db)
        }
        #expect(try await store.consumers().contains { $0.consumer.name == "widget" && $0.token == token })
    }

    @Test("what others write is told")
    func remoteChanges() async throws {
        let shop = try await Shop()
        let store = shop.store
        let other = try Store(path: shop.path)
        let shown = Mutex<[HistoryTransaction]>([])
        let (told, tell) = AsyncStream<Void>.makeStream()
        @Sendable func show(_ transaction: HistoryTransaction) {
            shown.withLock { $0.append(transaction) }
            tell.yield()
        }
        let watching = Task {
            var last = try await store.latestToken()
            for try await change in store.remoteChanges {
                for try await transaction in store.history(HistoryRequest(after: last)) { show(transaction) }
                last = change.token
            }
        }
        // The test cannot know whether the loop listens before the first write. So it writes until the loop has reported one.
        let writing = Task {
            while !Task.isCancelled {
                try await other.write(author: "other") { db in try db.execute(sql: "UPDATE invoice SET amount = amount + 1") }
                await Task.yield()
            }
        }
        for await _ in told { break }
        writing.cancel()
        watching.cancel()
        _ = await (writing.result, watching.result)
        #expect(shown.withLock { $0.first?.author } == "other")
    }
}
