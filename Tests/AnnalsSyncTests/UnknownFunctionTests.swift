import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import GRDB
import Testing

/// A trigger calls a function that only one program has, and keeps a table without history.
@Suite("A pull without a program's function")
struct UnknownFunctionTests {
    private static let schema = """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE plain(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE sounds(item, sound);
        CREATE TRIGGER heard AFTER INSERT ON item BEGIN INSERT INTO sounds VALUES(NEW.id, soundslike(NEW.name)); END;
        """

    private static let prepare: @Sendable (Database) throws -> Void = { db in
        db.add(function: DatabaseFunction("soundslike", argumentCount: 1, pure: true) { values in values[0] })
    }

    /// Writes as the program that has the function.
    private func program(_ path: String, _ sql: String) throws {
        var configuration = GRDB.Configuration()
        configuration.prepareDatabase(Self.prepare)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.write { db in try db.execute(sql: sql) }
        try queue.close()
    }

    @Test func `goes on with other tables, and names the trigger at the first row that needs it`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let unusable = try await world.stores[1].unusableTables()
        #expect(unusable.map { "\($0.table): \($0.message)" } == ["item: its trigger heard uses the function soundslike()"])

        try world.outside(0, "INSERT INTO plain VALUES(1, 'one')")
        try await world.sync(0)
        try await world.sync(1)
        #expect(try await world.rows(1, "SELECT name FROM plain") == [["one".databaseValue]])
        // An update fires no trigger.
        try program(world.stores[0].path, "INSERT INTO item VALUES(1, 'a'); UPDATE plain SET name = 'two'")
        try await world.sync(0)
        for _ in 0..<2 {
            let error = await #expect(throws: AnnalsError.self) { try await world.sync(1) }
            #expect(error?.code == .schemaRefused)
            #expect(
                error?.message.contains("rows of the table item cannot be written here: its trigger heard uses the function soundslike()")
                    == true, "\(error?.message ?? "")")
            // The entry is correct, so nobody may void it.
            #expect(error?.entry == nil)
        }
        try world.outside(1, "INSERT INTO plain VALUES(2, 'local')")
        try world.stores[1].close()

        var configuration = world.configuration("r1")
        configuration.prepareDatabase = Self.prepare
        let store = try Store(path: world.stores[1].path, configuration: configuration)
        try await SyncAgent(store: store, transport: world.relay, environment: world.environment).sync()
        let found = try await store.read { db in
            try String.fetchAll(db, sql: "SELECT item || sound FROM sounds UNION ALL SELECT name FROM plain ORDER BY 1")
        }
        #expect(found == ["1a", "local", "two"])
    }
    /// SQLite 3.40 refuses its own JSON functions in a schema that is not trusted. Django declares such a CHECK for each JSON field.
    @Test func `a CHECK with a JSON function is no obstacle for a clone or a comparison with a snapshot`() async throws {
        let table = "(id INTEGER PRIMARY KEY, v TEXT NOT NULL CHECK ((JSON_VALID(v) OR v IS NULL)))"
        let world = try await SyncedStores(replicas: 2, schema: "CREATE TABLE t \(table); INSERT INTO t VALUES(1, '{}')")
        try await world.settle()
        try world.outside(1, "CREATE TABLE n \(table); INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t")
        try world.outside(1, "INSERT INTO t VALUES(2, '[]')")
        try await world.settle()
        try await world.addClone("third")
        try await world.settle()
        for store in world.stores { #expect(try await store.verify() == []) }
        #expect(try await world.rows(2, "SELECT count(*) FROM t") == [[2.databaseValue]])
    }

    @Test func `a new table that the other replicas may not be able to create stops no sync`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try program(
            world.stores[0].path,
            """
            CREATE TABLE heard_only(id INTEGER PRIMARY KEY, n CHECK (soundslike(n) <> 'x'));
            CREATE TABLE sorted(id INTEGER PRIMARY KEY, n TEXT COLLATE swiftCompare);
            INSERT INTO sorted VALUES(1, 'b'); INSERT INTO plain VALUES(1, 'one');
            """)
        try await world.sync(0)
        try await world.sync(1)
        #expect(try await world.rows(1, "SELECT name FROM plain") == [["one".databaseValue]])
        let report = try await world.stores[0].track(.all)
        let table = report.tables.first { $0.name == "heard_only" }
        #expect(table?.outcome == .skipped(.notEverywhere("a CHECK of it uses the function soundslike()")))
        #expect(report.tables.first { $0.name == "sorted" }?.isTracked == true)
    }
}
