import Annals
import AnnalsTesting
import Foundation
import Logging
import Testing

/// The examples in the documentation of `Store` and its results, unchanged.
@Suite("The reference's examples: stores")
struct StoreExamples {
    @Test("a store is opened, tracked and written")
    func opening() async throws {
        let shop = try await Shop()
        let path = shop.path
        try shop.store.close()
        do {
            let store = try Store(path: path)
            try await store.track(.all)
            let report = try await store.track(.all)
            for table in report.tables { print(table.name, table.outcome) }
            #expect(report.tables.count == 4 && report.tables.allSatisfy(\.isTracked))
        }
        let store = try Store(path: path)
        try await store.track(.tables(["customer", "invoice"]))
        try await store.write(author: "till 3") { db in
            try db.execute(sql: "UPDATE invoice SET isPaid = 1 WHERE id = ?", arguments: [17])
        }
        #expect(try await store.read { db in try Bool.fetchOne(db, sql: "SELECT isPaid FROM invoice WHERE id = 17") } == true)
    }

    @Test("a configuration makes the file, migrates and tracks it, and logs slow statements")
    func configuration() async throws {
        let file = try TemporaryFile("shop.db")
        let path = file.path
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in try db.execute(sql: Shop.schema) }

        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.migrator = migrator
        configuration.tables = .all
        let store = try Store(path: path, configuration: configuration)
        #expect(try await store.status().tracked.contains("invoice"))
        try store.close()

        func traced() throws -> Store {
            var configuration = Store.Configuration()
            configuration.trace = StatementTrace(Logger(label: "sql"), slowerThan: .milliseconds(20))
            return try Store(path: path, configuration: configuration)
        }
        #expect(try await traced().status().tracked.contains("invoice"))
    }

    @Test("rows are read as of one moment, and without waiting for a task")
    func reading() async throws {
        let shop = try await Shop()
        let store = shop.store
        let generation = try store.makeQueryGeneration()
        let rows = try await generation.read { db in try Invoice.fetchAll(db) }
        let total = try await generation.read { db in try Invoice.select(sum(Column("amount")), as: Int.self).fetchOne(db) }
        #expect(rows.count == 2 && total == 240)
        try await store.write { db in try db.execute(sql: "DELETE FROM invoice WHERE id = 16") }
        #expect(try await generation.read { db in try Invoice.fetchCount(db) } == 2)
        func atOnce() throws -> Int {
            let count = try store.readAndWait { db in try Invoice.fetchCount(db) }
            return count
        }
        #expect(try atOnce() == 1)
    }

    @Test("history is looked through, taken back and replayed")
    func timeTravel() async throws {
        let shop = try await Shop()
        let (store, token, yesterday) = (shop.store, shop.beginning, shop.yesterday)
        try await store.write(author: "till 3") { db in try db.execute(sql: "UPDATE customer SET name = 'Vera B.' WHERE id = 7") }
        let today = try await store.latestToken()

        do {
            let outcome = try await store.replay(to: token, output: yesterday)
            #expect(outcome.transactions == 1)
        }
        do {
            let blame = try await store.blame(table: "customer", key: [.integer(7)])
            for column in blame.columns { print(column.name, column.value, column.writer) }
        }
        let blame = try await store.blame(table: "customer", key: [.integer(7)])
        let name = blame.columns.first { $0.name == "name" }?.value
        if case .text(let bytes)? = name { print(bytes.string ?? "no valid UTF-8") }
        #expect(name == .text("Vera B."))

        do {
            let yesterday = token
            let count = try await store.diff(from: yesterday, to: store.latestToken()) { change in
                print(change.kind, change.table, change.key)
            }
            #expect(count.updated == 1)
            try await store.diffSQL(from: yesterday, to: today) { print($0, terminator: "") }
            let invoices = DifferenceFilter(tables: ["invoice"], columns: ["amount"])
            let changed = try await store.diff(from: yesterday, to: today, only: invoices)
            #expect(changed.isEmpty)
        }
        let number = try await store.status().transactions
        #expect(number > 0)
        for try await transaction in store.history(HistoryRequest(after: token)) {
            let outcome = try await store.revert(transaction: transaction.number)
            #expect(outcome.rows.updated == 1)
        }
        try await undo(store, yesterday: token)
        try await replay(store, beforeTheMistake: Date(), shop.path + ".before")
        let noted = PersistentIdentifier(table: "customer", key: [.integer(7)])
        let id = try await store.current(noted, since: token)
        #expect(id == noted)
    }

    private func replay(_ store: Store, beforeTheMistake: Date, _ path: String) async throws {
        let point = try await store.point(at: beforeTheMistake)
        let outcome = try await store.replay(to: point, output: path)
        #expect(outcome.token == point.token && point.moment == nil)
    }

    private func newest(_ store: Store) async throws -> Int64 {
        var number: Int64 = 0
        for try await transaction in store.history(HistoryRequest()) { number = transaction.number }
        return number
    }

    private func undo(_ store: Store, yesterday: HistoryToken) async throws {
        try await store.write(author: "till 3") { db in try db.execute(sql: "UPDATE customer SET name = 'V.' WHERE id = 7") }
        let number = try await newest(store)
        for try await transaction in store.history(HistoryRequest().authors("till 3")) where transaction.number == number {
            let part = RevertPart(table: "customer", key: [.integer(7)], columns: ["name"])
            try await store.revert(transaction: transaction.number, part: part)
        }
        do {
            let outcome = try await store.revert(by: "till 3", after: yesterday)
            print(outcome.transactions, outcome.rows.total)
            #expect(outcome.transactions > 0)
        }
        try await store.write { db in try db.execute(sql: "UPDATE customer SET name = 'W.' WHERE id = 7") }
        try await store.write { db in try db.execute(sql: "UPDATE customer SET name = 'X.' WHERE id = 7") }
        let earlier = try await newest(store) - 1
        do {
            try await store.revert(transaction: earlier)
            Issue.record("the later transaction is in the way")
        } catch let error as AnnalsError {
            guard let refusal = error.underlying as? RevertRefusal else { throw error }
            for transaction in refusal.transactions { print("revert first:", transaction.number, transaction.author ?? "") }
        }
        do {
            let outcome = try await store.restore(to: yesterday, tables: ["customer", "invoice"])
            print(outcome.rows.total, outcome.notes)
            #expect(outcome.rows.updated == 1)
        }
    }

    @Test("a store is mended, and its history shortened")
    func keeping() async throws {
        let shop = try await Shop()
        let store = shop.store
        do {
            let report = try await store.repair(store.repairPlan())
            print(report.remaining ?? report.findings)
            #expect(report.findings.isEmpty)
        }
        try await store.setRetention(.days(90))
        try await store.purge(.untilConsumed.keepingAtLeast(.seconds(7 * 86_400)))
        try await store.write { db in try db.execute(sql: "DELETE FROM invoice") }
        try await store.write { db in try db.execute(sql: "DELETE FROM item") }
        let token = try await store.latestToken()
        let result = try await store.deleteHistory(before: token)
        print(result.transactions, result.bytes, result.heldBackBy)
        #expect(result.transactions > 0)
    }

    @Test("policies are set, and conflicts that wait for a person are settled")
    func policies() async throws {
        let space = try await TestSpace(replicas: 1) { db in
            try db.execute(sql: "CREATE TABLE stock (id INTEGER PRIMARY KEY, pieces INTEGER NOT NULL)")
        }
        let store = space[0].store
        try await store.setPolicies([PolicySetting(table: "stock", column: "pieces", aspect: .update, policy: "sum")])
        try await store.setPolicies([
            PolicySetting(table: "stock", column: "pieces", aspect: .update, policy: "sum"),
            PolicySetting(table: nil, column: nil, aspect: .delete, policy: "updateWins"),
        ])
        #expect(try await store.policies().contains { $0.setting.policy == "sum" })
        await #expect(throws: AnnalsError.self) {
            try await store.resolve(17, taking: .incoming)
            try await store.resolve(18, setting: ["email": .text("ann@example.org")])
        }
    }
}
