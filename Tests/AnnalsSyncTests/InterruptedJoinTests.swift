import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Testing

/// The join that creates a space is interrupted or fails. The next join creates the space.
@Suite("A join that was interrupted leaves a space that can be joined")
struct InterruptedJoinTests {
    private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);"

    /// A relay without spaces, and stores with one row each, which is their name.
    private struct Shop {
        let folder: TemporaryFolder
        let relay: LocalRelay
        let space: SpaceName

        init() throws {
            folder = try TemporaryFolder()
            space = try #require(SpaceName("shop"))
            relay = try LocalRelay(folder: folder.file("relay"), space: space)
        }

        func store(_ name: String, rows: String? = nil, schema: String = InterruptedJoinTests.schema) async throws -> Store {
            let queue = try DatabaseQueue(path: folder.file("\(name).db"))
            try await queue.write { db in try db.execute(sql: schema + (rows ?? "INSERT INTO item VALUES(1, '\(name)');")) }
            try queue.close()
            let store = try Store(path: folder.file("\(name).db"))
            try await store.track(.all)
            return store
        }

        /// The same file, with a clock that is ahead.
        func reopened(_ store: Store, after time: Duration) throws -> Store {
            var configuration = Store.Configuration()
            let now = configuration.now
            configuration.now = { now() + Int64(time / .milliseconds(1)) }
            return try Store(path: store.path, configuration: configuration)
        }

        func joining(_ name: String, over transport: (any RelayTransport)? = nil) -> Joining {
            Joining(transport: transport ?? relay, address: "http://127.0.0.1:1", space: space, name: name)
        }

        func join(_ store: Store, over transport: (any RelayTransport)? = nil) async throws -> Joining.Outcome {
            try await joining(store.path, over: transport).join(store)
        }

        /// The rows of a new replica.
        func clone() async throws -> [String] {
            let path = folder.file("clone-\(ReplicaID.random()).db")
            _ = try await joining("clone").clone(to: path)
            return try await InterruptedJoinTests.names(Store(path: path))
        }

        func write(_ name: String, _ sql: String) throws {
            let queue = try DatabaseQueue(path: folder.file("\(name).db"))
            try queue.write { db in try db.execute(sql: sql) }
            try queue.close()
        }
    }

    private static func names(_ store: Store) async throws -> [String] {
        try await store.read { db in try String.fetchAll(db, sql: "SELECT name FROM item ORDER BY id") }
    }

    private static func isCreated(_ outcome: Joining.Outcome) -> Bool {
        if case .created = outcome { true } else { false }
    }

    private static func code(_ body: () async throws -> Void) async -> AnnalsError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? AnnalsError)?.code
        }
    }

    @Test("what its maker never brought, another store brings after a while")
    func abandoned() async throws {
        let shop = try Shop()
        let (one, two) = (try await shop.store("one"), try await shop.store("two"))
        _ = await Self.code { _ = try await shop.join(one, over: AlteredRelay.failing(shop.relay, from: 4)) }
        try await one.leave()
        // The first join may still be under way.
        #expect(await Self.code { _ = try await shop.join(two) } == .spaceUnfinished)
        let stranger = try await shop.store("other", rows: "", schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, more);")
        let later = try shop.reopened(two, after: .seconds(3_600))
        #expect(await Self.code { _ = try await shop.join(shop.reopened(stranger, after: .seconds(3_600))) } == .spaceUnfinished)
        #expect(await Self.code { _ = try await shop.join(later, over: AlteredRelay.failing(shop.relay, from: 3)) } != nil)
        #expect(Self.isCreated(try await shop.join(later)))
        #expect(try await shop.clone() == ["two"])
        try shop.write("two", "INSERT INTO item VALUES(2, 'more')")
        try await SyncAgent(store: later, transport: shop.relay).sync()
        #expect(try await shop.clone() == ["two", "more"])
        #expect(try await later.verify().isEmpty)
        // The first store tries again, and has another row.
        #expect(await Self.code { _ = try await shop.join(one) } == .rowsDiffer)
    }

    @Test("another store's space is not completed while references are undecided")
    func abandonedWithReferences() async throws {
        let shop = try Shop()
        let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE part(id INTEGER PRIMARY KEY, item_id INTEGER);"
        let (one, two) = (try await shop.store("one", rows: "", schema: schema), try await shop.store("two", rows: "", schema: schema))
        try await one.setReferences([ReferenceSetting(table: "part", columns: ["item_id"], .none)])
        _ = await Self.code { _ = try await shop.join(one, over: AlteredRelay.failing(shop.relay, from: 4)) }
        try await one.leave()
        let later = try shop.reopened(two, after: .seconds(3_600))
        #expect(await Self.code { _ = try await shop.join(later) } == .schemaRefused)
        try await later.setReferences([ReferenceSetting(table: "part", columns: ["item_id"], .none)])
        #expect(Self.isCreated(try await shop.join(later)))
    }

    @Test("a join whose space another program began anew meanwhile leaves that alone")
    func abandonedByLineage() async throws {
        let shop = try Shop()
        let store = try await shop.store("one")
        _ = await Self.code { _ = try await shop.join(store, over: AlteredRelay.failing(shop.relay, from: 4)) }
        let stage = try #require(try await store.creationStage())
        try await store.abandonSpace(.random())
        #expect(try await store.creationStage() == stage)
        #expect(try await store.status().isJoinUnfinished)
        #expect(Self.isCreated(try await shop.join(store)))
        try await store.abandonSpace(stage.lineage)
        #expect(try await store.replicaState()?.lineage == stage.lineage)
        #expect(try await !store.status().isJoinUnfinished)
    }

    /// The requests are describe, create, push, upload.
    private static let requests = 4

    @Test("the same store joins again, with what was written meanwhile", arguments: 1...requests, AlteredRelay.Moment.allCases)
    func again(_ number: Int, _ moment: AlteredRelay.Moment) async throws {
        let shop = try Shop()
        let store = try await shop.store("here")
        let failing = AlteredRelay.failing(shop.relay, from: number, moment)
        await #expect(throws: AnnalsError.self) { _ = try await shop.join(store, over: failing) }
        #expect(failing.requests == number)
        try shop.write("here", "INSERT INTO item VALUES(2, 'meanwhile')")
        // A status that is read in between moves the row to the outbox.
        if try await store.replicaState() != nil { _ = try await store.updateOutbox() }
        #expect(Self.isCreated(try await shop.join(store)))
        try shop.write("here", "INSERT INTO item VALUES(3, 'after')")
        _ = try await SyncAgent(store: store, transport: shop.relay).sync()
        #expect(try await shop.clone() == ["here", "meanwhile", "after"])
        #expect(try await store.verify().isEmpty)
    }

    @Test("a snapshot whose answer got lost holds the rows of its moment, and its clone gets the later entries")
    func uploaded() async throws {
        let shop = try Shop()
        let store = try await shop.store("here")
        let failing = AlteredRelay.failing(shop.relay, from: Self.requests, .after)
        await #expect(throws: AnnalsError.self) { _ = try await shop.join(store, over: failing) }
        let path = shop.folder.file("early.db")
        _ = try await shop.joining("early").clone(to: path)
        try shop.write("here", "INSERT INTO item VALUES(2, 'meanwhile')")
        _ = try await shop.join(store)
        _ = try await SyncAgent(store: store, transport: shop.relay).sync()
        let early = try Store(path: path)
        _ = try await SyncAgent(store: early, transport: shop.relay).sync()
        #expect(try await Self.names(early) == ["here", "meanwhile"])
        #expect(try await early.digest() == store.digest())
    }

    @Test("another store takes over a space that is empty, and the first finds its rows there", arguments: 2...3)
    func another(_ number: Int) async throws {
        let shop = try Shop()
        let first = try await shop.store("first")
        // The space exists, and its log is empty.
        let failing = AlteredRelay.failing(shop.relay, from: number, number == 2 ? .after : .before)
        await #expect(throws: AnnalsError.self) { _ = try await shop.join(first, over: failing) }
        let second = try await shop.store("second")
        #expect(Self.isCreated(try await shop.join(second)))
        #expect(await Self.code { _ = try await shop.join(first) } == .rowsDiffer)
        #expect(try await Self.names(first) == ["first"])
        #expect(try await first.replicaState() == nil)
        #expect(try await shop.clone() == ["second"])
    }

    @Test("two stores that take over one space: one is first, the other's rows are compared with its")
    func both() async throws {
        let shop = try Shop()
        let first = try await shop.store("first")
        let second = try await shop.store("second")
        _ = try await shop.relay.create()
        // The first store has copied its rows and sends its entry. At this moment the second one joins, and finishes first.
        let late = AlteredRelay(base: shop.relay, before: { if $0.kind == .push { _ = try await shop.join(second) } })
        #expect(await Self.code { _ = try await shop.join(first, over: late) } == .rowsDiffer)
        #expect(try await first.replicaState() == nil)
        #expect(try await shop.clone() == ["second"])
        // A store with equal rows is recognized.
        let third = try await shop.store("third", rows: "INSERT INTO item VALUES(1, 'second');")
        #expect(!Self.isCreated(try await shop.join(third)))
    }

    @Test("a space whose first rows are still on their way is to be tried again")
    func unfinished() async throws {
        let shop = try Shop()
        let first = try await shop.store("first")
        let failing = AlteredRelay.failing(shop.relay, from: Self.requests)
        await #expect(throws: AnnalsError.self) { _ = try await shop.join(first, over: failing) }
        let second = try await shop.store("second")
        #expect(await Self.code { _ = try await shop.join(second) } == .spaceUnfinished)
        #expect(await Self.code { _ = try await shop.clone() } == .spaceUnfinished)
        // The first store does not send its rows before its join is finished either.
        #expect(await Self.code { _ = try await SyncAgent(store: first, transport: shop.relay).sync() } == .spaceUnfinished)
        _ = try await shop.join(first)
        #expect(await Self.code { _ = try await shop.join(second) } == .rowsDiffer)
    }

    @Test("an interrupted join of another space does not stand in the way")
    func elsewhere() async throws {
        let shop = try Shop()
        let store = try await shop.store("here")
        let failing = AlteredRelay.failing(shop.relay, from: Self.requests)
        await #expect(throws: AnnalsError.self) { _ = try await shop.join(store, over: failing) }
        let other = try Shop()
        #expect(Self.isCreated(try await other.join(store)))
        #expect(try await other.clone() == ["here"])
    }

    @Test("what a killed program left beside the file is removed by the next, what another is at work in stays")
    func leftovers() async throws {
        let shop = try Shop()
        _ = try await shop.join(shop.store("here"))
        // Folders of a dead process, of a running one, and three that a person created.
        for (name, lock) in [
            (".annals-dead0000", "annals-work.lock"), (".annals-0000beef", "annals-work.lock"), (".annals-mine1234", "annals-work.lock"),
            (".annals-mine", "annals-work.lock"), (".annals-00000000", "lock"),
        ] {
            try FileManager.default.createDirectory(atPath: shop.folder.file(name), withIntermediateDirectories: false)
            for file in [lock, "store.db"] { try Data().write(to: URL(fileURLWithPath: shop.folder.file("\(name)/\(file)"))) }
        }
        // Folders of downloads, which are kept for a day: one of today for another process, and one that is too old.
        for (name, age) in [(".annals-cafe0001", 3_600.0), (".annals-cafe0002", 2 * 86_400.0)] {
            let folder = shop.folder.file(name)
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            try Data().write(to: URL(fileURLWithPath: "\(folder)/annals-work.lock"))
            try Data("download of another\n".utf8).write(to: URL(fileURLWithPath: "\(folder)/annals-work.note"))
            try Data(count: 1 << 20).write(to: URL(fileURLWithPath: "\(folder)/snapshot.zst"))
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSinceNow: -age)], ofItemAtPath: "\(folder)/snapshot.zst")
        }
        let lock = open(shop.folder.file(".annals-0000beef/annals-work.lock"), O_RDWR)
        defer { close(lock) }
        #expect(flock(lock, LOCK_EX | LOCK_NB) == 0)
        _ = try await shop.clone()
        let names = try FileManager.default.contentsOfDirectory(atPath: shop.folder.path).filter { $0.hasPrefix(".annals-") }
        #expect(names.sorted() == [".annals-00000000", ".annals-0000beef", ".annals-cafe0001", ".annals-mine", ".annals-mine1234"])
    }

    @Test("what cannot be copied is told before the space is made")
    func collation() async throws {
        let shop = try Shop()
        let path = shop.folder.file("here.db")
        var configuration = GRDB.Configuration()
        configuration.prepareDatabase { db in db.add(collation: DatabaseCollation("ours") { $0.compare($1) }) }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try await queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE other(id INTEGER PRIMARY KEY, name TEXT);
                    CREATE INDEX by_ours ON other(name COLLATE ours);
                    CREATE TABLE plain(name TEXT);
                    CREATE TRIGGER copied AFTER INSERT ON item BEGIN INSERT INTO other(name) VALUES(NEW.name); END;
                    CREATE TRIGGER counted AFTER INSERT ON item BEGIN INSERT INTO plain VALUES(NEW.name); END;
                    INSERT INTO item VALUES(1, 'here');
                    """)
        }
        try queue.close()
        let store = try Store(path: path)
        try await store.track(.tables(["item", "other"]))
        for existing in [nil, ExistingRows.theirs] {
            do {
                _ = try await shop.joining("here").join(store, existing: existing)
                Issue.record("the join went through")
            } catch let error as AnnalsError {
                #expect(error.code == .schemaRefused)
                #expect(error.message.contains("other (its index by_ours uses the collation ours)"), "\(error.message)")
            }
        }
        #expect(await Self.code { _ = try await shop.joining("here").prospect(of: store) } == .schemaRefused)
        #expect(try await store.replicaState() == nil)
        await #expect(throws: TransportError.self) { _ = try await shop.relay.describe() }

        // A table without history is no obstacle. It is left out of new replicas, with the trigger that names it.
        _ = try await store.untrack(["other"])
        let unusable = try await store.unusableTables()
        #expect(
            unusable.map { "\($0.table) \($0.isTracked): \($0.message)" } == [
                "item true: its trigger copied uses the collation ours", "other false: its index by_ours uses the collation ours",
            ])
        #expect(Self.isCreated(try await shop.join(store)))
        let clone = shop.folder.file("clone.db")
        _ = try await shop.joining("clone").clone(to: clone)
        let copy = try Store(path: clone)
        #expect(try await Self.names(copy) == ["here"])
        let sql = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'annals%' AND name NOT LIKE 'sqlite%' ORDER BY name"
        #expect(try await copy.read { db in try String.fetchAll(db, sql: sql) } == ["counted", "item", "plain"])
        #expect(try await store.verify().map(\.code) == [.integrity])
    }

    @Test("rows that break a foreign key make no space, and do not join one")
    func brokenKeys() async throws {
        let shop = try Shop()
        let schema = Self.schema + "CREATE TABLE line(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item(id));"
        let rows = "PRAGMA foreign_keys = OFF; INSERT INTO item VALUES(1, 'here'); INSERT INTO line VALUES(1, 1), (2, 7), (3, 8);"
        let path = shop.folder.file("here.db")
        var configuration = GRDB.Configuration()
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try await queue.write { db in try db.execute(sql: schema + rows) }
        try queue.close()
        let store = try Store(path: path)
        try await store.track(.all)
        #expect(await Self.code { _ = try await shop.joining("here").prospect(of: store) } == .constraint)
        do {
            _ = try await shop.join(store)
            Issue.record("the join went through")
        } catch let error as AnnalsError {
            #expect(error.code == .constraint)
            #expect(error.message.contains("line: 2 without a parent in item"))
            #expect(error.hint?.contains("PRAGMA foreign_key_check") == true)
        }
        #expect(try await store.replicaState() == nil)
        await #expect(throws: TransportError.self) { _ = try await shop.relay.describe() }

        let other = try await shop.store("other", schema: schema)
        _ = try await shop.join(other)
        #expect(await Self.code { _ = try await shop.joining("here").join(store, existing: .sameKey) } == .constraint)
        // Rows that are dropped are no obstacle.
        _ = try await shop.joining("here").join(store, existing: .theirs)
        #expect(try await Self.names(store) == ["other"])
        #expect(try await store.foreignKeyViolations().isEmpty)
    }
}
