import Annals
import AnnalsTesting
import Foundation
import Synchronization
import Testing

/// A task of a list, for the tests of fetching and of lists. It counts how often it is decoded.
struct TodoItem: Codable, Identifiable, Hashable, ActiveRecord {
    static let databaseTableName = "todo"
    static let project = belongsTo(Project.self)

    var id: Int64?
    var title: String
    var rank: Int?
    var projectId: Int64?

    init(id: Int64? = nil, title: String, rank: Int? = 0, projectId: Int64? = nil) {
        self.id = id
        self.title = title
        self.rank = rank
        self.projectId = projectId
    }

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

struct Project: Codable, Identifiable, Hashable, ActiveRecord {
    static let items = hasMany(TodoItem.self)

    var id: Int64
    var name: String
}

/// A folder that is deleted after the test.
final class ScratchFolder: Sendable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.path + "/annals-test-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }
}

enum TodoStore {
    static let schema = """
        CREATE TABLE project (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE todo (
            id INTEGER PRIMARY KEY, title TEXT NOT NULL, rank INTEGER, projectId INTEGER REFERENCES project (id) ON DELETE CASCADE
        );
        CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT);
        """

    /// A store in memory with three tracked tables.
    static func inMemory(tracking: Tracking.Selection = .all) async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: schema) }
        try await store.track(tracking)
        return store
    }

    /// The same in a file.
    static func file(at path: String) async throws -> Store {
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: schema) }
        try queue.close()
        let store = try Store(path: path)
        try await store.track(.all)
        return store
    }
}

/// Two replicas of one space, over a relay in memory.
struct TwoReplicas {
    let folder: ScratchFolder
    let relay: MemoryRelay
    let stores: [Store]

    init(schema: String = TodoStore.schema) async throws {
        folder = try ScratchFolder()
        let address = try SpaceAddress("list", at: "http://127.0.0.1:1", as: "a")
        relay = try MemoryRelay(space: address.space, clock: ManualClock(milliseconds: 1_700_000_000_000))
        let (a, b) = (folder.file("a.db"), folder.file("b.db"))
        let queue = try DatabaseQueue(path: a)
        try await queue.write { db in try db.execute(sql: schema) }
        try queue.close()
        let first = try Store(path: a)
        try await first.track(.all)
        try await SyncAgent(store: first, transport: relay, joining: address).sync()
        stores = [first, try await address.clone(to: b, over: relay)]
    }

    func sync(_ index: Int) async throws {
        _ = try await SyncAgent(store: stores[index], transport: relay).sync()
    }

    func settle() async throws {
        for index in [0, 1, 0, 1] { try await sync(index) }
    }
}
