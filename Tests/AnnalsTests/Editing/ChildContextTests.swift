import Annals
@testable import SeededRandom
import Testing

@Suite("A child context")
struct ChildContextTests {
    @Test("gives its edits to its parent, which saves them with its own")
    func save() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.score = 11 }
        let sheet = context.child()
        #expect(!sheet.hasChanges && sheet.parent === context)
        #expect(try sheet.record(Player.self, for: .player(1))?.score == 11)
        try sheet.edit(players[0]) { $0.name = "Ada L." }
        try sheet.delete(players[1])
        let dora = try sheet.insert(Player(name: "Dora", team: 2))
        #expect(sheet.hasChanges && context.edits.deleted.isEmpty)

        #expect(try await sheet.save().token == nil)
        #expect(!sheet.hasChanges && context.edits.deleted == [.player(2)])
        #expect(try context.record(Player.self, for: .player(1)) == Player(id: 1, name: "Ada L.", score: 11, mail: "ada@x", team: 1))
        #expect(try await league.authors() == [])
        try await context.save()
        #expect(try await league.authors() == ["me"])
        #expect(try await league.player(1)?.name == "Ada L.")
        #expect(try await league.player(4)?.name == "Dora")

        // The child knows the new row by its old key, and edits what the parent has saved.
        try sheet.edit(dora) { $0.score = 5 }
        try await sheet.save()
        try await context.save()
        #expect(try await league.player(4)?.score == 5)
    }

    @Test("two of them are discarded and saved apart, and their new rows stay apart")
    func siblings() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        let (one, two) = (context.child(), context.child())
        let team = try one.insert(Team(name: "Greens"))
        try one.insert(Player(name: "Dora", team: team.id))
        try two.insert(Player(name: "Dan"))
        try one.edit(players[0]) { $0.score = 1 }
        try two.edit(players[0]) { $0.name = "Al" }
        try two.edit(players[2]) { $0.score = 0 }
        let three = context.child()
        try three.delete(players[2])
        three.discard()
        #expect(!three.hasChanges)
        try await one.save()
        try await two.save()
        try await context.save()
        #expect(try await league.player(1) == Player(id: 1, name: "Al", score: 1, mail: "ada@x", team: 1))
        #expect(try await league.player(3)?.score == 0)
        let teams = try await league.store.read { db in
            try String.fetchAll(
                db,
                sql:
                    "SELECT player.name || coalesce(team.name, '-') FROM player LEFT JOIN team ON team.id = team WHERE player.id > 3 ORDER BY 1"
            )
        }
        #expect(teams == ["Dan-", "DoraGreens"])
    }

    @Test("sees its parent's later edits after a refresh, and keeps its own")
    func refresh() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        let sheet = context.child()
        try sheet.edit(players[0]) { $0.name = "A" }
        try context.edit(players[0]) { $0.score = 7 }
        try context.edit(players[1]) { $0.score = 8 }
        try await league.other("UPDATE player SET mail = 'new@x' WHERE id = 1")
        #expect(try sheet.record(Player.self, for: .player(2))?.score == 20)
        try await sheet.refresh()
        #expect(try sheet.record(Player.self, for: .player(1)) == Player(id: 1, name: "A", score: 7, mail: "new@x", team: 1))
        #expect(try sheet.record(Player.self, for: .player(2))?.score == 8 && sheet.hasChanges)
        try await sheet.save()
        try await context.save()
        #expect(try await league.player(1) == Player(id: 1, name: "A", score: 7, mail: "new@x", team: 1))
    }

    @Test("is refused a save if its parent deleted an edited row, and can restore the row after a refresh")
    func deleted() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        let sheet = context.child()
        try sheet.edit(players[0]) { $0.name = "A" }
        try context.delete(players[0])
        let error = await #expect(throws: AnnalsError.self) { try await sheet.save() }
        #expect(error?.code == .conflict && error?.message.contains("player(1)") == true)
        #expect(context.edits.deleted == [.player(1)] && sheet.hasChanges)
        try await sheet.refresh()
        try await sheet.save()
        try await context.save()
        #expect(try await league.player(1)?.name == "A")
    }

    @Test("deletes a new row of its parent, and has children of its own")
    func nested() async throws {
        let league = try await League()
        let (context, _) = try await league.context()
        let dora = try context.insert(Player(name: "Dora"))
        let sheet = context.child()
        let inner = sheet.child()
        try inner.delete(dora)
        let dan = try inner.insert(Player(name: "Dan"))
        try await inner.save()
        #expect(context.edits.inserted.count == 1 && sheet.hasChanges)
        try await sheet.save()
        #expect(context.edits.inserted == [.player(try #require(dan.id))])
        try await context.save()
        #expect(
            try await league.store.read { db in try Player.order(Column("id")).fetchAll(db).map(\.name) } == ["Ada", "Ben", "Cleo", "Dan"])
    }

    @Test("follows a row that a sync gave another key")
    func renumbered() async throws {
        let replicas = try await TwoReplicas()
        for (index, store) in replicas.stores.enumerated() {
            try await store.write { db in _ = try TodoItem(title: "\(index)").insert(in: db) }
        }
        let context = try await replicas.stores[1].editContext()
        let item = try #require(await context.fetchOne(TodoItem.filter(key: 1)))
        let sheet = context.child()
        try sheet.edit(item) { $0.title = "edited" }
        for index in [0, 1] { try await replicas.sync(index) }
        try await sheet.save()
        try await context.save()
        let titles = try await replicas.stores[1].read { db in try String.fetchAll(db, sql: "SELECT title FROM todo ORDER BY id") }
        #expect(titles == ["0", "edited"])
    }

    @Test("fetches a row that its parent saved, and keeps its own edit of it")
    func savedMeanwhile() async throws {
        let league = try await League()
        let (context, _) = try await league.context()
        let dora = try context.insert(Player(name: "Dora"))
        let sheet = context.child()
        try sheet.edit(dora) { $0.score = 7 }
        try await context.save()
        #expect(try await sheet.fetch(Player.order(Column("id"))).map(\.id) == [1, 2, 3, 4])
        try await sheet.save()
        try await context.save()
        #expect(try await league.player(4)?.score == 7)
        #expect(try await league.store.read { db in try Player.fetchCount(db) } == 4)
    }

    @Test("conflicts with what others wrote since it read the row, although its parent read it later")
    func stale() async throws {
        let league = try await League()
        let context = try await league.store.editContext()
        let sheet = context.child()
        let ada = try #require(await sheet.fetchOne(Player.filter(key: 1)))
        try sheet.edit(ada) { $0.score = 12 }
        try await league.other("UPDATE player SET score = 50 WHERE id = 1")
        _ = try await context.fetch(Player.all())
        try await sheet.save()
        let error = await #expect(throws: AnnalsError.self) { try await context.save() }
        #expect(error?.code == .conflict)
        #expect(try await league.player(1)?.score == 50)
    }

    @Test("does not bring back what its parent discarded")
    func discardedParent() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.score = 999 }
        let dora = try context.insert(Player(name: "Dora"))
        let sheet = context.child()
        try sheet.edit(players[0]) { $0.name = "A" }
        context.discard()
        try await sheet.save()
        try await context.save()
        #expect(try await league.player(1) == Player(id: 1, name: "A", score: 10, mail: "ada@x", team: 1))
        let other = context.child()
        #expect(throws: AnnalsError.self) { try other.edit(dora) { $0.score = 1 } }
    }

    /// Random edits in a context and two children, held against the same edits of dictionaries.
    @Test(arguments: Seeds.givenOrNew(20))
    func random(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let league = try await League()
        let (context, players) = try await league.context()
        var (stored, parent) = ([1: 10, 2: 20, 3: 30], [1: 10, 2: 20, 3: 30])
        var children = [context.child(), context.child()]
        var edits: [[Int: Int]] = [[:], [:]]
        for step in 0..<40 {
            let (child, row, value) = (Int.random(in: 0..<2, using: &random), Int.random(in: 0..<3, using: &random), step + 100)
            switch Int.random(in: 0..<8, using: &random) {
            case 0, 1, 2:
                try children[child].edit(players[row]) { $0.score = value }
                edits[child][row + 1] = value
            case 3:
                try context.edit(players[row]) { $0.score = value }
                parent[row + 1] = value
            case 4, 5:
                try await children[child].save()
                parent.merge(edits[child]) { $1 }
                edits[child] = [:]
            case 6:
                children[child].discard()
                edits[child] = [:]
            default:
                try await context.save()
                stored = parent
            }
            if random.chance(10) {
                children[child] = context.child()
                edits[child] = [:]
            }
            for id in 1...3 {
                #expect(try context.record(Player.self, for: .player(Int64(id)))?.score == parent[id], "ANNALS_SEED=\(seed), step \(step)")
                #expect(try await league.player(Int64(id))?.score == stored[id], "ANNALS_SEED=\(seed), step \(step)")
            }
        }
    }
}
