import Annals
import Foundation
import Testing

/// A small schema with every kind of constraint.
struct League {
    static let schema = schema(onDelete: "NO ACTION")

    /// - Parameter rule: The ON DELETE action of the reference from player to team.
    static func schema(onDelete rule: String) -> String {
        """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, name TEXT NOT NULL, score INTEGER NOT NULL DEFAULT 0 CHECK (score >= 0), mail TEXT UNIQUE,
            team INTEGER REFERENCES team (id) ON DELETE \(rule), shout TEXT AS (upper(name)));
        INSERT INTO team VALUES (1, 'Reds'), (2, 'Blues');
        INSERT INTO player VALUES (1, 'Ada', 10, 'ada@x', 1), (2, 'Ben', 20, 'ben@x', 1), (3, 'Cleo', 30, NULL, 2);
        """
    }

    let store: Store

    init(onDelete rule: String = "NO ACTION") async throws {
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: League.schema(onDelete: rule)) }
        try await store.track(.all)
        self.store = store
    }

    /// A write by another author.
    func other(_ sql: String) async throws {
        try await store.write(author: "other") { db in try db.execute(sql: sql) }
    }

    func player(_ id: Int64) async throws -> Player? {
        try await store.read { db in try Player.fetchOne(db, key: id) }
    }

    /// Authors of history's transactions, oldest first.
    func authors() async throws -> [String?] {
        var authors: [String?] = []
        for try await transaction in store.history() { authors.append(transaction.author) }
        return authors
    }

    /// A context that knows players 1, 2 and 3.
    func context(_ policy: MergePolicy = .error) async throws -> (EditContext, [Player]) {
        let context = try await store.editContext(author: "me", contextName: "form", mergePolicy: policy)
        return (context, try await context.fetch(Player.order(Column("id"))))
    }
}

struct Team: Codable, Equatable, Sendable, Identifiable, FetchableRecord, MutablePersistableRecord {
    static let databaseTableName = "team"
    var id: Int64?
    var name: String

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

struct Player: Codable, Equatable, Sendable, Identifiable, FetchableRecord, MutablePersistableRecord {
    static let databaseTableName = "player"
    var id: Int64?
    var name: String
    var score = 0
    var mail: String?
    var team: Int64?

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }

    func willSave(_ db: Database) throws {
        if name.isEmpty { throw Nameless() }
    }

    struct Nameless: Error {}
}

extension PersistentIdentifier {
    static func player(_ id: Int64) -> Self { Self(table: "player", key: [.integer(id)]) }
    static func team(_ id: Int64) -> Self { Self(table: "team", key: [.integer(id)]) }
}

/// The error of a save, as a caller handles it.
func saveError(_ body: () async throws -> Void, sourceLocation: SourceLocation = #_sourceLocation) async throws -> SaveError {
    let error = await #expect(throws: AnnalsError.self, sourceLocation: sourceLocation) { try await body() }
    return try #require(error?.saveError, sourceLocation: sourceLocation)
}

extension SaveError {
    var conflicts: [MergeConflict] { if case .conflicts(let conflicts) = self { conflicts } else { [] } }
    var constraints: [ConstraintConflict] { if case .constraints(let conflicts) = self { conflicts } else { [] } }
}

/// Does other work while a save runs, and keeps the edited values in every conflict.
struct Meanwhile: MergePolicyResolver {
    let work: @Sendable () async throws -> Void

    func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) throws {
        let done = DispatchSemaphore(value: 0)
        Task {
            await #expect(throws: Never.self) { try await work() }
            done.signal()
        }
        #expect(done.wait(timeout: .now() + 60) == .success)
        for index in list.indices { list[index].resolution = .keepObject }
    }
}
