import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

@Suite("Reading history")
struct HistoryReaderTests {
    private func shop() throws -> HistoryFile {
        let store = try HistoryFile(
            """
            CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city TEXT);
            CREATE TABLE invoice(id INTEGER PRIMARY KEY, customer INT REFERENCES customer, paid INT);
            INSERT INTO customer VALUES(1, 'Ada', 'London');
            """)
        try store.track()
        try store.managed("till 3", "sale", "INSERT INTO invoice VALUES(10, 1, 0)")
        try store.external("UPDATE customer SET city = 'Paris' WHERE id = 1")
        try store.managed("till 4", nil, "UPDATE invoice SET paid = 1; UPDATE customer SET name = 'Ada L.'")
        try store.managed(nil, nil, "DELETE FROM invoice WHERE id = 10")
        return store
    }

    @Test("Transactions tell who wrote, when, from where and which tables")
    func transactions() throws {
        let store = try shop()
        let all = try store.transactions()
        #expect(all.map(\.number) == [1, 2, 3, 4])
        #expect(all.map(\.author) == ["till 3", nil, "till 4", nil])
        #expect(all[0].contextName == "sale")
        #expect(all.map(\.origin) == [.local, .external, .local, .local])
        #expect(all.map(\.tables) == [["invoice"], ["customer"], ["customer", "invoice"], ["invoice"]])
        #expect(all[0].process == "tests")
        #expect(all[0].timestamp == Date(timeIntervalSince1970: 1_700_000_001))
        #expect(all[2].token == (try store.token(3)))
    }

    @Test("Changes have the key, the columns that changed, and their old and new values")
    func changes() throws {
        let store = try shop()
        let insert = try #require(try store.changes(1).first)
        #expect(insert.table == "invoice")
        #expect(insert.kind == .insert)
        #expect(insert.key == [.integer(10)])
        #expect(insert.columns.map(\.name) == ["id", "customer", "paid"])
        #expect(insert.columns.map(\.old) == [nil, nil, nil])
        #expect(insert.columns.map(\.new) == [.integer(10), .integer(1), .integer(0)])
        let both = try store.changes(3)
        #expect(both.map(\.table) == ["customer", "invoice"], "parents come first")
        #expect(both[0].columns == [.init(name: "name", old: .text("Ada"), new: .text("Ada L."))])
        let delete = try #require(try store.changes(4).first)
        #expect(delete.kind == .delete)
        #expect(delete.columns.map(\.old) == [.integer(10), .integer(1), .integer(1)])
        #expect(delete.columns.map(\.new) == [nil, nil, nil])
    }

    @Test("A change of key is one change, under the key as it was")
    func move() throws {
        let store = try shop()
        let number = try #require(try store.external("UPDATE customer SET id = 5, name = 'Eve'"))
        let changes = try store.changes(number)
        #expect(changes.map(\.key) == [[.integer(1)]])
        #expect(changes.first?.columns.map(\.name) == ["id", "name"])
    }

    @Test("The rows that transactions touched, each once, lead to the rows as they are")
    func touched() throws {
        let store = try shop()
        try store.external("UPDATE customer SET id = 5, name = 'Eve'")
        let customer = { (id: Int64) in PersistentIdentifier(table: "customer", key: [.integer(id)]) }
        let invoice = PersistentIdentifier(table: "invoice", key: [.integer(10)])
        try store.queue.read { db in
            let reader = try HistoryReader(db)
            #expect(try reader.touchedRows(HistoryRequest()) == [invoice, customer(1), customer(5)])
            #expect(try reader.touchedRows(HistoryRequest().tables("invoice")) == [invoice])
            #expect(try reader.touchedRows(in: try #require(try reader.transaction(5))) == [customer(1), customer(5)])
            #expect(try customer(5).fetch(db)?["name"] == "Eve")
            #expect(try customer(1).fetch(db) == nil)
            #expect(try invoice.fetch(db) == nil)
        }
    }

    @Test("What a transaction did to a row is one change, whatever it did in between")
    func net() throws {
        let store = try shop()
        let number = try #require(
            try store.external(
                """
                BEGIN; INSERT INTO customer VALUES(2, 'B', NULL); UPDATE customer SET name = 'C' WHERE id = 2;
                UPDATE customer SET city = 'Rome' WHERE id = 1; UPDATE customer SET city = 'Oslo' WHERE id = 1;
                INSERT INTO customer VALUES(3, 'gone', NULL); DELETE FROM customer WHERE id = 3; COMMIT
                """))
        let changes = try store.changes(number).sorted { "\($0.key)" < "\($1.key)" }
        #expect(changes.map(\.kind) == [.update, .insert])
        #expect(changes[0].columns == [.init(name: "city", old: .text("Paris"), new: .text("Oslo"))])
        #expect(changes[1].columns.map(\.new) == [.integer(2), .text("C"), .null])
    }

    @Test("Requests restrict by author, table, column, origin and place")
    func filters() throws {
        let store = try shop()
        func numbers(_ request: HistoryRequest) throws -> [Int64] { try store.transactions(request).map(\.number) }
        let all = HistoryRequest()
        #expect(try numbers(all.authors("till 3")) == [1])
        #expect(try numbers(all.authors("till 3", nil)) == [1, 2, 4])
        #expect(try numbers(all.excludingAuthors("till 3")) == [2, 3, 4])
        #expect(try numbers(all.excludingAuthors(nil)) == [1, 3])
        #expect(try numbers(all.tables("CUSTOMER")) == [2, 3])
        #expect(try numbers(all.tables("customer", "invoice")) == [1, 2, 3, 4])
        #expect(try numbers(all.updating("paid")) == [3])
        #expect(try numbers(all.updating("city")) == [2])
        #expect(try numbers(all.origins(.external)) == [2])
        #expect(try numbers(all.origins([.local, .imported])) == [1, 3, 4])
        #expect(try numbers(HistoryRequest(after: store.token(2))) == [3, 4])
        #expect(try numbers(HistoryRequest(after: store.token(1)).before(store.token(4))) == [2, 3])
        #expect(try numbers(all.limit(2)) == [1, 2])
        #expect(try numbers(all.tables("invoice").limit(2)) == [1, 3])
        #expect(try numbers(all.limit(0)) == [])
        #expect(try store.queue.read { try HistoryReader($0).count(all.origins(.local)) } == 3)
        #expect(throws: AnnalsError.self) { try numbers(all.tables("nothing")) }
    }

    @Test("A request's tables and columns restrict the changes too")
    func restrictedChanges() throws {
        let store = try shop()
        #expect(try store.changes(3, HistoryRequest().tables("invoice")).map(\.table) == ["invoice"])
        #expect(try store.changes(3, HistoryRequest().updating("name")).map(\.table) == ["customer"])
    }

    @Test("A visit ends where the visitor says so, and goes past one page")
    func pages() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try store.track()
        try store.queue.write { db in
            for number in 1...(HistoryLimits.pageTransactions * 2 + 3) {
                _ = try TransactionRecorder.managedWrite(db, store.environment) {
                    try $0.execute(sql: "INSERT INTO t VALUES(\(number), 1)")
                }
            }
        }
        try store.queue.read { db in
            let reader = try HistoryReader(db)
            #expect(try reader.count(HistoryRequest()) == HistoryLimits.pageTransactions * 2 + 3)
            var seen = 0
            try reader.forEachTransaction(HistoryRequest()) { _ in
                seen += 1
                return seen < 300
            }
            #expect(seen == 300)
        }
    }

    @Test("The history of a renamed column goes on under its new name")
    func renamedColumn() throws {
        let store = try shop()
        try store.outside("ALTER TABLE customer RENAME COLUMN city TO town; UPDATE customer SET town = 'Rome'")
        let number = try #require(try store.recordExternalChanges())
        #expect(try store.changes(number).first?.columns == [.init(name: "town", old: .text("Paris"), new: .text("Rome"))])
    }
}
