import AnnalsCore
import AnnalsHistory
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import Synchronization
import Testing

@testable import AnnalsReplica
@testable import AnnalsStore

/// Schema entries that no honest replica writes, from a member that may push.
@Suite struct HostileSchemaTests {
    private static let schema = "CREATE TABLE todo (id INTEGER PRIMARY KEY, title TEXT)"

    private func push(_ entry: SchemaEntry, to world: SyncedStores) async throws {
        let description = try await world.relay.describe()
        var body = BodyEncoder(info: TransactionInfo(id: .random(), time: HybridTime(milliseconds: 1), origin: .migration))
        body.schema(entry)
        var batch = BatchEncoder(
            lineage: description.lineage, signer: .random(), firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1)
        batch.append(body: body.finish(), base: description.head, footprint: .everything)
        let answer = try await world.relay.push(batch.finish().bytes, seen: LogMark(lineage: description.lineage))
        #expect(answer.outcome == .accepted)
    }

    private func refusal(_ world: SyncedStores, _ index: Int) async throws -> AnnalsError {
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(index) }
        return try #require(error)
    }

    @Test func `an entry that would run a query stops no receiver, and is passed over once it is voided`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        let endless = "CREATE TABLE evil AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
        try await push(
            SchemaEntry(
                version: 2, statements: [endless], tracked: [TableLayout(name: "evil", columns: ["x"], key: [0])], isBreaking: false),
            to: world)
        let position = try await world.relay.describe().head
        let error = try await refusal(world, 1)
        #expect(error.code == .schemaRefused)
        #expect(error.message.contains("position \(position) ") && error.message.contains("evil"), "\(error.message)")
        // The app continues.
        try await world.stores[1].write { db in try db.execute(sql: "INSERT INTO todo VALUES (1, 'one')") }
        _ = try await world.relay.void(position)
        try await world.settle()
        #expect(try await world.rows(2, "SELECT title FROM todo") == [["one".databaseValue]])
    }

    @Test func `other programs write while the statements of an entry are tried`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        let table = "CREATE TABLE added (x INTEGER PRIMARY KEY, y TEXT DEFAULT (hex(randomblob(8))), z AS (length(y)) STORED)"
        for version in [2, 3] as [Int64] {
            let (sql, name) = (table.replacing("added", with: "added\(version)"), "added\(version)")
            try await push(
                SchemaEntry(
                    version: version, statements: [sql], tracked: [TableLayout(name: name, columns: ["x", "y"], key: [0])],
                    isBreaking: false),
                to: world)
        }
        let path = world.stores[1].path
        let writes = Mutex<[String]>([])
        let write: @Sendable () -> Void = {
            var configuration = Configuration()
            configuration.busyMode = .immediateError
            do {
                try DatabaseQueue(path: path, configuration: configuration).write { db in
                    try db.execute(sql: "INSERT INTO todo (title) VALUES ('meanwhile')")
                }
                writes.withLock { $0.append("written") }
            } catch {
                writes.withLock { $0.append("\(error)") }
            }
        }
        _ = try await SchemaTrial.$observer.withValue(SchemaTrial.Observer(begins: write)) { try await world.sync(1) }
        #expect(writes.withLock { $0 } == ["written", "written"])
        #expect(try await world.stores[1].prepareOutbox().schemaVersion == 3)
        #expect(try await world.rows(1, "SELECT title FROM todo").count == 2)
    }

    @Test(arguments: [Int64.max, 1 << 62, 3, 2])
    func `versions move by one, whatever number an entry has, and honest migrations go on`(version: Int64) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try await push(
            SchemaEntry(
                version: version, statements: ["ALTER TABLE todo ADD COLUMN other"],
                tracked: [TableLayout(name: "todo", columns: ["id", "other"], key: [0])], isBreaking: false), to: world)
        try await world.settle()
        #expect(try await world.stores[1].prepareOutbox().schemaVersion == 2)
        try await world.stores[0].migrate(label: "v2") { db in try db.execute(sql: "ALTER TABLE todo ADD COLUMN done DEFAULT 0") }
        try await world.settle()
        for index in [0, 1] { #expect(try await world.stores[index].prepareOutbox().schemaVersion == 3) }
    }

    @Test(arguments: ["nobody(id)", "nobody"])
    func `a column that refers to a table that no replica has stops nobody`(parent: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.reopen(1, newSchemas: .take)
        try await world.settle()
        try await push(
            SchemaEntry(
                version: 2, statements: ["ALTER TABLE todo ADD COLUMN owner INTEGER REFERENCES \(parent)"],
                tracked: [TableLayout(name: "todo", columns: ["id", "owner"], key: [0])], isBreaking: false), to: world)
        for index in [0, 1] { try world.outside(index, "INSERT INTO todo (id, title) VALUES (\(index + 1), 'mine')") }
        try await world.settle()
        try await world.addClone("late")
        try await world.settle()
        for index in world.stores.indices { #expect(try await world.rows(index, "SELECT id FROM todo").count == 2) }
        // SQLite refuses writes to a table with a reference to no table.
        try world.outside(1, "INSERT INTO todo (id, title) VALUES (3, 'after'); DELETE FROM todo")
    }

    @Test func `a new table that refers to no table is refused, and local writes go on`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.reopen(1, newSchemas: .take)
        try await world.settle()
        try await push(
            SchemaEntry(
                version: 2, statements: ["CREATE TABLE vote (id INTEGER PRIMARY KEY, todo INTEGER REFERENCES nobody(id))"],
                tracked: [TableLayout(name: "vote", columns: ["id", "todo"], key: [0])], isBreaking: false), to: world)
        let error = try await refusal(world, 1)
        #expect(error.code == .schemaRefused && error.message.contains("vote"), "\(error.message)")
        try world.outside(1, "INSERT INTO todo (id, title) VALUES (3, 'after')")
    }

    @Test func `a declaration that receivers would refuse is refused at its author by name, and local work goes on`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try await world.stores[0].write { db in
            try db.execute(sql: "CREATE TABLE wide (id INTEGER PRIMARY KEY, body TEXT CHECK (length(zeroblob(id)) >= 0))")
        }
        _ = try await world.stores[0].track(.tables(["wide"]))
        let error = try await refusal(world, 0)
        #expect(error.code == .schemaRefused && error.message.contains("wide") && error.message.contains("zeroblob"), "\(error.message)")
        try await world.stores[0].write { db in try db.execute(sql: "INSERT INTO todo VALUES (1, 'one')") }
        _ = try await world.sync(1)
        #expect(try await world.stores[1].prepareOutbox().schemaVersion == 1)
    }
}
