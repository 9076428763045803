import Annals
import Testing

/// The examples of the guide "Coming from Core Data or SwiftData".
@Suite("The Core Data guide")
struct CoreDataGuideTests {
    private typealias SchemaV1 = Todo.V1
    private typealias SchemaV2 = Todo.V2

    @Test("its batch is inserted")
    func batch() async throws {
        struct Item: Codable, PersistableRecord {
            var name: String
            var price: Int
        }
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: "CREATE TABLE item (name TEXT PRIMARY KEY NOT NULL, price INTEGER)") }
        try await store.track(.all)
        let rows = [Item(name: "tea", price: 4), Item(name: "milk", price: 5)]
        let result = try await store.execute(BatchInsertRequest(rows, onConflict: .update(["price"], of: ["name"])), author: "import")
        print(result.count, result.token as Any)
        #expect(result.count == 2)
    }

    @Test("its edit is saved")
    func edit() async throws {
        struct Task: Codable, FetchableRecord, PersistableRecord {
            static let databaseTableName = "todo"
            var id: String
            var title: String
        }
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try Todo.V1.define(db)
            try db.execute(sql: "INSERT INTO todo VALUES ('a', 'Milk')")
        }
        try await store.track(.all)
        let context = try await store.editContext(author: "till 3")
        if let task = try await context.fetchOne(Task.filter(key: "a")) {
            try context.edit(task) { $0.title = "Oat milk" }
        }
        try await context.save(mergePolicy: .mergeByPropertyObjectTrump)
        #expect(try await store.read { db in try String.fetchOne(db, sql: "SELECT title FROM todo") } == "Oat milk")
    }

    @Test("its stages migrate")
    func stages() async throws {
        let file = try TemporaryFile("todo.db")
        let path = file.path
        try await DatabaseQueue(path: path).write { db in
            try Todo.V1.define(db)
            try db.execute(sql: "INSERT INTO todo VALUES ('a', 'Milk!')")
        }
        let stages = try StagedMigrationManager(
            [SchemaV1.self, SchemaV2.self],
            stages: [
                .custom(
                    label: "priorities", from: SchemaV1.self, to: SchemaV2.self,
                    didMigrate: { db in try db.execute(sql: "UPDATE todo SET priority = 1 WHERE title LIKE '%!'") })
            ])
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.stages = stages
        configuration.tables = .all
        let store = try Store(path: path, configuration: configuration)
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT priority FROM todo") } == 1)
    }
}
