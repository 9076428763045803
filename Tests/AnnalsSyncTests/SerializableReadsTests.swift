import AnnalsCore
import AnnalsHistory
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import GRDBSQLite
import Logging
import Synchronization
import Testing

@Suite("What a serializable write read")
struct SerializableReadsTests {
    private static let schema = """
        CREATE TABLE seat(id INTEGER PRIMARY KEY, guest TEXT);
        CREATE TABLE price(id INTEGER PRIMARY KEY, cents INTEGER);
        CREATE TABLE sale(id INTEGER PRIMARY KEY, seat INTEGER REFERENCES seat(id), cents INTEGER);
        CREATE TABLE counted(id INTEGER PRIMARY KEY, sales INTEGER);
        CREATE TABLE other(id INTEGER PRIMARY KEY, text TEXT);
        CREATE VIEW dear AS SELECT * FROM price WHERE cents > 100;
        INSERT INTO seat VALUES(1, NULL); INSERT INTO price VALUES(1, 250); INSERT INTO counted VALUES(1, 0);
        """

    /// Statements of a closure, with the tables on which it depends.
    struct Case: CustomTestStringConvertible, Sendable {
        var sql: [String]
        var tables: Set<String>
        var run: @Sendable (Database, String) throws -> Void = { db, sql in try db.execute(sql: sql) }

        var testDescription: String { sql.joined(separator: "; ") }

        static let viaC: @Sendable (Database, String) throws -> Void = { db, sql in
            #expect(sqlite3_exec(db.sqliteConnection, sql, nil, nil, nil) == SQLITE_OK)
        }

        static let all: Set<String> = ["seat", "price", "counted", "other"]
        static let own = "UPDATE counted SET sales = sales + 1"

        static let cases = [
            Case(sql: [own], tables: ["counted"]),
            Case(sql: [own, "SELECT count(*) FROM price"], tables: ["counted", "price"]),
            Case(sql: [own, "SELECT 1 FROM dear"], tables: ["counted", "price"]),
            Case(sql: [own, "SELECT cents FROM price"], tables: ["counted", "price"], run: viaC),
            Case(sql: ["UPDATE counted SET sales = (SELECT max(cents) FROM price)"], tables: ["counted", "price"]),
            Case(sql: [own, "DELETE FROM other"], tables: ["counted", "other"]),
            Case(sql: [own, "WITH p AS (SELECT * FROM price) SELECT * FROM p, json_each('[1]')"], tables: ["counted", "price"]),
            Case(sql: [own, "-- how many\nSELECT count(*) FROM price"], tables: ["counted", "price"]),
            Case(sql: ["\(own);\n-- how many\n/* there are */ SELECT count(*) FROM price"], tables: ["counted", "price"]),
            Case(sql: [own, "PRAGMA main.table_info(price)", "PRAGMA table_info(price)"], tables: ["counted"]),
            Case(sql: ["SELECT count(*) FROM price", own], tables: ["counted", "price"]) { db, sql in
                if sql.hasPrefix("SELECT") { try db.readOnly { _ = try Row.fetchAll(db, sql: sql) } } else { try db.execute(sql: sql) }
            },
            Case(sql: [own, "PRAGMA user_version"], tables: all),
            Case(sql: ["INSERT INTO sale VALUES(1, 1, 250)"], tables: ["seat"]),
            Case(sql: [own, "SELECT n FROM local"], tables: all),
            Case(sql: [own, "SELECT count(*) FROM words_docsize"], tables: all),
            Case(sql: [own, "SELECT count(*) FROM annals_changes_1"], tables: all),
            Case(sql: [own, "CREATE TEMP TABLE t AS SELECT * FROM price"], tables: all),
            Case(sql: [own, "SELECT count(*) FROM annals_transactions"], tables: all),
            Case(sql: [own, "SELECT * FROM words('a')"], tables: all),
            Case(sql: [own], tables: all) { db, sql in
                db.trace(options: [])
                try db.execute(sql: sql)
            },
        ]
    }

    @Test("has the tables that its statements name, whole", arguments: Case.cases)
    func tables(_ statements: Case) async throws {
        for table in Case.all.sorted() {
            let world = try await SyncedStores(replicas: 2, schema: Self.schema)
            try world.outside(0, "CREATE VIRTUAL TABLE words USING fts5(text); INSERT INTO words VALUES('a')")
            try world.outside(0, "CREATE TABLE local(n)")
            let numberedBefore = try await world.stores[0].latestToken()
            let (_, number) = try await world.stores[0].serializableTransaction(author: "Ann", contextName: nil) { db in
                for sql in statements.sql { try statements.run(db, sql) }
            }
            #expect(try await world.stores[0].latestToken() != numberedBefore)
            switch table {
            case "seat": try world.outside(1, "UPDATE seat SET guest = 'Bob'")
            case "price": try world.outside(1, "INSERT INTO price VALUES(2, 90)")
            case "counted": try world.outside(1, "INSERT INTO counted VALUES(2, 0)")
            default: try world.outside(1, "INSERT INTO other VALUES(2, 'x')")
            }
            try await world.sync(1)
            try await world.settle()
            let outcome = try await world.stores[0].outcome(ofSerializable: #require(number))
            #expect(outcome == (statements.tables.contains(table) ? .withdrawn : .ordered), "a write to \(table)")
            for store in world.stores { #expect(try await store.verify() == []) }
        }
    }

    @Test func `is not known any more if its tables change before it is sent`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let (_, number) = try await world.stores[0].serializableTransaction(author: "Ann", contextName: nil) { db in
            try db.execute(sql: Case.own)
        }
        try world.outside(0, "ALTER TABLE counted ADD COLUMN note TEXT")
        try world.outside(1, "INSERT INTO counted VALUES(2, 0)")
        try await world.sync(1)
        try await world.settle()
        #expect(try await world.stores[0].outcome(ofSerializable: #require(number)) == .withdrawn)
    }

    @Test func `is not the same any more if earlier work of the store is merged`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE price SET cents = 300")
        let (_, number) = try await world.stores[0].serializableTransaction(author: "Ann", contextName: nil) { db in
            try db.execute(sql: "INSERT INTO other VALUES(1, 'after price')")
        }
        try world.outside(1, "UPDATE price SET cents = 200")
        try await world.sync(1)
        try await world.settle()
        #expect(try await world.stores[0].outcome(ofSerializable: #require(number)) == .withdrawn)
        #expect(try await world.rows(1, "SELECT count(*) FROM other") == [[0.databaseValue]])
    }

    @Test func `is noted beside a configured trace, which goes on`() async throws {
        let lines = Lines()
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        var configuration = world.configuration("traced")
        configuration.trace = StatementTrace(Logger(label: "sql") { _ in lines })
        let store = try Store(path: world.stores[0].path, configuration: configuration)
        _ = try await store.serializableTransaction(author: nil, contextName: nil) { db in
            try db.execute(sql: "UPDATE counted SET sales = 11")
        }
        try await store.write { db in try db.execute(sql: "UPDATE counted SET sales = 12") }
        for text in ["sales = 11", "sales = 12"] { #expect(lines.text.contains(text)) }
    }
}

/// Keeps the messages that are logged.
private struct Lines: LogHandler {
    final class Texts: Sendable {
        let all = Mutex<[String]>([])
    }

    let texts = Texts()
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    var text: String { texts.all.withLock { $0.joined(separator: "\n") } }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { texts.all.withLock { $0.append("\(event.message)") } }
}
