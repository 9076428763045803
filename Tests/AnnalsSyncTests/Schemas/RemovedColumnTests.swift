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

/// A column that one replica drops leaves the space. Replicas that still have it continue.
@Suite struct RemovedColumnTests {
    private static let schema = """
        CREATE TABLE album (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE song (
          id INTEGER PRIMARY KEY, title TEXT, notes TEXT NOT NULL, stars INTEGER DEFAULT 3, album INTEGER REFERENCES album(id));
        INSERT INTO album VALUES (1, 'first');
        INSERT INTO song VALUES (1, 'one', 'n1', 1, 1), (2, 'two', 'n2', 2, 1), (3, 'three', 'n3', 3, NULL);
        """
    private static let drop = "ALTER TABLE song DROP COLUMN notes"

    /// What a migration tool does without ALTER TABLE.
    private static func rebuild(_ columns: String, selecting selected: String) -> String {
        """
        CREATE TABLE song_new (\(columns)); INSERT INTO song_new SELECT \(selected) FROM song; DROP TABLE song;
        ALTER TABLE song_new RENAME TO song;
        """
    }
    private static let rebuilt = rebuild(
        "id INTEGER PRIMARY KEY, title TEXT, stars INTEGER DEFAULT 3, album INTEGER REFERENCES album(id)",
        selecting: "id, title, stars, album")

    private func texts(_ world: SyncedStores, _ index: Int, _ sql: String) async throws -> [String] {
        try await world.rows(index, sql).map { row in
            row.map { String.fromDatabaseValue($0) ?? Int.fromDatabaseValue($0).map(String.init) ?? "-" }.joined(separator: " ")
        }
    }

    @Test(arguments: [true, false])
    func `replicas with and without the column write on, and are alike after all have dropped it`(byTool: Bool) async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.outside(0, "UPDATE song SET notes = 'unsent', stars = 9 WHERE id = 1")
        if byTool {
            try world.outside(0, Self.rebuilt, foreignKeys: false)
        } else {
            try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        }
        try world.outside(0, "INSERT INTO song VALUES (10, 'ten', 5, 1); UPDATE song SET title = 'zwei' WHERE id = 2")
        try world.outside(1, "INSERT INTO song VALUES (11, 'eleven', 'n11', 4, 1); UPDATE song SET notes = 'new' WHERE id = 3")
        try await world.settle()
        #expect(try await world.stores[1].status().removedColumns == ["song.notes"])
        // Rows of a replica without the column have its default, or the empty value. Replicas with the column exchange its values.
        for index in [1, 2] {
            #expect(
                try await texts(world, index, "SELECT id, title, notes FROM song ORDER BY id")
                    == ["1 one \(byTool ? "n1" : "unsent")", "2 zwei n2", "3 three new", "10 ten ", "11 eleven n11"])
        }
        try world.outside(1, "UPDATE song SET notes = 'by 1' WHERE id = 10; DELETE FROM song WHERE id = 2")
        try world.outside(
            0, "DELETE FROM song WHERE id = 11; UPDATE song SET id = 30 WHERE id = 3; UPDATE song SET stars = 8 WHERE id = 10")
        try await world.settle()
        #expect(try await texts(world, 2, "SELECT id, notes FROM song ORDER BY id").last == "30 new")
        #expect(try await texts(world, 2, "SELECT stars, notes FROM song WHERE id = 10") == ["8 by 1"])
        #expect(try await texts(world, 0, "SELECT id, stars FROM song ORDER BY id") == ["1 9", "10 8", "30 3"])
        try await world.addClone("late")
        #expect(try await world.stores[3].read { db in try db.columns(in: "song").map(\.name) }.contains("notes") == false)
        try world.outside(1, "UPDATE song SET notes = 'ignored', title = 'kept' WHERE id = 1")
        try await world.stores[1].migrate(label: "v2", sql: Self.drop)
        try world.outside(2, Self.rebuilt, foreignKeys: false)
        try await world.expectAlike()
        #expect(try await texts(world, 3, "SELECT id, title FROM song ORDER BY id") == ["1 kept", "10 ten", "30 three"])
        for store in world.stores { #expect(try await store.status().removedColumns == []) }
    }

    @Test func `two replicas drop it at once, and unsent work with it is repeated without it`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        for index in [0, 1] {
            try world.outside(index, "UPDATE song SET notes = 'unsent \(index)' WHERE id = 1; UPDATE song SET notes = 'x' WHERE id = 2")
            try world.outside(index, "UPDATE song SET title = 'by \(index)' WHERE id <> 2")
            try world.outside(index, "INSERT INTO song VALUES (20, 'new \(index)', 'n', 1, 1)")
            _ = try await world.stores[index].prepareOutbox()
            try await world.stores[index].migrate(label: "v2", sql: Self.drop)
            world.clock.advance(.seconds(1))
        }
        try await world.settle()
        #expect(try await world.stores[2].prepareOutbox().schemaVersion == 2)
        try await world.stores[2].migrate(label: "v2", sql: Self.drop)
        try await world.expectAlike()
        #expect(
            try await texts(world, 2, "SELECT id, title FROM song ORDER BY id")
                == ["1 by 1", "2 two", "3 by 1", "20 new 0", "21 new 1"])
    }

    @Test func `a removal that was not sent yet stays while another schema entry arrives`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try await world.stores[0].migrate(label: "v2", sql: "ALTER TABLE song ADD COLUMN size INTEGER")
        try await world.sync(0)
        try await world.stores[1].migrate(label: "v2", sql: Self.drop)
        try await world.settle()
        #expect(try await world.stores[0].status().removedColumns == ["song.notes"])
        #expect(try await world.stores[1].status().missingSchema == ["song.size"])
        try await world.stores[0].migrate(label: "v3", sql: Self.drop)
        try await world.stores[1].migrate(label: "v3", sql: "ALTER TABLE song ADD COLUMN size INTEGER")
        try await world.expectAlike()
    }

    @Test func `a column that is added again is another column`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        try await world.stores[0].migrate(label: "v3", sql: "ALTER TABLE song ADD COLUMN notes TEXT DEFAULT 'again'")
        try world.outside(0, "UPDATE song SET notes = 'second' WHERE id = 1")
        try world.outside(1, "UPDATE song SET notes = 'first' WHERE id = 1; UPDATE song SET notes = 'first' WHERE id = 2")
        try await world.settle()
        #expect(try await texts(world, 0, "SELECT notes FROM song ORDER BY id") == ["second", "again", "again"])
        #expect(try await texts(world, 2, "SELECT notes FROM song ORDER BY id") == ["first", "first", "n3"])
        for index in [1, 2] {
            try await world.stores[index].migrate(label: "v2", sql: Self.drop)
            try await world.stores[index].migrate(label: "v3", sql: "ALTER TABLE song ADD COLUMN notes TEXT DEFAULT 'again'")
        }
        try world.outside(2, "UPDATE song SET notes = 'third' WHERE id = 3")
        try await world.expectAlike()
        #expect(try await texts(world, 1, "SELECT notes FROM song ORDER BY id") == ["second", "again", "third"])
    }

    @Test func `a replica that never had the column forgets its deferred values`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let add = "ALTER TABLE song ADD COLUMN size INTEGER"
        try await world.stores[0].migrate(label: "v2", sql: "\(add); UPDATE song SET size = 5")
        try await world.settle()
        #expect(try await world.stores[1].status().missingSchema == ["song.size"])
        try await world.stores[0].migrate(label: "v3", sql: "ALTER TABLE song DROP COLUMN size")
        try await world.settle()
        #expect(try await world.stores[1].status().missingSchema == [])
        #expect(try await world.rows(1, "SELECT count(*) FROM annals_kept") == [[0.databaseValue]])
        try world.outside(1, "UPDATE song SET title = 'a' WHERE id = 1")
        try await world.expectAlike()
    }

    @Test func `a store that takes its schema from the log drops the column, unless an index uses it`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        for index in [1, 2] { try world.reopen(index, newSchemas: .take) }
        try world.outside(2, "CREATE INDEX by_notes ON song(notes)")
        try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        try await world.settle()
        #expect(try await world.stores[1].read { db in try db.columns(in: "song").map(\.name) } == ["id", "title", "stars", "album"])
        #expect(try await world.stores[2].status().removedColumns == ["song.notes"])
        try world.outside(2, "DROP INDEX by_notes; UPDATE song SET title = 'x' WHERE id = 1")
        try await world.expectAlike()
        #expect(try await world.stores[2].status().removedColumns == [])
    }

    @Test func `a replica with the column comes back after a purge of the log`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        try world.outside(0, "UPDATE song SET title = 'eins' WHERE id = 1; INSERT INTO song VALUES (10, 'ten', 5, 1)")
        try await world.sync(0)
        try world.outside(2, "UPDATE song SET notes = 'lost to 1' WHERE id = 2")
        try await world.sync(2)
        try await world.sync(0)
        #expect(try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        _ = try await world.relay.purge(rules)
        try world.outside(1, "UPDATE song SET notes = 'mine' WHERE id = 1; UPDATE song SET stars = 7 WHERE id = 3")
        #expect(try await world.sync(1).cameBack != nil)
        #expect(
            try await texts(world, 1, "SELECT id, title, notes FROM song ORDER BY id")
                == ["1 eins mine", "2 two n2", "3 three n3", "10 ten "])
        // Both have the column, and different values there.
        try world.outside(2, "UPDATE song SET notes = 'by 2' WHERE id = 2; DELETE FROM song WHERE id = 3")
        try await world.settle()
        #expect(try await texts(world, 1, "SELECT id, notes FROM song ORDER BY id") == ["1 mine", "2 by 2", "10 "])
        for index in [1, 2] { try await world.stores[index].migrate(label: "v2", sql: Self.drop) }
        try await world.expectAlike()
    }

    @Test func `rows that were written unseen are found beside a removed column`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        try await world.settle()
        let triggers = try await texts(world, 1, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'song'")
        let sql = triggers.map { "DROP TRIGGER \($0);" }.joined()
        try world.outside(
            1, "\(sql) UPDATE song SET title = 'unseen', notes = 'mine' WHERE id = 1; INSERT INTO song(id, notes) VALUES (8, '')")
        #expect(try await world.sync(1).reconciled == 2)
        try await world.settle()
        #expect(try await texts(world, 0, "SELECT id, title FROM song ORDER BY id") == ["1 unseen", "2 two", "3 three", "8 -"])
        #expect(try await texts(world, 1, "SELECT notes FROM song ORDER BY id") == ["mine", "n2", "n3", ""])
    }

    @Test(arguments: [
        ("code INTEGER, d AS (code + 1)", "used by a generated column"), ("code INTEGER REFERENCES item(code) UNIQUE", "referenced by"),
        ("code INTEGER, PRIMARY KEY (id, code)", "primary key"),
    ])
    func `columns that the space needs are refused by name, and nothing is changed`(declared: String, reason: String) async throws {
        let key = declared.contains("PRIMARY") ? "" : " PRIMARY KEY"
        let world = try await SyncedStores(replicas: 2, schema: "CREATE TABLE item (id INTEGER\(key), name TEXT, \(declared)) ")
        let sql = """
            CREATE TABLE new_item (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO new_item SELECT id, name FROM item; DROP TABLE item;
            ALTER TABLE new_item RENAME TO item
            """
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.stores[0].migrate(label: "no", sql: sql) })
        #expect(error.code == .schemaRefused && error.message.contains("code") && error.message.contains(reason), "\(error.message)")
        try world.outside(0, "INSERT INTO item(id, code) VALUES (1, 2)", foreignKeys: false)
        try world.outside(0, "UPDATE item SET name = 'x'")
        if !declared.contains("REFERENCES") { try await world.expectAlike() }
    }

    @Test func `a removed and an added column of one type may be a rename, so sync asks`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let columns = "id INTEGER PRIMARY KEY, title TEXT, remarks TEXT, stars INTEGER DEFAULT 3, album INTEGER REFERENCES album(id)"
        try world.outside(0, Self.rebuild(columns, selecting: "id, title, NULL, stars, album"), foreignKeys: false)
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.sync(0) })
        #expect(error.code == .schemaRefused && (error.hint ?? "").contains("add notes again"), "\(error.hint ?? "")")
        try world.outside(0, "ALTER TABLE song ADD COLUMN notes TEXT NOT NULL DEFAULT ''")
        try await world.settle()
        try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        try await world.settle()
        for sql in [Self.drop, "ALTER TABLE song ADD COLUMN remarks TEXT"] { try await world.stores[1].migrate(label: "v2", sql: sql) }
        try await world.expectAlike()
    }

    @Test func `a column of another type that is added at the same time is no rename`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let sql = "\(Self.drop); ALTER TABLE song ADD COLUMN seconds INTEGER NOT NULL DEFAULT 0; UPDATE song SET seconds = 60 WHERE id = 1"
        try await world.stores[0].migrate(label: "v2", sql: sql)
        try world.outside(1, "UPDATE song SET notes = 'x', title = 'eins' WHERE id = 1")
        try await world.settle()
        try await world.stores[1].migrate(label: "v2", sql: sql)
        try await world.expectAlike()
        #expect(try await texts(world, 1, "SELECT title, seconds FROM song") == ["eins 60", "two 0", "three 0"])
    }

    @Test(arguments: ["id", "album", "nothing", "title"])
    func `an entry of a member removes only columns that replicas can do without`(column: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        let description = try await world.relay.describe()
        var body = BodyEncoder(info: TransactionInfo(id: .random(), time: HybridTime(milliseconds: 1), origin: .migration))
        body.schema(
            SchemaEntry(
                version: 2, statements: ["ALTER TABLE song DROP COLUMN \(column)", "ALTER TABLE gone DROP COLUMN x"], tracked: [],
                isBreaking: false))
        var batch = BatchEncoder(
            lineage: description.lineage, signer: .random(), firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1)
        batch.append(body: body.finish(), base: description.head, footprint: .everything)
        _ = try await world.relay.push(batch.finish().bytes, seen: LogMark(lineage: description.lineage))
        try world.outside(0, "UPDATE song SET title = 'still' WHERE id = 1")
        try await world.settle()
        #expect(try await texts(world, 1, "SELECT title FROM song WHERE id = 1") == ["still"])
        #expect(try await world.stores[1].status().removedColumns == (column == "title" ? ["song.title"] : []))
    }

    @Test func `a store that joins removes no column of the space, and brings back none that the space removed`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        try await world.stores[0].migrate(label: "v2", sql: Self.drop)
        try await world.settle()
        for (name, sql) in [("more", ""), ("fewer", Self.drop + "; ALTER TABLE song DROP COLUMN stars")] {
            let path = world.folder.file("\(name).db")
            let queue = try DatabaseQueue(path: path)
            try await queue.write { db in try db.execute(sql: Self.schema + sql) }
            try queue.close()
            let store = try Store(path: path, configuration: world.configuration(name))
            _ = try await store.track(.all)
            let error = try #require(
                await #expect(throws: AnnalsError.self) {
                    _ = try await world.joining(name).join(store, existing: .sameKey, references: .ignore)
                })
            #expect(error.code == .schemaRefused && error.message.contains(name == "more" ? "notes" : "stars"), "\(error.message)")
            try store.close()
        }
    }
}
