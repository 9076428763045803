import Annals
import Testing

@Suite("Edits whose save moves other rows")
struct EditContextCascadeTests {
    private func context(_ league: League) async throws -> (EditContext, [Team], [Player]) {
        let context = try await league.store.editContext()
        return (context, try await context.fetch(Team.order(Column("id"))), try await context.fetch(Player.order(Column("id"))))
    }

    @Test("what a save's own cascade sets is known afterwards, and no change by others")
    func nullified() async throws {
        let league = try await League(onDelete: "SET NULL")
        let (context, teams, players) = try await context(league)
        try context.delete(teams[0])
        try await context.save()
        #expect(!context.hasChanges)
        #expect(try context.record(Player.self, for: .player(1)) == Player(id: 1, name: "Ada", score: 10, mail: "ada@x"))
        try context.edit(players[0]) { $0.score = 11 }
        try await context.save()
        #expect(try await league.player(1) == Player(id: 1, name: "Ada", score: 11, mail: "ada@x"))
    }

    @Test("what a save's own cascade deletes is gone from the context")
    func cascaded() async throws {
        let league = try await League(onDelete: "CASCADE")
        let (context, teams, _) = try await context(league)
        try context.delete(teams[0])
        try await context.save()
        #expect(!context.hasChanges)
        #expect(try context.record(Player.self, for: .player(1)) == nil)
        #expect(try context.record(Player.self, for: .player(3)) != nil)
    }

    @Test("what a trigger of the save's own writes is known afterwards")
    func triggered() async throws {
        let league = try await League()
        try await league.other(
            """
            CREATE TRIGGER count_players AFTER INSERT ON player
            BEGIN UPDATE team SET name = name || '+' WHERE id = new.team; END;
            """)
        let (context, teams, _) = try await context(league)
        try context.insert(Player(name: "Dora", team: 1))
        try await context.save()
        #expect(try context.record(Team.self, for: .team(1))?.name == "Reds+")
        try context.edit(teams[0]) { $0.name += "!" }
        try await context.save()
        #expect(try await league.store.read { try Team.fetchOne($0, key: 1)?.name } == "Reds+!")
    }

    @Test("what others changed before is still a conflict")
    func others() async throws {
        let league = try await League(onDelete: "SET NULL")
        let (context, teams, players) = try await context(league)
        try await league.other("UPDATE player SET score = 99 WHERE id = 3")
        try context.delete(teams[0])
        try await context.save()
        try context.edit(players[2]) { $0.score = 31 }
        #expect(try await saveError { try await context.save() }.conflicts.map(\.identifier) == [.player(3)])
    }

    @Test("an edited child goes with its parent")
    func editedChild() async throws {
        let league = try await League(onDelete: "CASCADE")
        let (context, teams, players) = try await context(league)
        try context.edit(players[0]) { $0.score = 11 }
        try context.delete(teams[0])
        try await context.save()
        #expect(!context.hasChanges)
        #expect(try await league.store.read { try Player.fetchAll($0).map(\.name) } == ["Cleo"])
    }

    @Test(
        "a child that moves to another parent, an old or a new one, outlives its own", arguments: [true, false], ["CASCADE", "RESTRICT"])
    func movedChild(isNew: Bool, rule: String) async throws {
        let league = try await League(onDelete: rule)
        let (context, teams, players) = try await context(league)
        try context.delete(teams[0])
        let team = isNew ? try context.insert(Team(name: "Greens")).id : 2
        for player in players.prefix(2) { try context.edit(player) { $0.team = team } }
        try await context.save()
        #expect(!context.hasChanges)
        let found = try await league.store.read { db in
            try String.fetchAll(
                db, sql: "SELECT player.name || ' ' || team.name FROM player JOIN team ON team.id = team ORDER BY player.id")
        }
        #expect(found == (isNew ? ["Ada Greens", "Ben Greens", "Cleo Blues"] : ["Ada Blues", "Ben Blues", "Cleo Blues"]))
    }
}
