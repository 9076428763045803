import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsStore
import AnnalsSync
import GRDB
import Testing

/// Indexes that user triggers maintain, when rows arrive without these triggers.
@Suite("Full-text indexes in new replicas")
struct FullTextTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT);
        CREATE VIRTUAL TABLE five USING fts5 (body, content = 'note', content_rowid = 'id');
        CREATE VIRTUAL TABLE four USING fts4 (content="note", body);
        CREATE VIRTUAL TABLE own USING fts5 (body);
        CREATE VIRTUAL TABLE bare USING fts5 (body, content = '');
        CREATE TABLE scratch (line TEXT);
        CREATE TRIGGER note_ai AFTER INSERT ON note BEGIN
            INSERT INTO five (rowid, body) VALUES (new.id, new.body);
            INSERT INTO four (docid, body) VALUES (new.id, new.body);
            INSERT INTO own (rowid, body) VALUES (new.id, new.body);
        END;
        CREATE TRIGGER note_bu BEFORE UPDATE ON note BEGIN
            DELETE FROM four WHERE docid = old.id;
        END;
        CREATE TRIGGER note_au AFTER UPDATE ON note BEGIN
            INSERT INTO five (five, rowid, body) VALUES ('delete', old.id, old.body);
            INSERT INTO five (rowid, body) VALUES (new.id, new.body);
            INSERT INTO four (docid, body) VALUES (new.id, new.body);
            DELETE FROM own WHERE rowid = old.id;
            INSERT INTO own (rowid, body) VALUES (new.id, new.body);
        END;
        """
    private static let rows = "INSERT INTO note VALUES (1, 'red apple'), (2, 'green pear'), (3, 'blue plum');"
    private static let check = """
        INSERT INTO five (five, rank) VALUES ('integrity-check', 1);
        INSERT INTO four (four) VALUES ('integrity-check');
        """

    private func expectIndexed(_ path: String, _ word: String, _ row: Int64) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { db in
            try db.execute(sql: Self.check)
            for index in ["five", "four"] {
                let found = try Int64.fetchAll(db, sql: "SELECT rowid FROM \(index) WHERE \(index) MATCH '\(word)'")
                #expect(found == [row], "\(index)")
            }
        }
        try queue.close()
    }

    @Test("a clone's indexes with external content hold its rows, and follow writes of both sides")
    func clone() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema + Self.rows)
        let path = world.folder.file("clone.db")
        let clone = try await world.joining("clone").clone(to: path)
        #expect(clone.emptyTables == ["bare", "own", "scratch"])
        try expectIndexed(path, "pear", 2)
        world.add(try Store(path: path, configuration: world.configuration("clone")))
        try world.outside(1, "UPDATE note SET body = 'yellow pear' WHERE id = 2")
        try world.outside(0, "UPDATE note SET body = 'black plum' WHERE id = 3")
        try await world.settle()
        for store in world.stores { try expectIndexed(store.path, "yellow", 2) }
        for store in world.stores { try expectIndexed(store.path, "black", 3) }
    }

    @Test("a clone that begins before the log's end keeps its indexes in step, full-text and R-tree", arguments: [false, true])
    func log(hasFunctions: Bool) async throws {
        let boxes = """
            CREATE VIRTUAL TABLE box USING rtree (id, low, high);
            CREATE TRIGGER note_box AFTER INSERT ON note BEGIN INSERT INTO box VALUES (new.id, new.id, new.id + 1); END;
            """
        let world = try await SyncedStores(replicas: 1, schema: Self.schema + boxes + Self.rows)
        let first = world.folder.file("first.db")
        _ = try await world.joining("first").clone(to: first)
        world.add(try Store(path: first, configuration: world.configuration("first")))
        try world.outside(0, "UPDATE note SET body = 'yellow pear' WHERE id = 2; INSERT INTO note VALUES (4, 'grey fig')")
        try await world.settle()

        let path = world.folder.file("clone.db")
        var configuration = world.configuration("clone")
        // A function of the program that nothing in the schema calls.
        if hasFunctions {
            configuration.prepareDatabase = { db in db.add(function: DatabaseFunction("shout", argumentCount: 1) { $0[0] }) }
        }
        _ = try await Joining(
            transport: world.relay, address: "http://127.0.0.1:1", space: world.space, name: "clone", configuration: configuration,
            environment: world.environment
        ).clone(to: path)
        try expectIndexed(path, "yellow", 2)
        let queue = try DatabaseQueue(path: path)
        #expect(try await queue.read { db in try Int64.fetchAll(db, sql: "SELECT id FROM box") } == [1, 2, 3, 4])
        try queue.close()
    }

    @Test("so do those of an empty store that joins, and those of a replayed file")
    func joinAndReplay() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema + Self.rows)
        let path = world.folder.file("joining.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: Self.schema) }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("joining"))
        try await store.track(.tables(["note"]))
        _ = try await world.joining("joining").join(store, existing: .theirs)
        try expectIndexed(path, "pear", 2)

        try world.outside(0, "UPDATE note SET body = 'yellow pear' WHERE id = 2")
        let start = try await world.stores[0].token(named: "start")
        let outcome = try await world.stores[0].replay(to: start, output: world.folder.file("replayed.db"))
        #expect(outcome.notes == ["untracked tables are empty: bare, own, scratch"])
        try expectIndexed(world.folder.file("replayed.db"), "green", 2)
    }

    @Test("an index that lost its rows is named when it stands in the way, and the store is whole")
    func damaged() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema + Self.rows)
        try world.outside(1, "INSERT INTO five (five) VALUES ('delete-all')")
        try world.outside(0, "UPDATE note SET body = 'yellow pear' WHERE id = 2")
        try await world.sync(0)
        do {
            try await world.sync(1)
            Issue.record("the update went through")
        } catch let error as AnnalsError {
            #expect(error.code == .constraint)
            #expect(error.message == "the full-text index five does not match its rows")
            #expect(error.hint?.contains("INSERT INTO five(five) VALUES('rebuild')") == true)
        }
        try world.outside(1, "INSERT INTO five (five) VALUES ('rebuild')")
        try await world.settle()
        try expectIndexed(world.stores[1].path, "yellow", 2)
    }
}
