import AnnalsCore
import AnnalsMerge
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import Synchronization
import Testing

/// Transactions that are too large for one batch. The limit is low, so that some thousand rows have many parts.
@Suite struct PartsTests {
    private static let rows = 3_000
    private static let partBytes = 16 << 10

    /// `insert`: the second row and all later ones are inserted in one external transaction.
    private func world(replicas: Int = 2, insert: Bool = true) async throws -> SyncedStores {
        var limits = OutboxLimits()
        limits.partBytes = Self.partBytes
        let world = try await SyncedStores(
            replicas: replicas,
            schema: """
                CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, note TEXT);
                INSERT INTO item VALUES(1, 'name of 1', NULL)
                """,
            outboxLimits: limits)
        if insert { try world.outside(0, Self.insert) }
        return world
    }

    private static let insert = """
        WITH RECURSIVE c(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM c WHERE x < \(rows))
        INSERT INTO item SELECT x, 'name of ' || x, hex(randomblob(30)) FROM c
        """

    private func parts(_ world: SyncedStores, _ index: Int = 0) async throws -> Int {
        try await world.stores[index].read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_push") ?? 0 }
    }

    private func expectEqual(_ world: SyncedStores, rows: Int = Self.rows) async throws {
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1)
        #expect(Set(try await world.stores.asyncMap { try await $0.digestOfLog() }).count == 1)
        for index in world.stores.indices {
            #expect(try await world.rows(index, "SELECT count(*) FROM item") == [[rows.databaseValue]])
            #expect(try await world.stores[index].verify().isEmpty)
            for table in ["annals_outbox", "annals_outbox_parts", "annals_push", "annals_parts", "annals_ahead"] {
                #expect(try await world.rows(index, "SELECT count(*) FROM \(table)") == [[0.databaseValue]], "\(table) of \(index)")
            }
        }
    }

    @Test func `law 6: a transaction in parts arrives whole`() async throws {
        let world = try await world()
        let relay = AlteredRelay(base: world.relay)
        let pushed = try await world.sync(0, over: relay).pushed
        #expect(pushed.transactions == 1 && pushed.changes == Self.rows - 1)
        #expect(relay.pushes > 5)
        let pulled = try await world.sync(1)
        #expect(pulled.pulled.transactions == 1 && pulled.pulled.changes == Self.rows - 1)
        #expect(pulled.position.rawValue == Int64(relay.pushes) + 1)
        try await expectEqual(world)
        try await world.addClone("r2")
        try await world.settle()
        try await expectEqual(world)
    }

    @Test func `law 6: a page may end in the middle, and no reader sees half`() async throws {
        let world = try await world()
        try await world.sync(0)
        let relay = AlteredRelay.failing(world.relay, .pull, from: 4, pageBytes: 1)
        await #expect(throws: AnnalsError.self) { try await world.sync(1, over: relay) }
        #expect(try await world.rows(1, "SELECT count(*) FROM item") == [[1.databaseValue]])
        #expect(try await world.rows(1, "SELECT count(*) FROM annals_parts") == [[3.databaseValue]])
        #expect(try await world.stores[1].verify().isEmpty)
        // Local work continues meanwhile, and is pushed with the position before the parts as its base.
        try world.outside(1, "INSERT INTO item VALUES(\(Self.rows + 7), 'mine', NULL)")
        try world.reopen(1)
        let rest = AlteredRelay(base: world.relay, pageBytes: 1)
        try await world.sync(1, over: rest)
        let parts = try await world.relay.describe().head.rawValue - 2
        #expect(Int64(rest.pulls) < parts)
        try await world.settle()
        try await expectEqual(world, rows: Self.rows + 1)
    }

    @Test func `law 7: killed after any part and come back`() async throws {
        let world = try await world()
        _ = try await world.stores[0].prepareOutbox()
        let push = try #require(try await world.stores[0].freezePush())
        #expect(push.parts > 5)
        for part in 1...push.parts {
            for moment in AlteredRelay.Moment.allCases {
                let relay = AlteredRelay.failing(world.relay, .push, from: part, moment)
                await #expect(throws: AnnalsError.self) { try await world.sync(0, over: relay) }
                try world.reopen(0)
                #expect(try await parts(world) == push.parts)
                let isThere = part == push.parts && moment == .after
                #expect(try await world.relay.describe().head.rawValue == (isThere ? Int64(push.parts) + 1 : 1))
            }
        }
        // The first push reports that all parts arrived, and the last one that they are the same.
        let relay = AlteredRelay(base: world.relay)
        #expect(try await world.sync(0, over: relay).pushed.transactions == 1)
        #expect(relay.pushes == 2)
        try await world.settle()
        try await expectEqual(world)
    }

    @Test func `unique values and keys that are swapped across parts`() async throws {
        let world = try await world()
        try await world.settle()
        // The rows swap their names, first with last. All names are moved out of the way before.
        try world.outside(
            0,
            """
            UPDATE item SET name = 'x' || id;
            UPDATE item SET name = 'name of ' || (\(Self.rows + 1) - id), note = 'swapped';
            """)
        let relay = AlteredRelay(base: world.relay)
        try await world.sync(0, over: relay)
        #expect(relay.pushes > 5)
        try await world.sync(1, over: AlteredRelay(base: world.relay, pageBytes: 1))
        try await expectEqual(world)
        #expect(try await world.rows(1, "SELECT name FROM item WHERE id = 1") == [["name of \(Self.rows)".databaseValue]])
    }

    @Test func `a transaction in parts that met something is rewritten in parts`() async throws {
        let world = try await world(replicas: 3)
        try await world.settle()
        try world.outside(2, "UPDATE item SET name = 'theirs', note = 'theirs' WHERE id = 7")
        try await world.sync(2)
        world.clock.advance(.seconds(1))
        try world.outside(0, "UPDATE item SET note = 'ours ' || coalesce(note, '')")
        #expect(try await world.stores[0].prepareOutbox().outbox == 1)
        #expect(try await world.stores[0].verify().isEmpty)
        let summary = try await world.sync(0, over: AlteredRelay(base: world.relay, pageBytes: 1))
        #expect(summary.refusals == 1 && summary.pushed.transactions == 1 && summary.conflicts == 1)
        try await world.settle()
        try await expectEqual(world)
        #expect(try await world.stores.asyncMap { try await $0.conflicts().count } == [1, 1, 1])
    }

    @Test func `law 5: a journal may have parts too`() async throws {
        let world = try await world(replicas: 3)
        try await world.settle()
        try world.outside(0, "UPDATE item SET note = 'theirs ' || id")
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE item SET note = 'ours ' || id")
        let relay = AlteredRelay(base: world.relay)
        let summary = try await world.sync(1, over: relay)
        #expect(summary.conflicts == Self.rows && relay.pushes > 10)
        try await world.settle()
        try await expectEqual(world)
        let journals = try await world.stores.asyncMap { store in
            try await store.conflicts().map { "\($0.name) \($0.position) \($0.entry)" }.sorted()
        }
        #expect(journals[0].count == Self.rows && Set(journals[0]).count == Self.rows)
        #expect(journals[1] == journals[0] && journals[2] == journals[0])
    }

    @Test func `two transactions in parts that do not meet`() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE a(id INTEGER PRIMARY KEY, note TEXT); CREATE TABLE b(id INTEGER PRIMARY KEY, note TEXT);
                CREATE TABLE item(id INTEGER PRIMARY KEY)
                """,
            outboxLimits: {
                var limits = OutboxLimits()
                limits.partBytes = Self.partBytes
                return limits
            }())
        func fill(_ table: String) -> String {
            """
            WITH RECURSIVE c(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM c WHERE x < \(Self.rows))
            INSERT INTO \(table) SELECT x, hex(randomblob(30)) FROM c
            """
        }
        try world.outside(0, fill("a"))
        try world.outside(1, fill("b"))
        try await world.sync(0)
        // The second transaction is pushed without having seen the first one. It is ahead of the position and is not applied again.
        #expect(try await world.sync(1, .pushOnly).refusals == 0)
        try world.outside(1, "INSERT INTO item VALUES(5)")
        try await world.sync(1, over: AlteredRelay(base: world.relay, pageBytes: 1))
        try await world.settle()
        try await expectEqual(world, rows: 1)
    }

    @Test func `leaving with parts kept`() async throws {
        let world = try await world()
        try await world.sync(0)
        let relay = AlteredRelay.failing(world.relay, .pull, from: 3, pageBytes: 1)
        await #expect(throws: AnnalsError.self) { try await world.sync(1, over: relay) }
        try await world.stores[1].leave(force: true)
        let tables = try await world.rows(1, "SELECT name FROM sqlite_master WHERE name GLOB 'annals_*part*'")
        #expect(tables.isEmpty)
    }

    @Test(arguments: [1, 1 << 20])
    func `the space at a position within a transaction in parts is as it was before that`(pageBytes: Int) async throws {
        let world = try await world()
        let head = try await world.sync(0).position
        #expect(head > Position(5))
        for (position, rows) in [(Position(2), 1), (Position(4), 1), (Position(head.rawValue - 1), 1), (head, Self.rows)] {
            let path = world.folder.file("at-\(position).db")
            let relay = AlteredRelay(base: world.relay, pageBytes: pageBytes)
            let replay = try await world.joining("r", over: relay).replay(to: position, output: path)
            #expect(replay.position == (rows == 1 ? Position(1) : head), "position \(position)")
            let count = try await Store(path: path).read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM item") }
            #expect(count == rows, "position \(position)")
        }
    }

    @Test func `a copy of a file whose push in parts is under way`() async throws {
        let world = try await world()
        _ = try await world.stores[0].prepareOutbox()
        _ = try await world.stores[0].freezePush()
        try await world.addCopy(of: 0)
        try await world.sync(0)
        try await world.settle()
        try await expectEqual(world)
    }

    @Test func `two copies that push in parts at once let each other through`() async throws {
        let world = try await world(insert: false)
        try await world.addCopy(of: 0)
        let copy = world.stores[2]
        for (index, first) in [(0, 10_000), (2, 20_000)] {
            try world.outside(
                index,
                """
                WITH RECURSIVE c(x) AS (SELECT \(first) UNION ALL SELECT x + 1 FROM c WHERE x < \(first + 999))
                INSERT INTO item SELECT x, 'name of ' || x, hex(randomblob(30)) FROM c
                """)
        }
        _ = try await copy.prepareOutbox()
        let other = try #require(try await copy.freezePush())
        // The other copy starts its push again between any two parts of this one, until this one pauses.
        let isThrough = Mutex(false)
        let relay = AlteredRelay(
            base: world.relay,
            before: { request in
                guard request.kind == .push, request.ofKind > 1, !isThrough.withLock({ $0 }) else { return }
                _ = try await world.relay.push(other.batch, seen: other.seen)
            })
        let environment = SyncAgent.Environment(
            pause: { _ in
                let isFirst = isThrough.withLock { isThrough in
                    defer { isThrough = true }
                    return !isThrough
                }
                if isFirst { try await world.sync(2) }
            }, random: { 0.5 })
        try await SyncAgent(store: world.stores[0], transport: relay, environment: environment).sync()
        try await world.settle()
        try await expectEqual(world, rows: 2_001)
        #expect(Set(try await world.identities()).count == 3)
    }
}
