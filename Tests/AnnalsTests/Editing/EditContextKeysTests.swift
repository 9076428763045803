import Annals
import Testing

@Suite("Keys of rows that are new in a context")
struct EditContextKeysTests {
    private struct Small: Codable, Sendable, FetchableRecord, MutablePersistableRecord {
        static let databaseTableName = "player"
        var id: Int16?
        var name: String
    }

    @Test("fit into small integers")
    func small() async throws {
        let league = try await League()
        let context = try await league.store.editContext()
        let dora = try context.insert(Small(name: "Dora"))
        #expect(dora.id == -1)
        try await context.save()
        #expect(try await league.player(4)?.name == "Dora")
        #expect(context.current(.player(-1)) == .player(4))
    }

    @Test("are none that the store has, read or not")
    func negative() async throws {
        let league = try await League()
        try await league.other("INSERT INTO player (id, name) VALUES (-1, 'Zoe'), (-5, 'Yul')")
        let context = try await league.store.editContext()
        let zoe = try #require(try await context.find(Player.self, .player(-1)))
        let dora = try context.insert(Player(name: "Dora"))
        #expect(dora.id == -6)
        try context.edit(zoe) { $0.score = 1 }
        try await context.save()
        #expect(try await league.player(-1)?.score == 1)
        #expect(try await league.player(4)?.name == "Dora")
        let own = try context.insert(Player(id: -7, name: "Xan"))
        #expect(try context.insert(Player(name: "Fay")).id == -8)
        try await context.save()
        #expect(try await league.player(-7)?.name == own.name)
        #expect(try await league.player(5)?.name == "Fay")
    }

    @Test("are told from keys below zero that others give out meanwhile")
    func meanwhile() async throws {
        let league = try await League()
        let context = try await league.store.editContext()
        let greens = try context.insert(Team(name: "Greens"))
        try context.insert(Player(name: "Dora", team: greens.id))
        try await league.other("INSERT INTO team VALUES (-1, 'Whites'); UPDATE player SET team = -1 WHERE id = 3")
        let cleo = try #require(try await context.find(Player.self, .player(3)))
        try context.edit(cleo) { $0.score = 31 }
        let error = await #expect(throws: AnnalsError.self) { try await context.fetch(Team.all()) }
        #expect(error?.code == .usage)
        try await context.save()
        #expect(try await league.player(3)?.team == -1)
        #expect(try await league.player(4)?.team == 3)
        #expect(try await context.fetch(Team.order(Column("id"))).map(\.name) == ["Whites", "Reds", "Blues", "Greens"])
    }
}
