import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import GRDB
import Testing

/// Joining a store with rows that differ from the space's rows (merge rule 40).
@Suite("Joining stores that both hold rows")
struct ExistingRowsTests {
    private static let schema = """
        CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE);
        CREATE TABLE invoice(id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customer(id), total INTEGER);
        CREATE TABLE setting(name TEXT PRIMARY KEY NOT NULL, value TEXT);
        """
    /// The first rows of both: customer 1, invoice 1 of customer 1, one setting.
    private static let shared = """
        INSERT INTO customer VALUES(1, 'Vera', 'vera@x');
        INSERT INTO invoice VALUES(1, 1, 10);
        INSERT INTO setting(name, value) VALUES('colour', 'red');
        """
    private static let inSpace = """
        INSERT INTO customer VALUES(2, 'Space', 'space@x');
        INSERT INTO invoice VALUES(2, 2, 20), (3, 1, 30);
        INSERT INTO setting VALUES('size', 'space');
        """
    private static let here = """
        INSERT INTO customer VALUES(2, 'Here', 'here@x'), (3, 'Only', 'only@x');
        INSERT INTO invoice VALUES(2, 2, 21), (4, 3, 40), (5, 2, 50);
        INSERT INTO setting VALUES('size', 'here'), ('mine', 'yes');
        """

    private func joined(_ existing: ExistingRows?, here: String = here, schema: String = schema) async throws -> (
        SyncedStores, Joining.Outcome
    ) {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema + Self.shared + Self.inSpace)
        let path = world.folder.file("joining.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: schema + Self.shared + here) }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("joining"))
        try await store.track(.all)
        let outcome = try await world.joining("joining").join(store, existing: existing)
        world.add(store)
        return (world, outcome)
    }

    @Test("what a join would refuse whatever becomes of the rows, a look ahead refuses too")
    func lookAhead() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema + Self.shared)
        let path = world.folder.file("joining.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: "CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE)") }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("joining"))
        try await store.track(.all)
        let error = await #expect(throws: AnnalsError.self) { _ = try await world.joining("joining").prospect(of: store) }
        #expect(error?.code == .schemaRefused)
        #expect(try await store.replicaState() == nil)
    }

    private func lines(_ world: SyncedStores, _ sql: String) async throws -> [String] {
        let lines = try await world.stores[0].read { db in try String.fetchAll(db, sql: sql) }
        let others = try await world.stores[1].read { db in try String.fetchAll(db, sql: sql) }
        #expect(lines == others)
        return lines
    }

    private func expectWhole(_ world: SyncedStores) async throws {
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
        for store in world.stores {
            #expect(try await store.foreignKeyViolations().isEmpty)
            #expect(try await store.verify().isEmpty)
        }
        let journals = try await [world.stores[0].conflicts(), world.stores[1].conflicts()]
        #expect(journals[0].map(\.entry) == journals[1].map(\.entry))
    }

    private static let customers = "SELECT id || ' ' || name FROM customer ORDER BY id"
    private static let invoices = "SELECT total || ' of ' || name FROM invoice JOIN customer ON customer.id = customer ORDER BY total, name"
    private static let settings = "SELECT name || '=' || value FROM setting ORDER BY name"

    @Test("separate: integer keys get numbers of their own and what refers to them follows; other keys join rows")
    func separate() async throws {
        let (world, outcome) = try await joined(.separate)
        guard case .merged(_, let summary) = outcome else { throw Unexpected(outcome) }
        #expect(summary.differing == 7)
        try await expectWhole(world)
        #expect(try await lines(world, Self.customers).count == 4)
        #expect(
            try await lines(world, Self.invoices)
                == ["10 of Vera", "20 of Space", "21 of Here", "30 of Vera", "40 of Only", "50 of Here"])
        #expect(try await lines(world, Self.settings) == ["colour=red", "mine=yes", "size=space"])
    }

    @Test("same-key: the space's values stand, ours are in the journal, and what only we had comes in")
    func sameKey() async throws {
        let (world, _) = try await joined(.sameKey)
        try await expectWhole(world)
        #expect(try await lines(world, Self.customers) == ["1 Vera", "2 Space", "3 Only"])
        #expect(try await lines(world, Self.invoices) == ["10 of Vera", "20 of Space", "30 of Vera", "40 of Only", "50 of Space"])
        #expect(try await lines(world, Self.settings) == ["colour=red", "mine=yes", "size=space"])
        let lost = try await world.stores[0].conflicts().compactMap { $0.entry.incoming?.first }
        #expect(
            lost.contains(.text("Here")) && lost.contains(.text("here@x")) && lost.contains(.integer(21)) && lost.contains(.text("here")))
    }

    @Test("theirs: the space's rows stand, and history holds ours")
    func theirs() async throws {
        let (world, outcome) = try await joined(.theirs)
        guard case .merged(_, let summary) = outcome else { throw Unexpected(outcome) }
        #expect(summary.differing == 7 && summary.takenIn == 4)
        #expect(try await world.stores[1].digest() == world.stores[0].digest())
        #expect(try await world.sync(1).pushed.transactions == 0)
        try await expectWhole(world)
        #expect(try await lines(world, Self.customers) == ["1 Vera", "2 Space"])
    }

    @Test("a child that is equal in bytes goes with a parent of ours that gets another number")
    func childOfASeparateParent() async throws {
        let (world, _) = try await joined(
            .separate, here: "INSERT INTO customer VALUES(2, 'Here', 'here@x'); INSERT INTO invoice VALUES(2, 2, 20)")
        try await expectWhole(world)
        #expect(try await lines(world, Self.invoices) == ["10 of Vera", "20 of Here", "20 of Space", "30 of Vera"])
    }

    @Test("a unique value that both hold under different keys is settled as ever")
    func uniqueValues() async throws {
        let (world, _) = try await joined(
            .separate, here: "INSERT INTO customer VALUES(7, 'Twin', 'space@x'); INSERT INTO invoice VALUES(9, 7, 90)")
        try await expectWhole(world)
        #expect(try await lines(world, "SELECT count(*) FROM customer WHERE email = 'space@x'") == ["1"])
        #expect(try await !world.stores[0].conflicts().isEmpty)
    }

    @Test("without a word it is refused, and nothing is changed")
    func refused() async throws {
        await #expect { _ = try await joined(nil) } throws: { ($0 as? AnnalsError)?.code == .rowsDiffer }
    }

    @Test(
        "tables that are declared otherwise are refused by name, whatever is said of the rows",
        arguments: [
            ("email TEXT UNIQUE", "email TEXT", "UNIQUE"), ("total INTEGER", "total INTEGER CHECK (total > 0)", "CHECK"),
            ("name TEXT, email", "name TEXT NOT NULL, email", "column name"), ("value TEXT", "value TEXT, more TEXT", "columns (more)"),
            ("NOT NULL REFERENCES customer(id)", "NOT NULL", "foreign keys"),
            ("name TEXT PRIMARY KEY", "name TEXT COLLATE NOCASE PRIMARY KEY", "primary key"),
        ])
    func otherSchema(_ found: String, _ put: String, _ words: String) async throws {
        for existing in [ExistingRows.separate, nil] {
            await #expect {
                _ = try await joined(existing, here: "", schema: Self.schema.replacing(found, with: put))
            } throws: { error in
                guard let error = error as? AnnalsError else { return false }
                return error.code == .schemaRefused && error.message.contains(words)
            }
        }
    }

    struct Unexpected: Error {
        var outcome: Joining.Outcome
        init(_ outcome: Joining.Outcome) { self.outcome = outcome }
    }
}
