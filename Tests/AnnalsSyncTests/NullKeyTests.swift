import AnnalsCore
import AnnalsSchema
import AnnalsStore
import AnnalsTesting
import GRDB
import Testing

/// Rows whose key holds NULL have no identity at other replicas.
@Suite struct NullKeyTests {
    private static let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, v TEXT); INSERT INTO t VALUES('a', 'one'), ('b', 'two');"

    @Test func `they are counted until they get a key, and then they are synced`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        #expect(try await world.stores[0].rowsWithNullKey() == [])
        try world.outside(0, "INSERT INTO t VALUES(NULL, 'three'), (NULL, 'four'); UPDATE t SET k = NULL WHERE k = 'a'")
        try await world.settle()
        let store = world.stores[0]
        let unsynced = try await store.rowsWithNullKey()
        #expect(unsynced.map { "\($0.table) \($0.columns) \($0.count)" } == [#"t ["k"] 3"#])
        #expect(try await world.stores[1].rowsWithNullKey() == [])
        #expect(try await world.rows(1, "SELECT k, v FROM t") == [["b".databaseValue, "two".databaseValue]])
        try world.outside(0, "UPDATE t SET k = v WHERE k IS NULL")
        try await world.settle()
        #expect(try await world.stores[0].rowsWithNullKey() == [])
        let all = try await world.rows(1, "SELECT v FROM t ORDER BY v")
        #expect(all == ["four", "one", "three", "two"].map { [$0.databaseValue] })
    }

    @Test func `an entry that needs a unique value of such a row is refused, and the cause is named`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: "CREATE TABLE t(k TEXT PRIMARY KEY, v TEXT UNIQUE)")
        try world.outside(0, "INSERT INTO t VALUES(NULL, 'one')")
        try world.outside(1, "INSERT INTO t VALUES('a', 'one')")
        try await world.sync(1)
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(0) }
        #expect(error?.code == .constraint && error?.entry == nil, "\(String(describing: error))")
        #expect(error?.message.contains("because of rows with NULL in their key") == true)
        try world.outside(0, "DELETE FROM t WHERE k IS NULL")
        try await world.settle()
        #expect(try await world.rows(0, "SELECT k FROM t") == [["a".databaseValue]])
    }

    @Test func `a table without a row of that kind, or with a key that cannot hold NULL, is not listed`() async throws {
        let world = try await SyncedStores(
            replicas: 1,
            schema: """
                CREATE TABLE number(id INTEGER PRIMARY KEY); CREATE TABLE strict_key(k TEXT NOT NULL PRIMARY KEY);
                CREATE TABLE pair(a TEXT, b TEXT, PRIMARY KEY(a, b)) WITHOUT ROWID; CREATE TABLE loose(k TEXT PRIMARY KEY);
                INSERT INTO number DEFAULT VALUES; INSERT INTO strict_key VALUES('x'); INSERT INTO pair VALUES('a', 'b');
                INSERT INTO loose VALUES('y');
                """)
        #expect(try await world.stores[0].rowsWithNullKey() == [])
    }
}
