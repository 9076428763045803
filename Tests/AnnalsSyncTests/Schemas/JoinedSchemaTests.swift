import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import GRDB
import Testing

/// Stores with tables that differ from the space's tables join it.
@Suite struct JoinedSchemaTests {
    private static let schema = """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES(1, 'one'), (2, 'two');
        """
    /// Additions of the space.
    private static let additions = """
        ALTER TABLE item ADD COLUMN color TEXT DEFAULT 'none';
        CREATE TABLE note(id TEXT PRIMARY KEY NOT NULL, item INTEGER REFERENCES item(id), text TEXT);
        UPDATE item SET color = 'red' WHERE id = 1;
        INSERT INTO note VALUES('a', 1, 'of the first');
        """

    private func world() async throws -> SyncedStores {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        try world.outside(0, Self.additions)
        try await world.settle()
        return world
    }

    private func store(_ world: SyncedStores, _ sql: String) async throws -> Store {
        let path = world.folder.file("joining.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: sql) }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("joining"))
        try await store.track(.all)
        return store
    }

    private func rows(_ world: SyncedStores, _ sql: String) async throws -> [[DatabaseValue]] {
        let rows = try await world.rows(0, sql)
        #expect(try await world.rows(1, sql) == rows)
        return rows
    }

    @Test func `a store that lacks tables and columns is refused, with the option that lets it join, and nothing changes`() async throws {
        let world = try await world()
        let store = try await store(world, Self.schema)
        for existing in [nil] + ExistingRows.allCases.map(Optional.some) {
            let error = await #expect(throws: AnnalsError.self) { _ = try await world.joining("joining").join(store, existing: existing) }
            #expect(error?.code == .schemaRefused)
            #expect(error?.message == "the store does not have item.color, note of the space")
            #expect(error?.hint?.contains("schema: .additions") == true)
            #expect(error?.commandHint?.contains("--schema additions") == true)
        }
        #expect(try await store.replicaState() == nil)
        #expect(try await store.verify().isEmpty)
    }

    @Test func `a table of the space that the store has and does not track is named, with what to do`() async throws {
        let world = try await world()
        let path = world.folder.file("joining.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: Self.schema + Self.additions) }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("joining"))
        try await store.track(.tables(["item"]))
        let error = await #expect(throws: AnnalsError.self) { _ = try await world.joining("joining").join(store, existing: .sameKey) }
        #expect(error?.code == .schemaRefused)
        #expect(error?.message == "the space has note, and the store does not track its table of that name")
        #expect(error?.commandHint?.contains("Track note with annals track, and join again") == true)
        try await store.track(.tables(["note"]))
        _ = try await world.joining("joining").join(store, existing: .sameKey)
    }

    @Test func `what it lacks is kept from the join on, follows the log, and is in its rows once it is migrated`() async throws {
        let world = try await world()
        let store = try await store(world, Self.schema)
        let found = try await world.joining("joining").prospect(of: store, schema: .additions)
        guard case .existing(let differences) = found else { throw AnnalsError(.defect, operation: "test", "no space") }
        #expect(differences.areEqual)
        #expect(differences.missingSchema == ["item.color", "note"])
        _ = try await world.joining("joining").join(store, schema: .additions)
        world.add(store)
        #expect(try await store.status().missingSchema == ["item.color", "note"])
        try world.outside(
            0, "UPDATE note SET text = 'new' WHERE id = 'a'; INSERT INTO note VALUES('b', 2, 'second'); UPDATE item SET color = 'blue'")
        try world.outside(1, "INSERT INTO item VALUES(3, 'three')")
        try await world.settle()
        try world.outside(
            1,
            """
            ALTER TABLE item ADD COLUMN color TEXT DEFAULT 'none';
            CREATE TABLE note(id TEXT PRIMARY KEY NOT NULL, item INTEGER REFERENCES item(id), text TEXT);
            """)
        try await store.track(.all)
        try await world.settle()
        #expect(try await rows(world, "SELECT text FROM note ORDER BY id") == [["new".databaseValue], ["second".databaseValue]])
        let colors = try await rows(world, "SELECT color FROM item ORDER BY id")
        #expect(colors == [["blue".databaseValue], ["blue".databaseValue], ["none".databaseValue]])
        #expect(try await world.stores[0].digest() == store.digest())
        #expect(try await store.verify().isEmpty)
    }

    @Test(arguments: ExistingRows.allCases)
    func `rows that differ come together under the rule, also where the store lacks columns`(existing: ExistingRows) async throws {
        let world = try await world()
        let store = try await store(
            world, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES(1, 'one'), (2, 'other'), (3, 'third');")
        _ = try await world.joining("joining").join(store, existing: existing, schema: .additions)
        world.add(store)
        try world.reopen(1, newSchemas: .take)
        try await world.settle()
        let rows = try await rows(world, "SELECT name || ' ' || coalesce(color, '-') FROM item ORDER BY id").map { $0[0] }
        let expected =
            switch existing {
            case .sameKey: ["one red", "two none", "third none"]
            case .separate: ["one red", "two none", "third none", "other none"]
            case .theirs: ["one red", "two none"]
            }
        #expect(rows == expected.map(\.databaseValue))
        #expect(try await world.stores[1].verify().isEmpty)
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }

    @Test(arguments: ExistingRows.allCases)
    func `tables that only the store has become the space's, with their rows`(existing: ExistingRows) async throws {
        let world = try await world()
        let store = try await store(
            world,
            Self.schema + """
                CREATE TABLE tag(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item(id), word TEXT UNIQUE);
                INSERT INTO tag VALUES(1, 2, 'soon'), (2, 1, 'late');
                """)
        _ = try await world.joining("joining").join(store, existing: existing, schema: .additions)
        world.add(store)
        try world.reopen(0, newSchemas: .take)
        try world.reopen(1, newSchemas: .take)
        try await world.settle()
        #expect(try await rows(world, "SELECT id, item, word FROM tag ORDER BY id").count == 2)
        #expect(try await rows(world, "SELECT text FROM note").count == 1)
        for store in world.stores { #expect(try await store.verify().isEmpty) }
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }

    @Test func `what is no addition is refused all the same`() async throws {
        let world = try await world()
        let store = try await store(
            world, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, size INTEGER); INSERT INTO item VALUES(1, 'one', 3);")
        let error = await #expect(throws: AnnalsError.self) {
            _ = try await world.joining("joining").join(store, existing: .sameKey, schema: .additions)
        }
        #expect(error?.code == .schemaRefused && error?.message.contains("size") == true, "\(String(describing: error))")
        #expect(try await store.replicaState() == nil)
    }
}
