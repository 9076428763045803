import AnnalsHistory
import AnnalsRows
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// A program rebuilds a table of a joined store, and the next sync compares the rows with the space's.
@Suite struct RebuiltTableHistoryTests {
    @Test func `other tables keep their history`() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE other(id INTEGER PRIMARY KEY, v TEXT);
                INSERT INTO item VALUES(1, 'a'); INSERT INTO other VALUES(1, 'o');
                """)
        for value in ["p", "q"] {
            try world.outside(0, "UPDATE other SET v = '\(value)'")
            try await world.sync(0)
        }
        try world.outside(
            0,
            """
            CREATE TABLE n(id INTEGER PRIMARY KEY, name TEXT, note TEXT); INSERT INTO n(id, name) SELECT * FROM item;
            DROP TABLE item; ALTER TABLE n RENAME TO item; UPDATE item SET note = 'h'; UPDATE other SET v = 'r'
            """)
        try await world.sync(0)
        let store = world.stores[0]
        #expect(try await store.status().incomplete.map(\.table) == ["item"])
        let first = try await store.token(named: "1")
        let filter = DifferenceFilter(tables: ["other"])
        #expect(try await store.diff(from: first, to: store.latestToken(), only: filter).count == 1)
        #expect(try await store.restore(to: first, tables: ["other"], isTrial: true).rows.updated == 1)
        #expect(try await store.verify() == [])
    }
}
