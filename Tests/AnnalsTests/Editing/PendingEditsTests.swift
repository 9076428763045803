import Annals
import Synchronization
import Testing

@Suite("Unsaved edits")
struct PendingEditsTests {
    private func names(_ context: EditContext, _ query: Query<Player>) async throws -> [String] {
        try await context.fetch(query).map(\.name)
    }

    @Test("are seen by fetches, with conditions, order and limit")
    func fetches() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.score = 99 }
        try context.edit(players[2]) { $0.mail = "cleo@x" }
        try context.delete(players[1])
        try context.insert(Player(name: "Dora", score: 50))
        #expect(try await names(context, Player.query.descending("score")) == ["Ada", "Dora", "Cleo"])
        #expect(try await names(context, Player.query.and(Column("score") >= 50).ascending("score")) == ["Dora", "Ada"])
        #expect(try await names(context, Player.query.and(Column("mail") == "cleo@x")) == ["Cleo"])
        #expect(try await names(context, Player.query.descending("score").limit(1, offset: 1)) == ["Dora"])
        // A generated column and one that the record does not write.
        #expect(try await names(context, Player.query.and(Column("shout") == "DORA")) == ["Dora"])
        // Nothing is left of it, here and for others.
        #expect(try await league.store.fetch(Player.query.descending("score")).map(\.name) == ["Cleo", "Ben", "Ada"])
        #expect(try await league.store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM temp.sqlite_master") } == 0)
        try await context.save()
        #expect(try await names(context, Player.query.descending("score")) == ["Ada", "Dora", "Cleo"])
    }

    @Test("of several tables are seen by joined requests")
    func joined() async throws {
        let league = try await League()
        let context = try await league.store.editContext()
        let team = try context.insert(Team(name: "Greens"))
        try context.insert(Player(name: "Dora", team: team.id))
        let teams = try await context.fetch(Team.query.ascending("name"))
        try context.edit(teams[0]) { $0.name = "Azure" }
        let request = { @Sendable in
            Player.all().joining(required: Player.belongsTo(Team.self, using: ForeignKey(["team"])).filter(Column("name") >= "B"))
                .order(Column("name"))
        }
        #expect(try await context.fetch(request()).map(\.name) == ["Ada", "Ben", "Dora"])
    }

    @Test("are seen in a file with a pool, beside a writer, and a child sees its own and its parent's")
    func pool() async throws {
        let folder = try ScratchFolder()
        let store = try Store(wrapping: DatabasePool(path: folder.file("league.db")))
        try await store.write { db in try db.execute(sql: League.schema) }
        try await store.track(.all)
        let context = try await store.editContext()
        try context.insert(Player(name: "Dora", score: 5))
        let sheet = context.child()
        try sheet.insert(Player(name: "Dan", score: 6))
        try await store.write { db in try db.execute(sql: "UPDATE player SET score = 7 WHERE id = 1") }
        #expect(try await sheet.fetch(Player.query.and(Column("score") < 10).ascending("score")).map(\.name) == ["Dora", "Dan", "Ada"])
        #expect(try await context.fetch(Player.query.and(Column("score") < 10).ascending("score")).map(\.name) == ["Dora", "Ada"])
    }

    @Test("are seen by a list over a context, which has a snapshot for each edit and each commit that changes it")
    func lists() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        var list = FetchedResults(PlayerItem.query.descending("score"), in: context).makeAsyncIterator()
        func next() async throws -> [String] { try #require(await list.next()).allItems.map(\.name) }
        #expect(try await next() == ["Cleo", "Ben", "Ada"])
        try context.edit(players[0]) { $0.score = 25 }
        #expect(try await next() == ["Cleo", "Ada", "Ben"])
        try context.insert(Player(name: "Dora", score: 99))
        #expect(try await next() == ["Dora", "Cleo", "Ada", "Ben"])
        try context.delete(players[2])
        #expect(try await next() == ["Dora", "Ada", "Ben"])
        try await league.other("INSERT INTO player(name, score) VALUES ('Eve', 50)")
        #expect(try await next() == ["Dora", "Eve", "Ada", "Ben"])
        try await context.save()
        #expect(try await league.store.fetch(Player.query).count == 4)
        context.discard()
        try await league.other("DELETE FROM player WHERE name = 'Eve'")
        var last: [String] = []
        while last != ["Dora", "Ada", "Ben"] { last = try await next() }
    }

    @Test("are observed: each change of the edits is reported")
    func changes() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        var changes = context.changes().makeAsyncIterator()
        #expect(await changes.next() != nil)
        try context.edit(players[0]) { $0.score = 1 }
        #expect(await changes.next() != nil && context.hasChanges)
        try await context.save()
        #expect(await changes.next() != nil && !context.hasChanges)
        let sheet = context.child()
        try sheet.edit(players[1]) { $0.score = 2 }
        try await sheet.save()
        #expect(await changes.next() != nil && context.hasChanges)
        context.discard()
        #expect(await changes.next() != nil && !context.hasChanges)
    }
}

/// A player as an item of a list.
private struct PlayerItem: Codable, Hashable, Identifiable, ActiveRecord {
    static let databaseTableName = "player"
    var id: Int64
    var name: String
    var score: Int
}

/// What a review found in fetches of unsaved edits.
@Suite("Unsaved edits of odd tables, and beside other work")
struct OddPendingEditsTests {
    private struct Event: Codable, Equatable, FetchableRecord, MutablePersistableRecord {
        static let databaseTableName = "event"
        var id: Int64?
        var day: String
        var notes = "none"
        var year: Int?

        func encode(to container: inout PersistenceContainer) {
            (container["id"], container["day"], container["notes"]) = (id, day, notes)
        }
    }

    /// Knows only two columns.
    private struct Short: Codable, FetchableRecord, MutablePersistableRecord {
        static let databaseTableName = "event"
        var id: Int64
        var day: String
    }

    private struct Code: Codable, Equatable, FetchableRecord, MutablePersistableRecord {
        static let databaseTableName = "code"
        var id: String
        var name: String
        var anything: String
    }

    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE event(
                        id INTEGER PRIMARY KEY, day TEXT, notes TEXT NOT NULL DEFAULT '', extra INTEGER,
                        year INTEGER AS (substr(day, 1, 4)), folded TEXT COLLATE NOCASE AS (notes));
                    CREATE TABLE code(id ANY PRIMARY KEY, name TEXT, anything ANY) STRICT, WITHOUT ROWID;
                    INSERT INTO event(id, day, notes) VALUES (1, '2024-05-01', 'Secret'), (2, '2023-01-01', 'b');
                    INSERT INTO code VALUES ('0012', 'a', '007'), (12, 'b', 'x');
                    """)
        }
        try await store.track(.all)
        return store
    }

    @Test("generated columns keep their type and collation")
    func generated() async throws {
        let context = try await store().editContext()
        let events = try await context.fetch(Event.order(Column("id")))
        try context.edit(events[1]) { $0.day = "2024-12-31" }
        try context.edit(events[0]) { $0.notes = "SECRET" }
        #expect(try await context.fetch(Event.filter(Column("year") == 2024).order(Column("id"))).map(\.year) == [2024, 2024])
        #expect(try await context.fetch(Event.filter(Column("folded") == "secret")).map(\.id) == [1])
    }

    @Test("columns that were not read have their stored values")
    func unread() async throws {
        let context = try await store().editContext()
        try context.update(Short(id: 1, day: "2025-01-01"), from: Short(id: 1, day: "2024-05-01"))
        #expect(try await context.fetch(Event.filter(Column("notes") == "Secret")).map(\.day) == ["2025-01-01"])
    }

    @Test("values of a column without a type are not converted")
    func any() async throws {
        let context = try await store().editContext()
        let code = try #require(await context.fetchOne(Code.filter(Column("name") == "a")))
        try context.edit(code) { $0.name = "A" }
        let found = try #require(await context.fetchOne(Code.filter(Column("name") == "A")))
        #expect(found == Code(id: "0012", name: "A", anything: "007"))
        #expect(try await context.store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM code") } == 2)
    }

    @Test("a column that was removed while it is edited is an error, and no value gets into another column")
    func removed() async throws {
        let store = try await store()
        let context = try await store.editContext()
        let events = try await context.fetch(Event.order(Column("id")))
        let sheet = context.child()
        try sheet.edit(events[0]) { $0.notes = "mine" }
        try sheet.edit(events[1]) { $0.day = "2020-01-01" }
        try await store.migrate(label: "v2", rebuilding: ["event"]) { db in
            try db.execute(sql: "ALTER TABLE event DROP COLUMN folded; ALTER TABLE event DROP COLUMN notes")
        }
        let fetching = await #expect(throws: AnnalsError.self) { _ = try await sheet.fetch(Short.all()) }
        let saving = await #expect(throws: AnnalsError.self) { try await sheet.save() }
        #expect(fetching?.code == .usage && saving?.code == .usage)
        sheet.discard()
        #expect(try await sheet.fetch(Short.order(Column("id"))).map(\.day) == ["2024-05-01", "2023-01-01"])
    }

    @Test("a fetch that ends after a save or a discard brings nothing back")
    func late() async throws {
        let league = try await League()
        let context = try await league.store.editContext()
        try context.insert(Player(name: "Dora", score: 50))
        let isInside = Mutex(false)
        // The request is evaluated in the access, and the edits change before its rows are taken.
        let saved = try await context.fetch(
            try { () throws -> QueryInterfaceRequest<Player> in
                if !isInside.withLock({ $0 }) { isInside.withLock { $0 = true } }
                context.discard()
                return Player.order(Column("id"))
            }())
        #expect(saved.map(\.name) == ["Ada", "Ben", "Cleo"] && !context.hasChanges)
    }
}
