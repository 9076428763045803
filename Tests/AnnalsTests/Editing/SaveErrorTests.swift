import Annals
import Foundation
import Testing

@Suite("A save that is refused says why, in a form to branch over")
struct SaveErrorTests {
    private func refusal(_ policy: MergePolicy = .error, _ edit: (EditContext, [Player]) throws -> Void) async throws -> ConstraintConflict
    {
        let league = try await League()
        let (context, players) = try await league.context(policy)
        try edit(context, players)
        let constraints = try await saveError { try await context.save() }.constraints
        #expect(try await league.authors() == [])
        #expect(context.hasChanges)
        return try #require(constraints.first)
    }

    @Test("a unique value that is taken: columns, values and the row that has it")
    func unique() async throws {
        let refused = try await refusal { context, _ in try context.insert(Player(id: 9, name: "Dora", mail: "ben@x")) }
        #expect(refused.kind == .unique && refused.table == "player" && refused.columns == ["mail"])
        #expect(refused.values == ["mail": "ben@x".databaseValue])
        #expect(refused.identifier == .player(9) && refused.mine?["name"] == "Dora".databaseValue)
        #expect(refused.others.map(\.identifier) == [.player(2)])
        #expect(try refused.others.first?.snapshot.decode(Player.self).name == "Ben")
    }

    @Test("a primary key that is taken")
    func key() async throws {
        let refused = try await refusal { context, players in
            context.discard()
            try context.insert(Player(id: 2, name: "Dora"))
        }
        #expect(refused.kind == .unique && refused.columns == ["id"] && refused.others.map(\.identifier) == [.player(2)])
    }

    @Test("two rows of one save with one unique value, whatever the policy")
    func own() async throws {
        let refused = try await refusal(.overwrite) { context, _ in
            try context.insert(Player(id: 8, name: "Dora", mail: "d@x"))
            try context.insert(Player(id: 9, name: "Dan", mail: "d@x"))
        }
        #expect(refused.kind == .unique && refused.identifier == .player(9) && refused.others.map(\.identifier) == [.player(8)])
    }

    @Test("a CHECK, a missing value, a wrong type and a trigger")
    func others() async throws {
        struct Loose: Codable, Sendable, FetchableRecord, MutablePersistableRecord {
            static let databaseTableName = "player"
            var id: Int64
            var name: String?
            var score: Int
        }
        let check = try await refusal { context, players in try context.edit(players[0]) { $0.score = -1 } }
        #expect(check.kind == .check && check.name == "score >= 0" && check.identifier == .player(1))
        let missing = try await refusal { context, _ in try context.insert(Loose(id: 9, name: nil, score: 1)) }
        #expect(missing.kind == .notNull && missing.columns == ["name"] && missing.values == ["name": .null])

        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: "CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, score ANY, mail TEXT, team INTEGER) STRICT")
            try db.execute(
                sql: """
                    CREATE TRIGGER closed BEFORE INSERT ON player WHEN new.name = 'Late'
                    BEGIN SELECT RAISE(ABORT, 'registration is closed'); END;
                    """)
        }
        struct Typed: Codable, Sendable, FetchableRecord, MutablePersistableRecord {
            static let databaseTableName = "player"
            var id: Int64
            var team: String
        }
        let context = try await store.editContext()
        try context.insert(Typed(id: 1, team: "Reds"))
        let typed = try #require(try await saveError { try await context.save() }.constraints.first)
        #expect(typed.kind == .datatype && typed.columns == ["team"])
        context.discard()
        try context.insert(Player(name: "Late"))
        let late = try #require(try await saveError { try await context.save() }.constraints.first)
        #expect(late.kind == .trigger && late.name == "registration is closed")
    }

    @Test("a parent that is not there, and a parent that others refer to")
    func foreignKeys() async throws {
        let orphan = try await refusal { context, players in try context.edit(players[0]) { $0.team = 77 } }
        #expect(orphan.kind == .foreignKey && orphan.identifier == .player(1) && orphan.columns == ["team"] && orphan.name == "team")
        #expect(orphan.values == ["team": 77.databaseValue])
        let league = try await League()
        let context = try await league.store.editContext()
        try context.delete(try #require(try await context.fetchOne(Team.filter(key: 1))))
        let parent = try #require(try await saveError { try await context.save() }.constraints.first)
        #expect(parent.kind == .foreignKey && parent.identifier == .team(1) && parent.name == "player")
        #expect(parent.others.map(\.identifier) == [.player(1), .player(2)])
    }

    @Test("what a record's own code throws")
    func validation() async throws {
        let league = try await League()
        let (context, players) = try await league.context()
        try context.edit(players[0]) { $0.name = "" }
        let error = await #expect(throws: AnnalsError.self) { try await context.save() }
        #expect(error?.code == .validation)
        guard case .validation(let identifier, let reason)? = error?.saveError else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(identifier == .player(1) && reason is Player.Nameless)
        try context.edit(players[0]) { $0.name = "Anna" }
        try await context.save()
        #expect(try await league.player(1)?.name == "Anna")
    }

    @Test("another program that holds the lock")
    func busy() async throws {
        let file = try TemporaryFile("busy.db")
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.busyTimeout = .milliseconds(1)
        let store = try Store(path: file.path, configuration: configuration)
        try await store.write { db in try db.execute(sql: League.schema) }
        let context = try await store.editContext()
        try context.insert(Player(name: "Dora"))
        var options = GRDB.Configuration()
        options.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: file.path, configuration: options)
        try other.inDatabase { db in try db.beginTransaction(.immediate) }
        let error = await #expect(throws: AnnalsError.self) { try await context.save() }
        guard case .busy? = error?.saveError else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(error?.isRetryable == true)
        try other.inDatabase { db in try db.rollback() }
        try await context.save()
    }

    @Test("of a plain write the constraint's table, columns and name")
    func plain() async throws {
        let league = try await League()
        func refused(_ sql: String) async throws -> ConstraintConflict? {
            try await saveError { try await league.other(sql) }.constraints.first
        }
        let unique = try await refused("UPDATE player SET mail = 'ada@x' WHERE id = 2")
        #expect(unique?.kind == .unique && unique?.table == "player" && unique?.columns == ["mail"])
        let check = try await refused("UPDATE player SET score = -1 WHERE id = 2")
        #expect(check?.kind == .check && check?.name == "score >= 0")
        #expect(try await refused("UPDATE player SET name = NULL WHERE id = 2")?.columns == ["name"])
        #expect(try await refused("DELETE FROM team WHERE id = 1")?.kind == .foreignKey)
    }
}
