import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// Migrations of a joined store that rebuild a table. Their changes of rows are normal changes, and no row is unverified.
@Suite("Tables that a migration makes anew in a space")
struct RebuiltTableSyncTests {
    private static let schema = """
        CREATE TABLE person(id TEXT PRIMARY KEY NOT NULL, name TEXT, city TEXT);
        CREATE TABLE pet(id TEXT PRIMARY KEY NOT NULL, person TEXT REFERENCES person(id) ON DELETE CASCADE);
        INSERT INTO person VALUES('a', 'Ann', 'Bonn'), ('b', 'Bob', 'Oslo'), ('c', 'Cy', 'Rom');
        INSERT INTO pet VALUES('p', 'a'), ('q', 'c');
        """

    private func rebuild(_ columns: String, _ selected: String) -> String {
        """
        CREATE TABLE new_person(\(columns));
        INSERT INTO new_person SELECT \(selected) FROM person;
        DROP TABLE person;
        ALTER TABLE new_person RENAME TO person
        """
    }

    private func expectAlike(_ world: SyncedStores, _ people: [String]) async throws {
        for index in world.stores.indices {
            let rows = try await world.rows(index, "SELECT id || name || city FROM person ORDER BY id").map {
                String.fromDatabaseValue($0[0])
            }
            #expect(rows == people, "replica \(index)")
            #expect(try await world.stores[index].verify().isEmpty)
        }
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1)
    }

    @Test("the same declaration: what the migration wrote goes out, beside what others write meanwhile")
    func sameColumns() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE person SET city = 'Köln' WHERE id = 'b'")
        let sql = rebuild("id TEXT PRIMARY KEY NOT NULL, city TEXT, name TEXT", "id, city, upper(name)")
        try await world.stores[0].migrate(label: "v2", sql: "DELETE FROM pet WHERE person = 'c'; DELETE FROM person WHERE id = 'c'; \(sql)")
        try world.outside(0, "UPDATE person SET city = 'Ulm' WHERE id = 'a'")
        try world.outside(1, "UPDATE person SET city = 'Paris' WHERE id = 'b'; INSERT INTO person VALUES('d', 'Dee', 'Prag')")
        try await world.sync(1)
        world.clock.advance(.seconds(1))
        let summary = try await world.sync(0)
        #expect(summary.reconciled == 0 && summary.pushed.transactions == 3)
        try await world.settle()
        try await expectAlike(world, ["aANNUlm", "bBOBParis", "dDeePrag"])
    }

    @Test("more columns in another order: they are told to the space, with what they hold")
    func moreColumns() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let first = try await world.stores[0].latestToken()
        let sql = rebuild(
            "id TEXT PRIMARY KEY NOT NULL, age INTEGER NOT NULL DEFAULT 7, city TEXT, name TEXT", "id, length(name), city, name")
        try await world.stores[0].migrate(label: "v2", sql: sql)
        try world.outside(1, "UPDATE person SET city = 'Paris' WHERE id = 'b'; INSERT INTO person VALUES('d', 'Dee', 'Prag')")
        try await world.sync(1)
        #expect(try await world.sync(0).reconciled == 0)
        try await world.sync(1)
        #expect(try await world.stores[1].prepareOutbox().isBehindSchema)
        try world.outside(1, "ALTER TABLE person ADD COLUMN age INTEGER NOT NULL DEFAULT 7")
        try await world.settle()
        try await expectAlike(world, ["aAnnBonn", "bBobParis", "cCyRom", "dDeePrag"])
        #expect(try await world.rows(1, "SELECT age FROM person ORDER BY id").map { $0[0] } == [3, 3, 2, 7].map(\.databaseValue))
        _ = try await world.stores[0].replay(to: first, output: world.folder.file("then.db"))
    }

    @Test("another type is refused, and changes nothing")
    func refused() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let sql = rebuild("id TEXT PRIMARY KEY NOT NULL, name TEXT, city INTEGER", "id, name, city")
        let error = await #expect(throws: AnnalsError.self) { try await world.stores[0].migrate(label: "no", sql: sql) }
        #expect(error?.code == .schemaRefused)
        try world.outside(0, "UPDATE person SET city = 'Ulm' WHERE id = 'a'")
        #expect(try await world.sync(0).reconciled == 0)
        try await world.settle()
        try await expectAlike(world, ["aAnnUlm", "bBobOslo", "cCyRom"])
    }
}
