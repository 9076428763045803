import Annals
import Foundation
import Synchronization
import Testing

@Suite("Staged migrations")
struct StagedMigrationTests {
    private func filled(_ file: TemporaryFile) async throws {
        let store = try Store(path: file.path, configuration: Todo.configuration(upTo: 1))
        try await store.write { db in try db.execute(sql: "INSERT INTO todo VALUES ('a', 'Milk!'), ('b', 'Call'), ('c', 'Call')") }
        try store.close()
    }

    private func titles(_ store: Store) async throws -> [String] {
        try await store.read { db in try String.fetchAll(db, sql: "SELECT title FROM todo ORDER BY id") }
    }

    private func version(_ store: Store, _ count: Int) async throws -> SchemaVersion? {
        let manager = try Todo.manager(upTo: count)
        return try await store.read { db in try manager.version(of: db) }
    }

    private func migrations(_ store: Store) async throws -> [String] {
        var labels: [String] = []
        for try await transaction in store.history() where transaction.origin.name == "migration" {
            labels.append("\(transaction.contextName ?? "nil") \(transaction.tables)")
        }
        return labels
    }

    @Test("an empty file gets the newest version at once, and the next opening writes nothing")
    func fresh() async throws {
        let file = try TemporaryFile("todo.db")
        try Store(path: file.path, configuration: Todo.configuration(upTo: 3)).close()
        let watcher = try DatabaseQueue(path: file.path)
        let before = try await watcher.read { db in try Int.fetchOne(db, sql: "PRAGMA data_version") }
        let store = try Store(path: file.path, configuration: Todo.configuration(upTo: 3))
        #expect(try await watcher.read { db in try Int.fetchOne(db, sql: "PRAGMA data_version") } == before)
        #expect(try await version(store, 3) == SchemaVersion(3))
        #expect(try await store.status().tracked.sorted() == ["step", "todo"])
        #expect(try await migrations(store).isEmpty)
    }

    @Test("each stage is one transaction of history with its label, and its handlers' changes are kept")
    func stages() async throws {
        let file = try TemporaryFile("todo.db")
        try await filled(file)
        let middle = try Store(path: file.path, configuration: Todo.configuration(upTo: 2))
        let labels = try await migrations(middle)
        #expect(labels == [#"priorities ["todo"]"#])
        try middle.close()
        let store = try Store(path: file.path, configuration: Todo.configuration(upTo: 3))
        #expect(try await titles(store) == ["Milk!", "Call (b)", "Call (c)"])
        #expect(try await store.read { db in try Int.fetchAll(db, sql: "SELECT priority FROM todo ORDER BY id") } == [1, 0, 0])
        // Changes of the new column and of the new table are captured.
        try await store.write { db in
            try db.execute(sql: "UPDATE todo SET priority = 2 WHERE id = 'b'; INSERT INTO step VALUES ('s', 'b', 'Number')")
        }
        var last: [String] = []
        for try await transaction in store.history() { last = transaction.tables }
        #expect(last.sorted() == ["step", "todo"])
        #expect(try await store.verify().isEmpty)
    }

    @Test("a stage that throws changes nothing, earlier stages are kept, and the next opening continues there")
    func resumed() async throws {
        struct Stop: Error {}
        let file = try TemporaryFile("todo.db")
        try await filled(file)
        var broken = try Todo.configuration(upTo: 3)
        broken.stages = try StagedMigrationManager(
            [Todo.V1.self, Todo.V2.self, Todo.V3.self],
            stages: [
                Todo.toV2,
                .custom(from: Todo.V2.self, to: Todo.V3.self, migrate: { _ in }) { db in
                    try db.execute(sql: "DELETE FROM todo")
                    throw Stop()
                },
            ])
        let failing = broken
        #expect(throws: Stop.self) { _ = try Store(path: file.path, configuration: failing) }
        let middle = try Store(path: file.path, configuration: Todo.configuration(upTo: 2))
        #expect(try await version(middle, 2) == SchemaVersion(2))
        #expect(try await titles(middle) == ["Milk!", "Call", "Call"])
        try middle.close()
        let store = try Store(path: file.path, configuration: Todo.configuration(upTo: 3))
        #expect(try await titles(store) == ["Milk!", "Call (b)", "Call (c)"])
    }

    @Test("a stage whose result differs from its version is refused with the difference, and changes nothing")
    func elsewhere() async throws {
        let file = try TemporaryFile("todo.db")
        try await filled(file)
        var configuration = try Todo.configuration(upTo: 2)
        func message(_ migrate: @escaping MigrationStage.Handler) throws -> String? {
            let stage = MigrationStage.custom(label: "wrong", from: Todo.V1.self, to: Todo.V2.self, migrate: migrate)
            configuration.stages = try StagedMigrationManager([Todo.V1.self, Todo.V2.self], stages: [stage])
            let wrong = configuration
            let error = #expect(throws: AnnalsError.self) { _ = try Store(path: file.path, configuration: wrong) }
            #expect(error?.code == .schemaRefused)
            return error?.message
        }
        let column = "ALTER TABLE todo ADD COLUMN priority INTEGER NOT NULL DEFAULT "
        let step = "; CREATE TABLE step (id TEXT PRIMARY KEY NOT NULL, todo TEXT REFERENCES todo(id) ON DELETE CASCADE, text TEXT)"
        #expect(try message { try $0.execute(sql: column + "0") }?.contains("there is no table step") == true)
        #expect(try message { try $0.execute(sql: column + "1" + step) }?.contains("the default of the column priority") == true)
        #expect(try message { try $0.execute(sql: column + "0" + step) }?.contains("there is no index todo_priority") == true)
        let store = try Store(path: file.path, configuration: Todo.configuration(upTo: 1))
        #expect(try await store.read { db in try db.columns(in: "todo").count } == 2)
        #expect(try await migrations(store).isEmpty)
    }

    @Test("impossible versions and stages are refused when the manager is built, with the reason")
    func validated() throws {
        func message(_ schemas: [any VersionedSchema.Type], _ stages: [MigrationStage] = []) -> String {
            let error = #expect(throws: AnnalsError.self) { _ = try StagedMigrationManager(schemas, stages: stages) }
            #expect(error?.code == .usage)
            return error?.message ?? ""
        }
        #expect(message([]).contains("no version"))
        #expect(message([Todo.V2.self, Todo.V1.self]).contains("version 1.0.0 is listed after 2.0.0"))
        #expect(message([Todo.V1.self, Todo.V1.self]).contains("is listed after"))
        let over = MigrationStage.custom(label: "leap", from: Todo.V1.self, to: Todo.V3.self, migrate: { _ in })
        #expect(message([Todo.V1.self, Todo.V2.self, Todo.V3.self], [over, Todo.toV3]).contains("the stage leap does not lead"))
        #expect(message([Todo.V1.self, Todo.V2.self], [Todo.toV2, Todo.toV2]).contains("two stages start at 1.0.0"))
        // These versions differ by more than additions, so they need a stage.
        #expect(message([Todo.V2.self, Todo.V3.self]).contains("the table todo changes"))
        #expect(message([Todo.V2.self, Gone.self]).contains("the table step is dropped"))
        #expect(message([Todo.V1.self, Less.self]).contains("drops the column title"))
        #expect(message([Todo.V1.self, Needy.self]).contains("the column due of todo needs a value"))
        #expect(throws: AnnalsError.self) { _ = try StagedMigrationManager([Broken.self]) }
    }

    private enum Gone: VersionedSchema {
        static let versionIdentifier = SchemaVersion(9)
        static func define(_ db: Database) throws { try Todo.V1.define(db) }
    }
    private enum Less: VersionedSchema {
        static let versionIdentifier = SchemaVersion(9)
        static func define(_ db: Database) throws { try db.execute(sql: "CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL)") }
    }
    private enum Needy: VersionedSchema {
        static let versionIdentifier = SchemaVersion(9)
        static func define(_ db: Database) throws {
            try db.execute(sql: "CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL DEFAULT '', due TEXT NOT NULL)")
        }
    }
    private enum Broken: VersionedSchema {
        static let versionIdentifier = SchemaVersion(9)
        static func define(_ db: Database) throws { try db.execute(sql: "CREATE") }
    }

    /// The third version and one more statement.
    private enum Later: VersionedSchema {
        static let versionIdentifier = SchemaVersion(3)
        static let statement = Mutex("SELECT 1")
        static func define(_ db: Database) throws {
            try Todo.V3.define(db)
            try db.execute(sql: statement.withLock { $0 })
        }
    }

    @Test("a file of a newer app, of an unknown version, or of a changed version is refused and stays unchanged")
    func refused() async throws {
        let file = try TemporaryFile("todo.db")
        try Store(path: file.path, configuration: Todo.configuration(upTo: 3)).close()
        func message(_ manager: StagedMigrationManager) -> String {
            var configuration = Store.Configuration()
            configuration.stages = manager
            let opening = configuration
            let error = #expect(throws: AnnalsError.self) { _ = try Store(path: file.path, configuration: opening) }
            #expect(error?.code == .schemaRefused)
            return error?.message ?? ""
        }
        #expect(try message(Todo.manager(upTo: 2)).contains("a newer version of this app has changed the schema to 3.0.0"))
        let hole = try StagedMigrationManager(
            [Todo.V1.self, Gone.self], stages: [.custom(from: Todo.V1.self, to: Gone.self, migrate: { _ in })])
        #expect(message(hole).contains("does not know version 3.0.0 of the schema"))
        enum Other: VersionedSchema {
            static let versionIdentifier = SchemaVersion(3)
            static func define(_ db: Database) throws { try Todo.V2.define(db) }
        }
        #expect(try message(StagedMigrationManager([Other.self])).contains("had another definition"))
        for more in [
            "CREATE INDEX later ON todo(title)", "CREATE VIEW later AS SELECT 1",
            "CREATE TRIGGER later AFTER DELETE ON todo BEGIN SELECT 1; END",
        ] {
            Later.statement.withLock { $0 = more }
            #expect(try message(StagedMigrationManager([Later.self])).contains("had another definition"), "\(more)")
        }
        Later.statement.withLock { $0 = "SELECT 1" }
        var configuration = Store.Configuration()
        configuration.stages = try StagedMigrationManager([Later.self])
        try Store(path: file.path, configuration: configuration).close()
        let foreign = try TemporaryFile("other.db")
        try await DatabaseQueue(path: foreign.path).write { db in try db.execute(sql: "CREATE TABLE todo (id INTEGER PRIMARY KEY)") }
        let error = #expect(throws: AnnalsError.self) { _ = try Store(path: foreign.path, configuration: Todo.configuration(upTo: 2)) }
        #expect(error?.message.contains("match no version that this app knows") == true)
    }

    @Test("the version of a file that other code made is recognized by its tables")
    func recognized() async throws {
        let file = try TemporaryFile("todo.db")
        try await DatabaseQueue(path: file.path).write { db in
            try db.execute(sql: "CREATE TABLE other (x)")
            try Todo.V2.define(db)
            try db.execute(sql: "INSERT INTO todo VALUES ('a', 'Milk!', 0)")
        }
        let store = try Store(path: file.path, configuration: Todo.configuration(upTo: 3))
        #expect(try await version(store, 3) == SchemaVersion(3))
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT priority FROM todo") } == 0, "the first stage was not run")
        try store.close()
        // The newest version is stored, too, so that the next opening does not compare tables.
        let newest = try TemporaryFile("newest.db")
        let queue = try DatabaseQueue(path: newest.path)
        try await queue.write { db in try Todo.V2.define(db) }
        try Store(path: newest.path, configuration: Todo.configuration(upTo: 2)).close()
        #expect(try await queue.read { db in try String.fetchAll(db, sql: "SELECT version FROM staged_schema_versions") } == ["2.0.0"])
    }

    private enum Named: VersionedSchema {
        static let versionIdentifier = SchemaVersion(2)
        static func define(_ db: Database) throws {
            try db.execute(sql: "CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL, heading TEXT NOT NULL DEFAULT '', done INTEGER)")
        }
    }

    private enum Slim: VersionedSchema {
        static let versionIdentifier = SchemaVersion(2)
        static func define(_ db: Database) throws { try db.execute(sql: "CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL)") }
    }

    @Test("a stage may drop a column, and the table's history is kept")
    func dropped() async throws {
        let file = try TemporaryFile("todo.db")
        try await filled(file)
        let before = try await Store(path: file.path).latestToken()
        var configuration = Store.Configuration()
        configuration.stages = try StagedMigrationManager(
            [Todo.V1.self, Slim.self],
            stages: [
                .custom(
                    from: Todo.V1.self, to: Slim.self,
                    migrate: { db in try db.execute(sql: "DELETE FROM todo WHERE title = 'Milk!'; ALTER TABLE todo DROP COLUMN title") })
            ])
        let store = try Store(path: file.path, configuration: configuration)
        #expect(try await store.read { db in try String.fetchAll(db, sql: "SELECT id FROM todo ORDER BY id") } == ["b", "c"])
        let copy = try TemporaryFile("then.db")
        _ = try await store.replay(to: before, output: copy.path)
        let then = try await DatabaseQueue(path: copy.path).read { db in try String.fetchAll(db, sql: "SELECT id FROM todo ORDER BY id") }
        #expect(then == ["a", "b", "c"])
        #expect(try await migrations(store).count == 1)
    }

    @Test("a stage renames columns of a tracked or an untracked table", arguments: [true, false])
    func renamed(isTracked: Bool) async throws {
        let file = try TemporaryFile("todo.db")
        try await filled(file)
        var configuration = Store.Configuration()
        configuration.stages = try StagedMigrationManager(
            [Todo.V1.self, Named.self],
            stages: [.lightweight(from: Todo.V1.self, to: Named.self, renames: [.column("title", of: "todo", to: "heading")])])
        if !isTracked { _ = try await Store(path: file.path).untrack() }
        let store = try Store(path: file.path, configuration: configuration)
        #expect(
            try await store.read { db in try String.fetchAll(db, sql: "SELECT heading FROM todo ORDER BY id") } == [
                "Milk!", "Call", "Call",
            ])
        guard isTracked else { return }
        try await store.write { db in try db.execute(sql: "UPDATE todo SET heading = 'Bread' WHERE id = 'a'") }
        #expect(try await store.historyCount() == 3)
        #expect(throws: AnnalsError.self) {
            _ = try StagedMigrationManager(
                [Todo.V1.self, Named.self],
                stages: [.lightweight(from: Todo.V1.self, to: Named.self, renames: [.column("name", of: "todo", to: "heading")])])
        }
    }

    @Test("progress is reported before each stage and at the end")
    func progress() async throws {
        let file = try TemporaryFile("todo.db")
        try await filled(file)
        let store = try Store(path: file.path)
        let told = Mutex<[String]>([])
        let version = try await store.migrate(Todo.manager(upTo: 3)) { progress in
            told.withLock { $0.append("\(progress.completed)/\(progress.total) \(progress.label ?? "done")") }
        }
        #expect(version == SchemaVersion(3))
        #expect(told.withLock { $0 } == ["0/2 priorities", "1/2 unique titles", "2/2 done"])
    }

    @Test("rows without their parent stop a stage")
    func references() async throws {
        let file = try TemporaryFile("todo.db")
        let store = try Store(path: file.path, configuration: Todo.configuration(upTo: 2))
        try await store.write { db in
            try db.execute(sql: "INSERT INTO todo VALUES ('a', 'Milk', 0); INSERT INTO step VALUES ('s', 'a', 'Shop')")
        }
        let losing = MigrationStage.custom(from: Todo.V2.self, to: Todo.V3.self, migrate: { db in try Todo.rebuild(db) }) { db in
            try db.execute(sql: "DELETE FROM todo")
        }
        let manager = try StagedMigrationManager([Todo.V2.self, Todo.V3.self], stages: [losing])
        let error = await #expect(throws: AnnalsError.self) { try await store.migrate(manager) }
        #expect(error?.code == .constraint)
        #expect(try await titles(store) == ["Milk"])
    }

    @Test("GRDB's migrator does the same without a store")
    func plain() async throws {
        let queue = try DatabaseQueue()
        try await queue.write { db in
            try Todo.V1.define(db)
            try db.execute(sql: "INSERT INTO todo VALUES ('a', 'Milk!')")
        }
        try Todo.manager(upTo: 3).databaseMigrator.migrate(queue)
        #expect(try await queue.read { db in try Int.fetchOne(db, sql: "SELECT priority FROM todo") } == 1)
        let empty = try DatabaseQueue()
        try Todo.manager(upTo: 3).databaseMigrator.migrate(empty)
        let manager = try Todo.manager(upTo: 3)
        #expect(try await empty.read { db in try manager.version(of: db) } == SchemaVersion(3))
    }

    @Test("versions are ordered by their numbers, and read as they are written")
    func versions() throws {
        #expect(SchemaVersion(2) < SchemaVersion(2, 0, 1) && SchemaVersion(2, 1) < SchemaVersion(10))
        #expect(SchemaVersion("10.2.3") == SchemaVersion(10, 2, 3) && SchemaVersion(10, 2, 3).description == "10.2.3")
        for text in ["", "1", "1.2", "1..3", "1.2.3.4", "a.b.c"] { #expect(SchemaVersion(text) == nil, "\(text)") }
        let manager = try Todo.manager(upTo: 3)
        let sums = manager.versions.compactMap(manager.checksum(of:))
        #expect(sums.count == 3 && Set(sums).count == 3)
    }
}
