import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import RelayLog
import Testing

/// A table that one replica drops leaves the space. Replicas that still have it keep its rows, and continue without syncing them.
@Suite struct RemovedTableTests {
    private static let schema = """
        CREATE TABLE artist (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE album (id INTEGER PRIMARY KEY, title TEXT, artist INTEGER REFERENCES artist(id));
        CREATE TABLE review (id INTEGER PRIMARY KEY, words TEXT, album INTEGER REFERENCES album(id) ON DELETE CASCADE);
        INSERT INTO artist VALUES (1, 'first');
        INSERT INTO album VALUES (1, 'one', 1), (2, 'two', 1);
        INSERT INTO review VALUES (1, 'good', 1), (2, 'bad', 2), (3, 'none', NULL);
        """
    private static let drop = "DROP TABLE review"

    private func texts(_ world: SyncedStores, _ index: Int, _ sql: String) async throws -> [String] {
        try await world.rows(index, sql).map { row in
            row.map { String.fromDatabaseValue($0) ?? Int.fromDatabaseValue($0).map(String.init) ?? "-" }.joined(separator: " ")
        }
    }

    private func tables(_ world: SyncedStores, _ index: Int) async throws -> [String] {
        try await texts(world, index, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'annals%' ORDER BY name")
    }

    private func dropped(_ replicas: Int, by index: Int = 0) async throws -> SyncedStores {
        let world = try await SyncedStores(replicas: replicas, schema: Self.schema)
        try await world.settle()
        try await world.stores[index].migrate(label: "v2", sql: Self.drop)
        return world
    }

    @Test(arguments: [true, false])
    func `replicas that still have the table keep its rows and sync the others`(byTool: Bool) async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.outside(0, "UPDATE album SET title = 'by 0' WHERE id = 1; INSERT INTO review VALUES (10, 'sent', 1)")
        try await world.settle()
        if byTool {
            try world.outside(0, Self.drop)
        } else {
            try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        }
        try world.outside(0, "INSERT INTO album VALUES (10, 'ten', 1)")
        try world.outside(1, "INSERT INTO review VALUES (11, 'unsent', 2); UPDATE album SET title = 'by 1' WHERE id = 2")
        try await world.settle()
        for index in [1, 2] {
            #expect(try await world.stores[index].status().removedTables == ["review"])
            #expect(try await world.stores[index].status().tracked == ["album", "artist"])
            #expect(try await texts(world, index, "SELECT title FROM album ORDER BY id") == ["by 0", "by 1", "ten"])
        }
        #expect(
            try await texts(world, 1, "SELECT id, words FROM review ORDER BY id") == ["1 good", "2 bad", "3 none", "10 sent", "11 unsent"])
        #expect(try await texts(world, 2, "SELECT id, words FROM review ORDER BY id") == ["1 good", "2 bad", "3 none", "10 sent"])
        // Writes to the table stay in the file, and so does the table, although a rule tracks all tables.
        try world.outside(1, "UPDATE review SET words = 'local'; CREATE TABLE other (id INTEGER PRIMARY KEY)")
        _ = try await world.stores[1].track(.all)
        try await world.settle()
        #expect(try await world.stores[1].status().tracked == ["album", "artist", "other"])
        #expect(try await tables(world, 0) == ["album", "artist"])
        try await world.stores[1].migrate(label: "v2", sql: Self.drop)
        try world.outside(2, Self.drop)
        for index in [0, 2] { try world.outside(index, "CREATE TABLE IF NOT EXISTS other (id INTEGER PRIMARY KEY)") }
        for index in [0, 2] { _ = try await world.stores[index].track(.all) }
        try await world.addClone("late")
        try await world.expectAlike()
        #expect(try await tables(world, 3) == ["album", "artist", "other"])
        for store in world.stores { #expect(try await store.status().removedTables == []) }
    }

    @Test func `two replicas drop it at once, and unsent work with it is repeated without it`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        for index in [0, 1] {
            try world.outside(
                index, "UPDATE review SET words = 'by \(index)' WHERE id = 1; UPDATE album SET title = 'by \(index)' WHERE id = 1")
            try world.outside(index, "INSERT INTO review VALUES (20, 'new', 1); INSERT INTO album VALUES (20, 'new \(index)', 1)")
            _ = try await world.stores[index].prepareOutbox()
            try world.outside(index, "DELETE FROM review WHERE album = 2; DELETE FROM album WHERE id = 2")
            try await world.stores[index].migrate(label: "v2", sql: Self.drop)
            world.clock.advance(.seconds(1))
        }
        try await world.settle()
        #expect(try await world.stores[2].status().schemaVersion == 2)
        try await world.stores[2].migrate(label: "v2", sql: Self.drop)
        try await world.expectAlike()
        #expect(try await texts(world, 2, "SELECT id, title FROM album ORDER BY id") == ["1 by 1", "20 new 0", "21 new 1"])
    }

    @Test func `rows of the table follow parents that other replicas delete or renumber`() async throws {
        let world = try await dropped(2)
        try world.outside(0, "DELETE FROM album WHERE id = 2; INSERT INTO album VALUES (3, 'three', 1)")
        try world.outside(1, "INSERT INTO album VALUES (3, 'drei', 1); INSERT INTO review VALUES (9, 'of drei', 3)")
        try await world.settle()
        #expect(try await texts(world, 1, "SELECT id, album FROM review ORDER BY id") == ["1 1", "3 -", "9 4"])
        #expect(try await texts(world, 1, "SELECT id, title FROM album ORDER BY id") == ["1 one", "3 three", "4 drei"])
        #expect(try await world.rows(1, "PRAGMA foreign_key_check").isEmpty)
        #expect(try await world.stores[1].verify().isEmpty)
    }

    @Test func `a parent that rows of the table keep is named, and dropping the table helps`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema.replacing(" ON DELETE CASCADE", with: ""))
        try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        try world.outside(0, "DELETE FROM album WHERE id = 2")
        try await world.sync(0)
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.settle() })
        #expect(error.code == .constraint && error.message.contains("review"), "\(error.message)")
        try world.outside(1, Self.drop)
        try await world.expectAlike()
    }

    @Test func `changes before the removal arrive, in the same pull`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        try world.outside(0, "INSERT INTO review VALUES (10, 'ten', 1)")
        try await world.sync(0)
        try await world.sync(1)
        try await world.stores[1].migrate(label: "v2", sql: Self.drop)
        try world.outside(1, "DELETE FROM album WHERE id = 1")
        try await world.sync(1)
        try world.outside(0, "INSERT INTO review VALUES (11, 'late', NULL); UPDATE review SET words = 'late' WHERE id = 3")
        try await world.sync(0, .pushOnly)
        try await world.settle()
        #expect(try await texts(world, 2, "SELECT id, words FROM review ORDER BY id") == ["2 bad", "3 none"])
        #expect(try await texts(world, 0, "SELECT id, words FROM review ORDER BY id") == ["2 bad", "3 late", "11 late"])
    }

    @Test func `a replica that never had the table forgets its deferred rows`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let make = "CREATE TABLE size (id INTEGER PRIMARY KEY, album INTEGER REFERENCES album(id)); INSERT INTO size VALUES (1, 1)"
        try await world.stores[0].migrate(label: "v2", tracking: .all) { db in try db.execute(sql: make) }
        try await world.settle()
        #expect(try await world.stores[1].status().missingSchema == ["size"])
        try await world.stores[0].migrate(label: "v3", sql: "DROP TABLE size")
        try await world.settle()
        #expect(try await world.stores[1].status().missingSchema == [])
        #expect(try await world.rows(1, "SELECT count(*) FROM annals_kept") == [[0.databaseValue]])
        try world.outside(1, "UPDATE album SET title = 'a' WHERE id = 1")
        try await world.expectAlike()
    }

    @Test func `a table that is created again is another table`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        try world.reopen(2, newSchemas: .take)
        let make = "CREATE TABLE review (id TEXT PRIMARY KEY NOT NULL, stars INTEGER)"
        try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        try await world.stores[0].migrate(label: "v3", tracking: .all) { db in
            try db.execute(sql: "\(make); INSERT INTO review VALUES ('a', 5)")
        }
        try world.outside(1, "UPDATE review SET words = 'old' WHERE id = 1")
        try await world.settle()
        #expect(try await texts(world, 1, "SELECT id, words FROM review ORDER BY id").first == "1 old")
        #expect(try await world.stores[1].status().missingSchema == ["review"])
        #expect(try await texts(world, 2, "SELECT id, stars FROM review") == ["a 5"])
        try await world.stores[1].migrate(label: "v2", sql: Self.drop)
        try await world.stores[1].migrate(label: "v3", tracking: .all) { db in try db.execute(sql: make) }
        try world.outside(1, "INSERT INTO review VALUES ('b', 1)")
        try await world.addClone("late")
        try await world.expectAlike()
        #expect(try await texts(world, 3, "SELECT id, stars FROM review ORDER BY id") == ["a 5", "b 1"])
    }

    @Test(arguments: [true, false])
    func `a table that is created again before its removal was sent is the same table`(isSeen: Bool) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try world.outside(0, Self.drop)
        if isSeen { try await world.stores[0].recordExternalChanges() }
        try world.outside(0, Self.schema.split(separator: ";").first { $0.contains("CREATE TABLE review") }.map(String.init) ?? "")
        try world.outside(0, "INSERT INTO review VALUES (1, 'again', 1), (5, 'five', 2)")
        try await world.expectAlike()
        #expect(try await texts(world, 1, "SELECT id, words FROM review ORDER BY id") == ["1 again", "5 five"])
    }

    @Test func `a store that takes its schema from the log drops the table, unless something uses it`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        for index in [1, 2] { try world.reopen(index, newSchemas: .take) }
        try world.outside(2, "CREATE VIEW reviews AS SELECT words FROM review")
        try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        try await world.settle()
        #expect(try await tables(world, 1) == ["album", "artist"])
        #expect(try await world.stores[2].status().removedTables == ["review"])
        try world.outside(2, "DROP VIEW reviews; UPDATE album SET title = 'x' WHERE id = 1")
        try await world.expectAlike()
        #expect(try await world.stores[2].status().removedTables == [])
    }

    @Test func `a replica with the table comes back after a purge of the log`() async throws {
        let world = try await dropped(2)
        try world.outside(0, "UPDATE album SET title = 'eins' WHERE id = 1; DELETE FROM album WHERE id = 2")
        try await world.sync(0)
        #expect(try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        _ = try await world.relay.purge(rules)
        try world.outside(1, "UPDATE review SET words = 'mine' WHERE id = 1; UPDATE artist SET name = 'mine'")
        #expect(try await world.sync(1).cameBack != nil)
        #expect(try await texts(world, 1, "SELECT id, words FROM review ORDER BY id") == ["1 mine", "3 none"])
        #expect(try await world.stores[1].status().removedTables == ["review"])
        try await world.settle()
        #expect(try await texts(world, 0, "SELECT name FROM artist") == ["mine"])
        #expect(try await world.stores[1].verify().isEmpty)
        try world.outside(1, Self.drop)
        try await world.expectAlike()
    }

    @Test func `a table to which another refers is refused by name, and both can be dropped together`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE review SET album = NULL")
        let sql = "DROP TABLE album"
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.stores[0].migrate(label: "no", sql: sql) })
        #expect(error.code == .schemaRefused && error.message.contains("review refers to it"), "\(error.message)")
        #expect(try await tables(world, 0) == ["album", "artist", "review"])
        try await world.stores[0].migrate(label: "yes", sql: "DROP TABLE review; DROP TABLE album")
        try await world.settle()
        #expect(try await world.stores[1].status().removedTables == ["album", "review"])
        try world.outside(1, "DROP TABLE review; DROP TABLE album")
        try await world.expectAlike()
    }

    @Test func `the table of a migration tool is no copy of a dropped table`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let journal = "CREATE TABLE django_migrations (id INTEGER PRIMARY KEY, app TEXT, name TEXT, applied TEXT)"
        for index in [0, 1] { try world.outside(index, journal) }
        try world.outside(0, "CREATE TABLE publisher (id INTEGER PRIMARY KEY, name TEXT)")
        try await world.settle()
        try world.outside(0, "DROP TABLE publisher")
        try await world.expectAlike()
        #expect(try await world.stores[1].status().missingSchema.isEmpty)
    }

    @Test func `a rebuild by a tool in several transactions is not taken for a removal`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try world.outside(
            0,
            "CREATE TABLE temporary (id INTEGER PRIMARY KEY, words TEXT, album INTEGER REFERENCES album(id) ON DELETE CASCADE, stars INTEGER)"
        )
        try world.outside(0, "INSERT INTO temporary SELECT *, 5 FROM review")
        try world.outside(0, Self.drop)
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.sync(0) })
        #expect(error.code == .schemaRefused && error.message.contains("temporary has all of its columns"), "\(error.message)")
        try world.outside(0, "ALTER TABLE temporary RENAME TO review; UPDATE review SET words = 'after' WHERE id = 2")
        try await world.settle()
        #expect(try await world.stores[1].status().missingSchema == ["review.stars"])
        #expect(try await texts(world, 1, "SELECT words FROM review ORDER BY id") == ["good", "after", "none"])
    }

    @Test(arguments: ["album", "nothing", "review"])
    func `an entry of a member removes only tables to which no other refers`(table: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        let description = try await world.relay.describe()
        var body = BodyEncoder(info: TransactionInfo(id: .random(), time: HybridTime(milliseconds: 1), origin: .migration))
        body.schema(SchemaEntry(version: 2, statements: ["DROP TABLE \(table)", "DROP TABLE artist"], tracked: [], isBreaking: false))
        var batch = BatchEncoder(
            lineage: description.lineage, signer: .random(), firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1)
        batch.append(body: body.finish(), base: description.head, footprint: .everything)
        _ = try await world.relay.push(batch.finish().bytes, seen: LogMark(lineage: description.lineage))
        try world.outside(0, "UPDATE album SET title = 'still' WHERE id = 1")
        try await world.settle()
        #expect(try await texts(world, 1, "SELECT title FROM album WHERE id = 1") == ["still"])
        #expect(try await world.stores[1].status().removedTables == (table == "review" ? ["review"] : []))
        #expect(try await world.stores[1].verify().isEmpty)
    }

    @Test func `a store that joins brings back no table that the space removed`() async throws {
        let world = try await dropped(1)
        try await world.settle()
        let path = world.folder.file("more.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: Self.schema) }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("more"))
        _ = try await store.track(.all)
        let error = try #require(
            await #expect(throws: AnnalsError.self) {
                _ = try await world.joining("more").join(store, existing: .sameKey, schema: .additions, references: .ignore)
            })
        #expect(error.code == .schemaRefused && error.message.contains("removed its table review"), "\(error.message)")
        _ = try await store.untrack(["review"])
        _ = try await world.joining("more").join(store, existing: .sameKey, references: .ignore)
        world.add(store)
        try await world.expectAlike()
    }

    @Test func `a conflict of the table waits for nobody, and does not change a later table of that name`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.stores[0].setPolicies([PolicySetting(table: "review", aspect: .update, policy: "manual")])
        try await world.settle()
        try world.outside(1, "UPDATE review SET words = 'one' WHERE id = 1")
        try world.outside(0, "UPDATE review SET words = 'two' WHERE id = 1")
        try await world.settle()
        #expect(try await world.stores[0].conflicts(limit: 9, onlyUnresolved: true).map(\.layout?.columns) == [["id", "words", "album"]])
        for store in world.stores {
            try await store.migrate(label: "v2", sql: Self.drop)
            try await world.settle()
        }
        #expect(try await world.stores[1].conflicts(limit: 9, onlyUnresolved: true).isEmpty)
        for store in world.stores {
            try await store.migrate(label: "v3", tracking: .all) { db in
                try db.execute(sql: "CREATE TABLE review (id INTEGER PRIMARY KEY, words TEXT); INSERT INTO review VALUES (1, 'new')")
            }
        }
        try await world.expectAlike()
        let conflict = try #require(try await world.stores[0].conflicts(limit: 9).first)
        #expect(conflict.layout?.columns == ["id", "words", "album"])
        let error = try #require(
            await #expect(throws: AnnalsError.self) { try await world.stores[0].resolve(conflict.conflict.id, taking: .stored) })
        #expect(error.code == .notTracked)
        #expect(try await texts(world, 0, "SELECT words FROM review") == ["new"])
    }

    @Test func `a new reference to a table that another replica removed is refused by name`() async throws {
        let world = try await dropped(2)
        try world.outside(1, "CREATE TABLE vote (id INTEGER PRIMARY KEY, review INTEGER REFERENCES review(id))")
        _ = try await world.stores[1].track(.all)
        try await world.sync(0)
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.settle() })
        #expect(error.code == .schemaRefused && error.message.contains("vote refers to review"), "\(error.message)")
        try world.outside(1, "DROP TABLE vote; UPDATE album SET title = 'on' WHERE id = 1")
        try await world.expectAlike()
    }
}
