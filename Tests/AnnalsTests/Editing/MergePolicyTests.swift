import Annals
import Synchronization
import Testing

/// One line for each policy and situation: `Documentation/editing.md` has the same table in words.
@Suite("A save where others were first")
struct MergePolicyTests {
    enum Policy: String, CaseIterable, Sendable {
        case error, storeTrump, objectTrump, overwrite, rollback

        var policy: MergePolicy {
            switch self {
            case .error: .error
            case .storeTrump: .mergeByPropertyStoreTrump
            case .objectTrump: .mergeByPropertyObjectTrump
            case .overwrite: .overwrite
            case .rollback: .rollback
            }
        }
    }

    /// The players after the save, as text; nil if a conflict was thrown.
    private func outcome(_ policy: Policy, others sql: String, _ edit: (EditContext, [Player]) throws -> Void) async throws -> String? {
        let league = try await League()
        let (context, players) = try await league.context(policy.policy)
        try edit(context, players)
        try await league.other(sql)
        let before = try await league.authors().count
        do {
            try await context.save()
            // The context continues with the stored values.
            #expect(!context.hasChanges)
        } catch let error as AnnalsError {
            #expect(context.hasChanges)
            #expect(try await league.authors().count == before)
            if case .conflicts? = error.saveError { return nil }
            if case .constraints? = error.saveError { return nil }
            throw error
        }
        let all = try await league.store.read { db in try Player.order(Column("id")).fetchAll(db) }
        // For Ben and Cleo it has the values that it read first.
        let known = try await context.fetch(Player.order(Column("id"))).filter { ![2, 3].contains($0.id) }
        #expect(known == all.filter { ![2, 3].contains($0.id) })
        return all.map { "\($0.id ?? 0) \($0.name) \($0.score) \($0.mail ?? "-")" }.joined(separator: ", ")
    }

    private static let rest = ", 2 Ben 20 ben@x, 3 Cleo 30 -"

    @Test(
        "to another column: an error and a rollback take the row as one, the others merge",
        arguments: [
            (.error, nil), (.storeTrump, "1 Ada 11 new@x" + rest), (.objectTrump, "1 Ada 11 new@x" + rest),
            (.overwrite, "1 Ada 11 ada@x" + rest), (.rollback, "1 Ada 10 new@x" + rest),
        ] as [(Policy, String?)])
    func otherColumn(policy: Policy, expected: String?) async throws {
        let found = try await outcome(policy, others: "UPDATE player SET mail = 'new@x' WHERE id = 1") { context, players in
            try context.edit(players[0]) { $0.score = 11 }
        }
        #expect(found == expected)
    }

    @Test(
        "to the same column",
        arguments: [
            (.error, nil), (.storeTrump, "1 Ada A. 12 ada@x" + rest), (.objectTrump, "1 Ada A. 11 ada@x" + rest),
            (.overwrite, "1 Ada A. 11 ada@x" + rest), (.rollback, "1 Ada 12 ada@x" + rest),
        ] as [(Policy, String?)])
    func sameColumn(policy: Policy, expected: String?) async throws {
        let found = try await outcome(policy, others: "UPDATE player SET score = 12 WHERE id = 1") { context, players in
            try context.edit(players[0]) { ($0.score, $0.name) = (11, "Ada A.") }
        }
        #expect(found == expected)
    }

    @Test(
        "and deleted the row that was edited: only the object's side brings it back",
        arguments: [
            (.error, nil), (.storeTrump, "2 Ben 20 ben@x, 3 Cleo 30 -"), (.objectTrump, "1 Ada 11 ada@x" + rest),
            (.overwrite, "1 Ada 11 ada@x" + rest), (.rollback, "2 Ben 20 ben@x, 3 Cleo 30 -"),
        ] as [(Policy, String?)])
    func deletedThere(policy: Policy, expected: String?) async throws {
        let found = try await outcome(policy, others: "DELETE FROM player WHERE id = 1") { context, players in
            try context.edit(players[0]) { $0.score = 11 }
        }
        #expect(found == expected)
    }

    @Test(
        "and edited the row that was deleted: the store's side keeps it",
        arguments: [
            (.error, nil), (.storeTrump, "1 Ada 12 ada@x" + rest), (.objectTrump, "2 Ben 20 ben@x, 3 Cleo 30 -"),
            (.overwrite, "2 Ben 20 ben@x, 3 Cleo 30 -"), (.rollback, "1 Ada 12 ada@x" + rest),
        ] as [(Policy, String?)])
    func deletedHere(policy: Policy, expected: String?) async throws {
        let found = try await outcome(policy, others: "UPDATE player SET score = 12 WHERE id = 1") { context, players in
            try context.delete(players[0])
        }
        #expect(found == expected)
    }

    @Test("and deleted it too, or wrote the same: that is no conflict of deletes, under any policy", arguments: Policy.allCases)
    func same(policy: Policy) async throws {
        let found = try await outcome(policy, others: "DELETE FROM player WHERE id = 1") { context, players in
            try context.delete(players[0])
        }
        #expect(found == "2 Ben 20 ben@x, 3 Cleo 30 -")
    }

    @Test(
        "and took the unique value of a new row: the store's side drops it, the object's side writes into the stored one",
        arguments: [
            (.error, nil), (.storeTrump, "1 Ada 10 ada@x" + rest + ", 4 Dan 1 d@x"),
            (.objectTrump, "1 Ada 10 ada@x" + rest + ", 4 Dora 5 d@x"), (.overwrite, "1 Ada 10 ada@x" + rest + ", 4 Dora 5 d@x"),
            (.rollback, "1 Ada 10 ada@x" + rest + ", 4 Dan 1 d@x"),
        ] as [(Policy, String?)])
    func uniqueInsert(policy: Policy, expected: String?) async throws {
        let found = try await outcome(policy, others: "INSERT INTO player (name, score, mail) VALUES ('Dan', 1, 'd@x')") { context, _ in
            try context.insert(Player(name: "Dora", score: 5, mail: "d@x"))
        }
        #expect(found == expected)
    }

    @Test(
        "and took the unique value that an edit brings: the store's side keeps the edit's other columns, overwriting deletes the other row",
        arguments: [
            (.error, nil), (.storeTrump, "1 Ada A. 10 ada@x, 2 Ben 20 n@x, 3 Cleo 30 -"), (.objectTrump, nil),
            (.overwrite, "1 Ada A. 10 n@x, 3 Cleo 30 -"), (.rollback, "1 Ada 10 ada@x, 2 Ben 20 n@x, 3 Cleo 30 -"),
        ] as [(Policy, String?)])
    func uniqueUpdate(policy: Policy, expected: String?) async throws {
        let found = try await outcome(policy, others: "UPDATE player SET mail = 'n@x' WHERE id = 2") { context, players in
            try context.edit(players[0]) { ($0.mail, $0.name) = ("n@x", "Ada A.") }
        }
        #expect(found == expected)
    }

    @Test("children of a new row that gave way to a stored one refer to that")
    func childrenFollow() async throws {
        let league = try await League()
        let (context, _) = try await league.context(.mergeByPropertyStoreTrump)
        let greens = try context.insert(Team(name: "Greens"))
        try context.insert(Player(name: "Dora", team: greens.id))
        try await league.other("INSERT INTO team VALUES (7, 'Greens')")
        let saved = try await context.save()
        #expect(try await league.player(4)?.team == 7)
        #expect(saved.constraintConflicts.map(\.columns) == [["name"]])
        #expect(saved.identifiers[.team(try #require(greens.id))] == .team(7))
    }

    @Test("by default throws base, mine and theirs, and nothing is saved; after a refresh the save goes through")
    func thrown() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { ($0.score, $0.name) = (11, "Ada A.") }
        try context.edit(players[1]) { $0.score = 21 }
        try context.delete(players[2])
        try await league.other("UPDATE player SET score = 12, mail = 'new@x' WHERE id = 1; DELETE FROM player WHERE id = 2")
        let conflicts = try await saveError { try await context.save() }.conflicts
        #expect(conflicts.map(\.identifier) == [.player(1), .player(2)])
        let first = try #require(conflicts.first)
        #expect(try first.base.decode(Player.self) == players[0])
        #expect(first.mine?["score"] == 11.databaseValue && first.theirs?["SCORE"] == 12.databaseValue)
        #expect(first.myColumns == ["score", "name"])
        #expect(first.theirColumns == ["score", "mail"])
        #expect(first.conflictingColumns == ["score"])
        #expect(conflicts.last?.theirs == nil)
        #expect(try await league.player(3) != nil)

        try context.edit(players[1]) { $0.score = 20 }
        try await context.refresh()
        #expect(try context.record(Player.self, for: .player(1)) == Player(id: 1, name: "Ada A.", score: 11, mail: "new@x", team: 1))
        try await context.save()
        #expect(try await league.player(1) == Player(id: 1, name: "Ada A.", score: 11, mail: "new@x", team: 1))
        #expect(try await league.player(3) == nil)
    }

    @Test("a resolver decides row by row, with values of its own")
    func custom() async throws {
        struct Resolver: MergePolicyResolver {
            func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) throws {
                for index in list.indices {
                    switch list[index].identifier {
                    case .player(1): list[index].resolution = .values(["score": 100.databaseValue])
                    case .player(2): list[index].resolution = .delete
                    default: list[index].resolution = .keepStore
                    }
                }
            }

            func resolve(constraintConflicts list: inout [ConstraintConflict], in db: Database) throws {
                for index in list.indices { list[index].resolution = .values(["mail": "second@x".databaseValue]) }
            }
        }
        let league = try await League()
        let (context, players) = try await league.context()
        for player in players { try context.edit(player) { $0.score += 1 } }
        try context.insert(Player(name: "Dora", mail: "new@x"))
        try await league.other("UPDATE player SET score = score + 5; UPDATE player SET mail = 'new@x' WHERE id = 1")
        let saved = try await context.save(mergePolicy: .custom(Resolver()))
        let all = try await league.store.read { try Player.order(Column("id")).fetchAll($0) }
        #expect(all.map(\.name) == ["Ada", "Cleo", "Dora"])
        #expect(all.map(\.score) == [100, 35, 0])
        #expect(all.map(\.mail) == ["new@x", nil, "second@x"])
        #expect(saved.mergeConflicts.count == 3 && saved.constraintConflicts.count == 1)
    }

    @Test("what a resolver leaves open is thrown")
    func open() async throws {
        struct Undecided: MergePolicyResolver {
            func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) throws { list[0].resolution = .keepStore }
        }
        let league = try await League()
        let (context, players) = try await league.context(.custom(Undecided()))
        for player in players { try context.edit(player) { $0.score += 1 } }
        try await league.other("UPDATE player SET score = score + 5")
        #expect(try await saveError { try await context.save() }.conflicts.map(\.identifier) == [.player(2), .player(3)])
    }

    @Test("an edited row that is gone comes back as a new one after a refresh, and a deleted one is forgotten")
    func refreshed() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.score = 11 }
        try context.delete(players[1])
        try await league.other("DELETE FROM player WHERE id < 3")
        #expect(try await saveError { try await context.save() }.conflicts.map(\.identifier) == [.player(1)])
        try await context.refresh()
        #expect(context.edits.inserted == [.player(1)] && context.edits.deleted.isEmpty)
        try await context.save()
        #expect(try await league.player(1) == Player(id: 1, name: "Ada", score: 11, mail: "ada@x", team: 1))
        #expect(try await league.player(2) == nil)
    }

    @Test("a resolver whose answer does not help is asked once, one that never comes to an end only so often", arguments: [true, false])
    func endless(isSame: Bool) async throws {
        struct Stuck: MergePolicyResolver {
            let isSame: Bool
            let asked: Questions

            func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) {}
            func resolve(constraintConflicts list: inout [ConstraintConflict], in db: Database) {
                asked.value.withLock { $0 += 1 }
                let score = isSame ? 1 : asked.value.withLock { $0 }
                for index in list.indices { list[index].resolution = .values(["score": score.databaseValue]) }
            }
        }
        let league = try await League()
        let (context, _) = try await league.context()
        try context.insert(Player(name: "Dora", mail: "ada@x"))
        let asked = Questions()
        let refused = try await saveError { try await context.save(mergePolicy: .custom(Stuck(isSame: isSame, asked: asked))) }.constraints
        #expect(refused.map(\.columns) == [["mail"]])
        #expect(asked.value.withLock { $0 } <= (isSame ? 2 : 100))
    }

    @Test("what a resolver throws comes out as it is")
    func throwing() async throws {
        struct Boom: Error {}
        struct Thrower: MergePolicyResolver {
            func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) throws {
                if list.contains(where: { $0.identifier == .player(1) }) { throw Boom() }
            }
            func resolve(constraintConflicts list: inout [ConstraintConflict], in db: Database) throws { throw Boom() }
        }
        let league = try await League()
        let (context, players) = try await league.context(.custom(Thrower()))
        try context.insert(Player(name: "Dora", mail: "ada@x"))
        await #expect(throws: Boom.self) { try await context.save() }
        try context.edit(players[0]) { $0.score = 11 }
        try await league.other("UPDATE player SET score = 12 WHERE id = 1")
        await #expect(throws: Boom.self) { try await context.save() }
    }

    @Test("overwriting that would take a row to which others refer says so", arguments: ["NO ACTION", "RESTRICT"])
    func overwritingParent(rule: String) async throws {
        let league = try await League(onDelete: rule)
        let context = try await league.store.editContext(mergePolicy: .overwrite)
        let reds = try #require(try await context.find(Team.self, .team(1)))
        try context.edit(reds) { $0.name = "Blues" }
        let error = await #expect(throws: AnnalsError.self) { try await context.save() }
        let refused = try #require(error?.saveError?.constraints.first)
        #expect(refused.kind == .foreignKey && refused.identifier == .team(2) && refused.name == "player")
        #expect(refused.columns == ["id"] && refused.others.map(\.identifier) == [.player(3)])
        #expect(error?.message == "a foreign key would be violated: team.id")
    }

    @Test func `contexts without a policy have the one of the store`() async throws {
        let file = try TemporaryFile("league.db")
        let path = file.path
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.mergePolicy = .mergeByPropertyObjectTrump
        let store = try Store(path: path, configuration: configuration)
        try await store.write { db in try db.execute(sql: League.schema(onDelete: "CASCADE") as String) }
        try await store.track(.all)
        let (plain, strict) = (try await store.editContext(), try await store.editContext(mergePolicy: .error))
        for (name, context) in [("Ada 1", plain), ("Ada 2", strict)] {
            let ada = try #require(try await context.find(Player.self, .player(1)))
            try context.edit(ada) { $0.name = name }
        }
        try await store.write { db in try db.execute(sql: "UPDATE player SET name = 'other' WHERE id = 1") }
        #expect(try await plain.save().mergeConflicts.count == 1)
        #expect(try await store.read { db in try Player.fetchOne(db, key: 1) }?.name == "Ada 1")
        #expect(try await saveError { try await strict.save() }.conflicts.count == 1)
    }

    @Test("a write of records that were read elsewhere is compared with them")
    func write() async throws {
        let league = try await League()
        let ada = try #require(try await league.player(1))
        var edited = ada
        edited.score = 11
        let mine = edited
        try await league.other("UPDATE player SET mail = 'new@x' WHERE id = 1")
        let error = try await saveError { try await league.store.write(mergePolicy: .error) { try $0.update(mine, from: ada) } }
        #expect(error.conflicts.first?.theirColumns == ["mail"])
        try await league.store.write(author: "me", mergePolicy: .mergeByPropertyObjectTrump) { try $0.update(mine, from: ada) }
        #expect(try await league.player(1) == Player(id: 1, name: "Ada", score: 11, mail: "new@x", team: 1))
        let now = try #require(try await league.player(1))
        try await league.store.write(mergePolicy: .error) { try $0.delete(now) }
        #expect(try await league.player(1) == nil)
        #expect(try await league.authors() == ["other", "me", nil])
    }
}

private final class Questions: Sendable {
    let value = Mutex(0)
}
