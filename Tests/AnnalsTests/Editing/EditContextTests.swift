import Annals
import Synchronization
import Testing

@Suite("Edits in memory")
struct EditContextTests {
    @Test("all of them are one transaction with its author and context")
    func save() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.score = 11 }
        try context.delete(players[1])
        let dora = try context.insert(Player(name: "Dora", team: 2))
        #expect(context.hasChanges)
        #expect(context.edits.updated == [.player(1)])
        #expect(context.edits.deleted == [.player(2)])
        #expect(context.edits.inserted.count == 1)
        #expect(context.edits.changedColumns(of: .player(1)) == ["score"])
        #expect(try await league.player(1)?.score == 10)

        let saved = try await context.save()
        #expect(!context.hasChanges)
        #expect(try await league.player(1)?.score == 11)
        #expect(try await league.player(2) == nil)
        #expect(try await league.player(4) == Player(id: 4, name: "Dora", team: 2))
        let provisional = PersistentIdentifier.player(try #require(dora.id))
        #expect(saved.identifiers == [provisional: .player(4)])
        #expect(context.current(provisional) == .player(4))
        #expect(try context.record(Player.self, for: provisional)?.id == 4)

        var transactions: [HistoryTransaction] = []
        for try await transaction in league.store.history() { transactions.append(transaction) }
        let last = try #require(transactions.last)
        #expect(transactions.count == 1)
        #expect(last.author == "me" && last.contextName == "form" && last.token == saved.token)
        #expect(try await league.store.changes(in: last).count == 3)
    }

    @Test("a save that changes nothing makes no transaction")
    func nothing() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        #expect(try await context.save().token == nil)
        try context.edit(players[0]) { $0.score = 99 }
        try context.edit(players[0]) { $0.score = 10 }
        try context.update(players[1])
        let dora = try context.insert(Player(name: "Dora"))
        try context.delete(dora)
        #expect(!context.hasChanges)
        #expect(try await context.save().token == nil)
        #expect(try await league.authors() == [])
    }

    @Test("what is edited is found by fetches, what is deleted is not, and discarding forgets both")
    func fetching() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.name = "Ada L." }
        try context.delete(players[1])
        #expect(try await context.fetch(Player.order(Column("id"))).map(\.name) == ["Ada L.", "Cleo"])
        #expect(try await context.fetchOne(Player.filter(key: 1))?.name == "Ada L.")
        #expect(try await context.find(Player.self, .player(2)) == nil)
        try await league.other("UPDATE player SET score = 31 WHERE id = 3")
        #expect(try await context.find(Player.self, .player(3))?.score == 30)
        context.discard()
        #expect(!context.hasChanges)
        #expect(try await context.fetch(Player.order(Column("id"))).map(\.name) == ["Ada", "Ben", "Cleo"])
        #expect(try await context.find(Player.self, .player(3))?.score == 31)
    }

    @Test("are undone to a savepoint, and rows that were read since stay known")
    func savepoints() async throws {
        let league = try await League()
        let context = try await league.store.editContext()
        let ada = try #require(try await context.find(Player.self, .player(1)))
        try context.edit(ada) { $0.score = 11 }
        let dora = try context.insert(Player(name: "Dora"))
        let savepoint = context.savepoint()
        try context.edit(ada) { $0.score = 12 }
        try context.delete(dora)
        try context.insert(Player(name: "Emil"))
        let ben = try #require(try await context.find(Player.self, .player(2)))
        try context.delete(ben)
        try context.undo(to: savepoint)
        #expect(try context.record(Player.self, for: .player(1))?.score == 11)
        #expect(context.edits.inserted.count == 1 && context.edits.deleted.isEmpty)
        #expect(try context.record(Player.self, for: .player(2))?.name == "Ben")
        try await context.save()
        #expect(try await league.store.read { try Player.fetchAll($0).map(\.name) } == ["Ada", "Ben", "Cleo", "Dora"])
        let error = #expect(throws: AnnalsError.self) { try context.undo(to: savepoint) }
        #expect(error?.code == .usage)
    }

    @Test("new rows refer to each other before they have keys, whatever is edited first")
    func references() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        let greens = try context.insert(Team(name: "Greens"))
        try context.edit(players[0]) { $0.team = greens.id }
        try context.insert(Player(name: "Dora", team: greens.id))
        try await context.save()
        let team = try await league.store.read { try Team.filter(Column("name") == "Greens").fetchOne($0)?.id }
        #expect(team == 3)
        #expect(try await league.player(1)?.team == 3)
        #expect(try await league.player(4)?.team == 3)
    }

    @Test("values that a record would spell otherwise than they are stored are no edits, and columns it lacks stay")
    func spelling() async throws {
        struct Score: Codable, Sendable, FetchableRecord, MutablePersistableRecord {
            static let databaseTableName = "player"
            var id: Int64
            var score: Double
        }
        let league = try await League()
        let context = try await league.store.editContext()
        let score = try #require(try await context.fetchOne(Score.filter(key: 1)))
        try context.update(score)
        #expect(!context.hasChanges)
        try context.edit(score) { $0.score = 12 }
        let saved = try await context.save()
        #expect(saved.mergeConflicts.isEmpty)
        #expect(try await league.player(1) == Player(id: 1, name: "Ada", score: 12, mail: "ada@x", team: 1))
        #expect(try await league.store.read { try String.fetchOne($0, sql: "SELECT typeof(score) FROM player WHERE id = 1") } == "integer")
    }

    @Test("a deleted row whose key is inserted anew is that row with other values")
    func again() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.delete(players[0])
        try context.insert(Player(id: 1, name: "Anna", team: 2))
        #expect(context.edits.inserted.isEmpty && context.edits.updated == [.player(1)])
        try await context.save()
        #expect(try await league.player(1) == Player(id: 1, name: "Anna", team: 2))
    }

    @Test("unique values that rows of one save give up and take change hands")
    func handover() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.insert(Player(name: "Dora", mail: "ada@x"))
        try context.edit(players[2]) { $0.mail = "ben@x" }
        try context.edit(players[1]) { $0.mail = nil }
        try context.delete(players[0])
        try await context.save()
        let mails = try await league.store.read { try String?.fetchAll($0, sql: "SELECT mail FROM player ORDER BY id") }
        #expect(mails == [nil, "ben@x", "ada@x"])
    }

    @Test("made while a save runs stay for the next one")
    func meanwhile() async throws {
        struct Busy: MergePolicyResolver {
            let context: EditContext
            let ada: Player

            func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) throws {
                try context.edit(ada) { $0.name = "Ada L." }
                try context.insert(Player(name: "Dora"))
                for index in list.indices { list[index].resolution = .keepObject }
            }
        }
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.score = 11 }
        try await league.other("UPDATE player SET mail = 'new@x' WHERE id = 1")
        try await context.save(mergePolicy: .custom(Busy(context: context, ada: players[0])))
        #expect(try await league.player(1)?.name == "Ada")
        #expect(context.edits.changedColumns(of: .player(1)) == ["name"])
        try await context.save()
        #expect(try await league.player(1)?.name == "Ada L.")
        #expect(try await league.player(1)?.score == 11)
        #expect(try await league.player(4)?.name == "Dora")
    }

    @Test("go on where a table got another column meanwhile")
    func addedColumn() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.score = 11 }
        try context.insert(Player(name: "Dora"))
        try await league.other("ALTER TABLE player ADD COLUMN shoe INTEGER DEFAULT 40")
        try await context.save()
        #expect(!context.hasChanges)
        try context.edit(players[0]) { $0.score = 12 }
        try await league.other("ALTER TABLE player ADD COLUMN hat INTEGER; UPDATE player SET hat = 5")
        try await context.refresh()
        try await context.save()
        let found = try await league.store.read { db in
            try String.fetchAll(db, sql: "SELECT name || score || shoe || hat FROM player WHERE id IN (1, 4) ORDER BY id")
        }
        #expect(found == ["Ada12405", "Dora0405"])
    }

    @Test("of a column that is gone meanwhile are refused")
    func droppedColumn() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.team = 2 }
        try await league.store.migrate(label: "fewer") { db in try db.execute(sql: "ALTER TABLE player RENAME COLUMN team TO side") }
        let error = await #expect(throws: AnnalsError.self) { try await context.save() }
        #expect(error?.code == .usage)
    }

    @Test("that pass unique values on are written about once each")
    func shifting() async throws {
        struct Place: Codable, Sendable, FetchableRecord, MutablePersistableRecord {
            static let databaseTableName = "place"
            static let writes = Mutex(0)
            var id: Int64
            var number: Int

            func willSave(_ db: Database) { Self.writes.withLock { $0 += 1 } }
        }
        let store = try Store(inMemory: nil)
        let count = 100
        try await store.write { db in
            try db.execute(sql: "CREATE TABLE place (id INTEGER PRIMARY KEY, number INTEGER NOT NULL UNIQUE)")
            for id in 1...count { try db.execute(sql: "INSERT INTO place VALUES (?, ?)", arguments: [id, id]) }
        }
        let context = try await store.editContext()
        for place in try await context.fetch(Place.order(Column("id"))) { try context.edit(place) { $0.number += 1 } }
        try await context.save()
        #expect(try await store.read { try Place.filter(Column("number") == Column("id") + 1).fetchCount($0) } == count)
        #expect(Place.writes.withLock { $0 } <= 2 * count)
    }

    @Test("are made on the main actor and on any other, by one context")
    @MainActor func actors() async throws {
        @MainActor final class Form {
            let context: EditContext
            var player: Player

            init(_ context: EditContext, _ player: Player) { (self.context, self.player) = (context, player) }

            func commit() async throws {
                player = try context.edit(player) { $0.score += 1 }
                try await context.save()
            }
        }
        actor Importer {
            func add(_ count: Int, to context: EditContext) throws {
                for number in 0..<count { try context.insert(Player(name: "P\(number)")) }
            }
        }
        let league = try await League()
        let (context, players) = try await league.context()
        let form = Form(context, players[0])
        try await Importer().add(10, to: context)
        try await form.commit()
        #expect(try await league.store.read { try Player.fetchCount($0) } == 13)
        #expect(try await league.player(1)?.score == 11)
        #expect(try await league.authors() == ["me"])
    }

    @Test("of a row that was never read, a missing table or column, and without a key are refused by name")
    func misuse() async throws {
        struct Ghost: Codable, Sendable, FetchableRecord, MutablePersistableRecord { var id: Int64? }
        struct Odd: Codable, Sendable, FetchableRecord, MutablePersistableRecord {
            static let databaseTableName = "team"
            var id: Int64?
            var colour: String
        }
        let league = try await League()
        let context = try await league.store.editContext()
        func code(_ body: () throws -> Void) -> AnnalsError.Code? { #expect(throws: AnnalsError.self) { try body() }?.code }
        #expect(code { try context.update(Player(id: 1, name: "Ada")) } == .usage)
        #expect(code { try context.insert(Ghost()) } == .usage)
        #expect(code { try context.insert(Odd(colour: "red")) } == .usage)
        #expect(code { try context.update(Player(name: "Nobody")) } == .usage)
        #expect(!context.hasChanges)
    }
}
