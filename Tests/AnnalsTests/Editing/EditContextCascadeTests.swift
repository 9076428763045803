import Annals
import Testing

@Suite("Edits whose save moves other rows")
struct EditContextCascadeTests {
    private func context(_ league: League) async throws -> (EditContext, [Team], [Player]) {
        let context = try await league.store.editContext()
        return (context, try await context.fetch(Team.order(Column("id"))), try await context.fetch(Player.order(Column("id"))))
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
