import Annals
import Testing

@Suite("Edits beside a save, and within an edit")
struct EditContextDuringSaveTests {
    /// A context with an edit that conflicts with another write, so that its policy is called.
    private func contested() async throws -> (League, EditContext) {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.score = 11 }
        try await league.other("UPDATE player SET mail = 'new@x' WHERE id = 1")
        return (league, context)
    }

    @Test("a new row that is deleted or undone while its save runs is deleted by the next one", arguments: [true, false])
    func newRow(isUndone: Bool) async throws {
        let (league, context) = try await contested()
        let savepoint = context.savepoint()
        let dora = try context.insert(Player(name: "Dora"))
        try await context.save(
            mergePolicy: .custom(Meanwhile { if isUndone { try context.undo(to: savepoint) } else { try context.delete(dora) } }))
        #expect(try await league.player(4)?.name == "Dora")
        #expect(context.edits.deleted == [.player(4)])
        #expect(try context.record(Player.self, for: .player(try #require(dora.id))) == nil)
        try await context.save()
        #expect(try await league.player(4) == nil)
        #expect(!context.hasChanges)
    }

    @Test("discarding while a save runs takes nothing of it back")
    func discarded() async throws {
        let (league, context) = try await contested()
        try context.insert(Player(name: "Dora"))
        try await context.save(mergePolicy: .custom(Meanwhile { context.discard() }))
        #expect(!context.hasChanges)
        #expect(try await league.player(1)?.score == 11)
        #expect(try await league.player(4)?.name == "Dora")
    }

    @Test("an edit's closure may look at the context and edit in it, the same row too")
    func nested() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        let edited = try context.edit(players[0]) { player in
            player.score = context.hasChanges ? 1 : 2
            try context.edit(players[0]) { $0.mail = "inner@x" }
            try context.insert(Player(name: "Dora"))
        }
        let expected = Player(id: 1, name: "Ada", score: 2, mail: "inner@x", team: 1)
        #expect(edited == expected)
        #expect(try context.record(Player.self, for: .player(1)) == expected)
        try await context.save()
        #expect(try await league.player(1) == expected)
        #expect(try await league.player(4)?.name == "Dora")
    }
}
