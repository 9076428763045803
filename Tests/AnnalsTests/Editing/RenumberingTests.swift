import Annals
import AnnalsTesting
import Foundation
import Testing

/// Two replicas that assign the same integer keys.
private struct Replicas {
    let file: TemporaryFile
    let relay: MemoryRelay
    let stores: [Store]

    init() async throws {
        file = try TemporaryFile("relay")
        let address = try SpaceAddress("league", at: "http://127.0.0.1:1", as: "a")
        relay = try MemoryRelay(space: address.space, clock: ManualClock(milliseconds: 1_800_000_000_000))
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        let first = try Store(path: file.folder + "/a.db", configuration: configuration)
        try await first.write { db in
            try db.execute(sql: League.schema)
            try db.execute(
                sql: """
                    CREATE TABLE goal (
                        player INTEGER NOT NULL REFERENCES player (id), minute INTEGER NOT NULL, how TEXT, PRIMARY KEY (player, minute))
                    """)
        }
        try await first.track(.all)
        try await SyncAgent(store: first, transport: relay, joining: address).sync()
        stores = [first, try await address.clone(to: file.folder + "/b.db", over: relay)]
    }

    /// The first replica gives the next key to another row, and pushes it first.
    func take(_ name: String) async throws {
        try await stores[0].write { db in try db.execute(sql: "INSERT INTO player (name) VALUES (?)", arguments: [name]) }
        try await sync(0)
        try await sync(1)
    }

    func sync(_ index: Int) async throws {
        _ = try await SyncAgent(store: stores[index], transport: relay).sync()
    }
}

private struct Goal: Codable, Equatable, Sendable, FetchableRecord, PersistableRecord {
    var player: Int64
    var minute: Int
    var how: String?
}

@Suite("Integer keys that another replica gave out first")
struct RenumberingTests {
    @Test("a context goes on with the row under its new key, with what refers to it, and with edits of both")
    func context() async throws {
        let replicas = try await Replicas()
        let store = replicas.stores[1]
        try await store.write { db in
            try db.execute(sql: "INSERT INTO player (id, name) VALUES (4, 'Dora'); INSERT INTO goal VALUES (4, 90, 'foot')")
        }
        let context = try await store.editContext()
        let dora = try #require(try await context.find(Player.self, .player(4)))
        let goal = try #require(try await context.fetchOne(Goal.all()))
        try context.edit(dora) { $0.score = 1 }
        try context.edit(goal) { $0.how = "head" }
        try context.insert(Goal(player: 4, minute: 91, how: nil))

        try await replicas.stores[0].write { db in try db.execute(sql: "INSERT INTO player (id, name) VALUES (4, 'Emil')") }
        try await replicas.sync(0)
        try await replicas.sync(1)
        #expect(try await store.read { try Player.fetchOne($0, key: 4)?.name } == "Emil")

        try await context.save()
        let players = try await store.read { try Player.filter(Column("id") > 3).order(Column("id")).fetchAll($0) }
        #expect(players.map(\.name) == ["Emil", "Dora"])
        #expect(players.map(\.score) == [0, 1])
        let number = try #require(players.last?.id)
        #expect(
            try await store.read { try Goal.order(Column("minute")).fetchAll($0) } == [
                Goal(player: number, minute: 90, how: "head"), Goal(player: number, minute: 91, how: nil),
            ])
        #expect(context.current(.player(4)) == .player(number))
        #expect(try context.record(Player.self, for: .player(4))?.name == "Dora")
    }

    @Test("old identifiers are translated, from the point of history on at which they meant the row")
    func current() async throws {
        let replicas = try await Replicas()
        let store = replicas.stores[1]
        try await store.write { db in try db.execute(sql: "INSERT INTO player (id, name) VALUES (4, 'Dora')") }
        let before = try await store.latestToken()
        var changes = store.remoteChanges.makeAsyncIterator()
        #expect(try await store.current(.player(4)) == .player(4))
        try await replicas.stores[0].write { db in try db.execute(sql: "INSERT INTO player (id, name) VALUES (4, 'Emil')") }
        try await replicas.sync(0)
        try await replicas.sync(1)
        let new = try await store.read { try Player.filter(Column("name") == "Dora").fetchOne($0)?.id }
        let number = try #require(new)
        #expect(number != 4)
        #expect(try await store.current(.player(4), since: before) == .player(number))
        #expect(try await store.current(.player(4)) == .player(number))
        let after = try await store.latestToken()
        #expect(try await store.current(.player(4), since: after) == .player(4))
        #expect(try await store.current(.player(1)) == .player(1))

        var told: [RenumberedRow] = []
        while let change = try await changes.next() {
            told += change.renumbered
            if !(change.token < after) { break }
        }
        #expect(told.map(\.old) == [.player(4)] && told.map(\.new) == [.player(number)])
        // After all replicas are in sync, no further changes are reported.
        let quiet = store.remoteChanges(after: after)
        try await replicas.sync(1)
        try await store.write { db in try db.execute(sql: "UPDATE player SET score = 1 WHERE id = 1") }
        var rest = quiet.makeAsyncIterator()
        #expect(try await rest.next()?.renumbered == [])
    }

    @Test("two rows that a sync moves past each other are told apart")
    func chains() async throws {
        let replicas = try await Replicas()
        let store = replicas.stores[1]
        try await store.write { db in try db.execute(sql: "INSERT INTO player (id, name) VALUES (4, 'Dora'), (5, 'Fay')") }
        let context = try await store.editContext()
        let mine = try await context.fetch(Player.filter(Column("id") > 3).order(Column("id")))
        try context.edit(mine[0]) { $0.score = 1 }
        try context.edit(mine[1]) { $0.score = 2 }
        for name in ["Emil", "Gus"] {
            try await replicas.stores[0].write { db in try db.execute(sql: "INSERT INTO player (name) VALUES (?)", arguments: [name]) }
            try await replicas.sync(0)
            try await replicas.sync(1)
        }
        try await context.save()
        let players = try await store.read { try Player.filter(Column("id") > 3).order(Column("name")).fetchAll($0) }
        #expect(players.map(\.name) == ["Dora", "Emil", "Fay", "Gus"])
        #expect(players.map(\.score) == [1, 0, 2, 0])
        let names = try await store.current(.player(4))
        #expect(try await store.read { try Player.fetchOne($0, key: names.key[0].databaseValue)?.name } == "Dora")
    }

    @Test("a savepoint from before a row got another key is undone to under the new key")
    func savepoints() async throws {
        let replicas = try await Replicas()
        let store = replicas.stores[1]
        try await store.write { db in try db.execute(sql: "INSERT INTO player (id, name) VALUES (4, 'Dora')") }
        let context = try await store.editContext()
        let dora = try #require(try await context.find(Player.self, .player(4)))
        try context.edit(dora) { $0.score = 1 }
        let savepoint = context.savepoint()
        try await replicas.take("Emil")

        let renumbered = try #require(try await context.fetchOne(Player.filter(Column("name") == "Dora")))
        let number = try #require(renumbered.id)
        #expect(number != 4)
        try context.edit(renumbered) { $0.score = 2 }
        try context.undo(to: savepoint)
        #expect(try context.record(Player.self, for: .player(number))?.score == 1)
        #expect(context.edits.updated == [.player(number)])
        try context.edit(renumbered) { $0.mail = "dora@x" }
        try await context.save()
        #expect(!context.hasChanges)
        let players = try await store.read { try Player.filter(Column("id") > 3).order(Column("id")).fetchAll($0) }
        #expect(players == [Player(id: 4, name: "Emil"), Player(id: number, name: "Dora", score: 1, mail: "dora@x")])
    }

    @Test("the row that has the old key now is another one, also where it is fetched while a save runs")
    func oldKey() async throws {
        let replicas = try await Replicas()
        let store = replicas.stores[1]
        try await store.write { db in try db.execute(sql: "INSERT INTO player (id, name) VALUES (4, 'Dora')") }
        let context = try await store.editContext()
        let dora = try #require(try await context.find(Player.self, .player(4)))
        try context.edit(dora) { $0.score = 7 }
        try await replicas.take("Emil")
        try await store.write { db in try db.execute(sql: "UPDATE player SET mail = 'dora@x' WHERE name = 'Dora'") }
        try await context.save(
            mergePolicy: .custom(
                Meanwhile {
                    let emil = try #require(try await context.fetchOne(Player.filter(Column("name") == "Emil")))
                    try context.edit(emil) { $0.score = 100 }
                }))
        #expect(context.edits.updated == [.player(4)])
        try await context.save()
        #expect(!context.hasChanges)
        let players = try await store.read { try Player.filter(Column("id") > 3).order(Column("id")).fetchAll($0) }
        #expect(players.map(\.name) == ["Emil", "Dora"])
        #expect(players.map(\.score) == [100, 7])
    }

    /// A context with an edit of a row that got another key since it was read. Also returns the new key.
    private func overtaken(_ replicas: Replicas) async throws -> (EditContext, Int64) {
        let store = replicas.stores[1]
        try await store.write { db in try db.execute(sql: "INSERT INTO player (id, name) VALUES (4, 'Dora')") }
        let context = try await store.editContext(mergePolicy: .mergeByPropertyObjectTrump)
        let dora = try #require(try await context.find(Player.self, .player(4)))
        try context.edit(dora) { $0.score = 5 }
        try await replicas.take("Emil")
        return (context, try #require(try await store.read { try Player.filter(Column("name") == "Dora").fetchOne($0)?.id }))
    }

    @Test("a store that left its space still knows what its rows were called")
    func leaving() async throws {
        let replicas = try await Replicas()
        let store = replicas.stores[1]
        let before = try await store.latestToken()
        let (context, number) = try await overtaken(replicas)
        try await store.leave(force: true)
        #expect(try await store.current(.player(4), since: before) == .player(number))
        try await context.save()
        let players = try await store.read { try Player.filter(Column("id") > 3).order(Column("name")).fetchAll($0) }
        #expect(players == [Player(id: number, name: "Dora", score: 5), Player(id: 4, name: "Emil")])
    }

    @Test("a context from before a purge that took the notes along does not guess")
    func purged() async throws {
        let replicas = try await Replicas()
        let store = replicas.stores[1]
        let (context, _) = try await overtaken(replicas)
        _ = try await store.purge(.days(0), mode: .force)
        let error = await #expect(throws: AnnalsError.self) { try await context.save() }
        #expect(error?.code == .tokenExpired)
        context.discard()
        #expect(try await context.fetch(Player.filter(Column("id") > 3)).count == 2)
        let players = try await store.read { try Player.filter(Column("id") > 3).fetchAll($0) }
        #expect(players.allSatisfy { $0.score == 0 })
    }

    @Test("a column whose policy in the space combines is combined by a save as by a sync")
    func combining() async throws {
        let replicas = try await Replicas()
        let store = replicas.stores[1]
        try await store.setPolicies([PolicySetting(table: "player", column: "score", aspect: .update, policy: "sum")])
        for policy in [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump] {
            let context = try await store.editContext(mergePolicy: policy)
            let ada = try #require(try await context.find(Player.self, .player(1)))
            try context.edit(ada) { $0.score += 5 }
            try await store.write { db in try db.execute(sql: "UPDATE player SET score = score + 100 WHERE id = 1") }
            try await context.save()
            #expect(try await store.read { try Player.fetchOne($0, key: 1)?.score } == ada.score + 105)
        }
    }
}
