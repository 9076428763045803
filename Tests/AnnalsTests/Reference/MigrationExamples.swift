import Annals
import Testing

enum SchemaV1: VersionedSchema {
    static let versionIdentifier = SchemaVersion(1)

    static func define(_ db: Database) throws {
        try db.create(table: "todo") { table in
            table.primaryKey("id", .text)
            table.column("title", .text).notNull().defaults(to: "")
        }
    }
}

private enum SchemaV2: VersionedSchema {
    static let versionIdentifier = SchemaVersion(2, 1)

    static func define(_ db: Database) throws {
        try db.create(table: "todo") { table in
            table.primaryKey("id", .text)
            table.column("heading", .text).notNull().defaults(to: "")
        }
    }
}

private enum SchemaV3: VersionedSchema {
    static let versionIdentifier = SchemaVersion(3)

    static func define(_ db: Database) throws {
        try SchemaV2.define(db)
        try db.alter(table: "todo") { table in table.add(column: "priority", .integer).notNull().defaults(to: 0) }
    }
}

private enum SchemaV4: VersionedSchema {
    static let versionIdentifier = SchemaVersion(4)

    static func define(_ db: Database) throws { try SchemaV3.define(db) }
}

/// The examples in the documentation of versions and stages, unchanged.
@Suite("The reference's examples: migrations")
struct MigrationExamples {
    @Test("stages lead from the first version to the last")
    func stages() async throws {
        let file = try TemporaryFile("todo.db")
        let path = file.path
        try await DatabaseQueue(path: path).write { db in
            try SchemaV1.define(db)
            try db.execute(sql: "INSERT INTO todo VALUES ('a', 'Milk!')")
        }
        do {
            let stage = MigrationStage.lightweight(
                from: SchemaV1.self, to: SchemaV2.self, renames: [.column("title", of: "todo", to: "heading")])
            #expect(stage.label == "1.0.0 → 2.1.0")
        }
        do {
            let stage = MigrationStage.lightweight(from: SchemaV2.self, to: SchemaV3.self, removing: ["todo.color", "draft"])
            #expect(stage.removals.count == 2)
        }
        do {
            let stage = MigrationStage.lightweight(from: SchemaV3.self, to: SchemaV4.self, requiring: ["todo.priority"])
            #expect(stage.requirements.count == 1)
        }
        let stage = MigrationStage.custom(
            label: "priorities", from: SchemaV2.self, to: SchemaV3.self,
            didMigrate: { db in try db.execute(sql: "UPDATE todo SET priority = 1 WHERE heading LIKE '%!'") })
        #expect(stage.label == "priorities" && stage.from == SchemaVersion(2, 1))

        let stages = try StagedMigrationManager(
            [SchemaV1.self, SchemaV2.self, SchemaV3.self],
            stages: [
                .lightweight(from: SchemaV1.self, to: SchemaV2.self, renames: [.column("title", of: "todo", to: "heading")]),
                .custom(
                    label: "priorities", from: SchemaV2.self, to: SchemaV3.self,
                    didMigrate: { db in try db.execute(sql: "UPDATE todo SET priority = 1 WHERE heading LIKE '%!'") }),
            ])
        var configuration = Store.Configuration()
        configuration.stages = stages
        let store = try Store(path: path, configuration: configuration)
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT priority FROM todo") } == 1)
        try await store.migrate(stages) { progress in print("\(progress.completed) of \(progress.total)") }
    }

    @Test("a column and a table get other names")
    func renames() async throws {
        let store = try Store(inMemory: nil)
        try await store.write { db in try SchemaV1.define(db) }
        try await store.track(.all)
        try await store.migrate(label: "v3", renames: [.column("title", of: "todo", to: "heading"), .table("todo", to: "task")])
        #expect(try await store.read { db in try db.columns(in: "task").map(\.name) } == ["id", "heading"])
    }
}
