import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import RelayLog
import Testing

/// A replica missed log entries that the relay has purged. It resyncs from a snapshot and keeps its unsent transactions.
@Suite struct RejoiningTests {
    private static let schema = """
        CREATE TABLE team(id INTEGER PRIMARY KEY, name TEXT UNIQUE, budget INTEGER);
        CREATE TABLE person(id INTEGER PRIMARY KEY, team INTEGER REFERENCES team(id) ON DELETE SET NULL, name TEXT, email TEXT UNIQUE);
        CREATE TABLE badge(code TEXT PRIMARY KEY, person INTEGER NOT NULL REFERENCES person(id));
        INSERT INTO team VALUES(1, 'ops', 100), (2, 'dev', 200), (3, 'law', 300);
        INSERT INTO person VALUES(1, 1, 'ada', 'ada@x'), (2, 1, 'bob', 'bob@x'), (3, 2, 'cyd', 'cyd@x'), (4, 3, 'dan', 'dan@x');
        INSERT INTO badge VALUES('A', 1), ('B', 2);
        """

    private func world(replicas: Int = 2, outboxLimits: OutboxLimits = OutboxLimits()) async throws -> SyncedStores {
        try await SyncedStores(replicas: replicas, schema: Self.schema, outboxLimits: outboxLimits)
    }

    /// Replica 0 makes a snapshot. Then the relay purges the log before it, also entries that other replicas have not pulled.
    private func purge(_ world: SyncedStores) async throws {
        try await world.sync(0)
        #expect(try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        let horizon = try await world.relay.purge(rules)
        #expect(try await world.relay.describe().snapshot?.position == horizon)
    }

    /// Replica `index` resyncs with one sync. Then all replicas and a new clone must be equal.
    @discardableResult
    private func rejoin(
        _ world: SyncedStores, _ index: Int = 1, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> SyncAgent.Summary {
        let before = try await world.stores[index].latestToken()
        let digest = try await world.stores[index].digest()
        let summary = try await world.sync(index)
        #expect(summary.cameBack != nil, sourceLocation: sourceLocation)
        #expect(summary.outbox == 0 && summary.position == summary.head, sourceLocation: sourceLocation)
        // Law 8: history continues, and contains the transactions before the resync.
        let path = world.folder.file("before-\(before).db")
        _ = try await world.stores[index].replay(to: before, output: path)
        try await Self.track(path)
        let replayed = try Store(path: path)
        #expect(try await replayed.digest() == digest, sourceLocation: sourceLocation)
        try await expectEqual(world, sourceLocation: sourceLocation)
        return summary
    }

    private static func track(_ path: String) async throws {
        let store = try Store(path: path)
        _ = try await store.track(.all)
        try store.close()
    }

    private func expectEqual(_ world: SyncedStores, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await world.settle()
        try await world.addClone("fresh-\(world.stores.count)")
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1, sourceLocation: sourceLocation)
        for (number, store) in world.stores.enumerated() {
            #expect(try await store.verify().isEmpty, "replica \(number)", sourceLocation: sourceLocation)
            let journal = Set(try await store.conflicts().map(\.name))
            #expect(journal == Set(try await world.stores[0].conflicts().map(\.name)), "replica \(number)", sourceLocation: sourceLocation)
        }
    }

    private func text(_ world: SyncedStores, _ index: Int, _ sql: String) async throws -> [String] {
        try await world.stores[index].read { try String.fetchAll($0, sql: sql) }
    }

    @Test func `with nothing of its own it has the space's rows`() async throws {
        let world = try await world()
        try world.outside(
            0, "UPDATE team SET budget = 1; DELETE FROM badge; DELETE FROM person WHERE id = 2; INSERT INTO team VALUES(9, 'new', 0)")
        // Unique values are swapped.
        try world.outside(
            0,
            "UPDATE team SET name = 'x' WHERE id = 1; UPDATE team SET name = 'ops' WHERE id = 2; UPDATE team SET name = 'dev' WHERE id = 1")
        try await purge(world)
        try world.outside(0, "UPDATE team SET budget = 2 WHERE id = 9")
        try await world.sync(0)
        let summary = try await rejoin(world)
        #expect(summary.conflicts == 0 && summary.pulled.transactions == 1)
        let imported = try await text(world, 1, "SELECT context FROM annals_transactions WHERE context = 'snapshot'")
        #expect(imported.count == 1)
        #expect(try await world.sync(1).cameBack == nil)
    }

    @Test func `law 5: columns that both changed are settled by time, and what lost is in the journal`() async throws {
        let world = try await world()
        func write(_ index: Int, _ sql: String) async throws {
            world.clock.advance(.seconds(60))
            try await world.stores[index].write { db in try db.execute(sql: sql) }
        }
        try await write(1, "UPDATE team SET budget = 111 WHERE id = 1; UPDATE person SET name = 'early' WHERE id = 1")
        try await write(
            0,
            """
            UPDATE team SET budget = 999, name = 'OPS' WHERE id = 1; UPDATE person SET email = 'new@x' WHERE id = 1;
            UPDATE team SET name = 'DEV' WHERE id = 2
            """)
        try await purge(world)
        try await write(1, "UPDATE team SET name = 'late' WHERE id = 2")
        let summary = try await rejoin(world)
        #expect(summary.conflicts >= 2)
        #expect(try await text(world, 0, "SELECT name || ' ' || budget FROM team ORDER BY id") == ["OPS 999", "late 200", "law 300"])
        #expect(try await text(world, 0, "SELECT name || ' ' || email FROM person WHERE id = 1") == ["early new@x"])
        let lost = try await world.stores[0].conflicts().filter { $0.entry.table == "team" && $0.entry.winner == .stored }
        #expect(lost.contains { $0.entry.incoming == [.integer(111)] && $0.entry.base == [.integer(100)] })
    }

    @Test func `law 4: keys, unique values and references are settled as in any rebase`() async throws {
        let world = try await world()
        try world.outside(
            1,
            """
            INSERT INTO person VALUES(5, 2, 'mine', 'mine@x'), (6, 3, 'other', 'same@x');
            INSERT INTO badge VALUES('M', 5);
            UPDATE person SET name = 'edited' WHERE id = 3;
            DELETE FROM team WHERE id = 3;
            INSERT INTO badge VALUES('D', 4);
            """)
        world.clock.advance(.seconds(60))
        try world.outside(
            0,
            """
            INSERT INTO person VALUES(5, 1, 'theirs', 'theirs@x'), (7, 1, 'seven', 'same@x');
            INSERT INTO badge VALUES('T', 5);
            DELETE FROM team WHERE id = 2;
            UPDATE team SET budget = 301 WHERE id = 3;
            DELETE FROM person WHERE id = 4;
            """)
        try await purge(world)
        try await rejoin(world)
        // The rebase gave the row a new key and updated the references to it. Its team was deleted.
        #expect(try await text(world, 0, "SELECT p.name FROM badge b JOIN person p ON p.id = b.person WHERE code = 'M'") == ["mine"])
        #expect(try await text(world, 0, "SELECT p.name FROM badge b JOIN person p ON p.id = b.person WHERE code = 'T'") == ["theirs"])
        #expect(try await text(world, 0, "SELECT name FROM person WHERE name = 'mine' AND team IS NULL AND id <> 5") == ["mine"])
        #expect(try await text(world, 0, "SELECT name FROM person WHERE email = 'same@x'") == ["seven"])
        #expect(try await text(world, 0, "SELECT name FROM person WHERE id = 3") == ["edited"])
        #expect(try await !world.stores[0].conflicts().isEmpty)
    }

    @Test func `law 6: a transaction in parts is rebased as a whole`() async throws {
        var limits = OutboxLimits()
        limits.partBytes = 4 << 10
        let world = try await world(outboxLimits: limits)
        try world.outside(
            1,
            """
            WITH RECURSIVE c(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c WHERE x < 500)
            INSERT INTO person SELECT x, 1, 'mine ' || x, hex(randomblob(20)) FROM c
            """)
        _ = try await world.stores[1].prepareOutbox()
        #expect(try await text(world, 1, "SELECT parts FROM annals_outbox WHERE parts > 3").count == 1)
        try world.outside(0, "INSERT INTO person VALUES(20, 2, 'theirs', 'theirs@x')")
        try await purge(world)
        let summary = try await rejoin(world)
        #expect(summary.pushed.transactions == 1)
        #expect(try await text(world, 0, "SELECT count(*) FROM person WHERE name LIKE 'mine %'") == ["491"])
    }

    @Test(arguments: [1, 3]) func `law 7: a push whose answer was lost and whose entries were purged takes effect once`(transactions: Int)
        async throws
    {
        let world = try await world()
        for number in 0..<transactions {
            try await world.stores[1].write { db in
                try db.execute(
                    sql: "INSERT INTO team(name, budget) VALUES('t\(number)', 0); UPDATE team SET budget = budget + 1 WHERE id = 1")
            }
        }
        _ = try await world.stores[1].prepareOutbox()
        let push = try #require(try await world.stores[1].freezePush())
        // Another replica's entry gets a position before the push. Replica 1 has not pulled it.
        try world.outside(0, "UPDATE team SET budget = 7 WHERE id = 2")
        try await world.sync(0)
        #expect(try await world.relay.push(push.batch, seen: push.seen).positions.count == transactions)
        try world.outside(0, "UPDATE team SET budget = 8 WHERE id = 2")
        try await purge(world)
        try world.outside(1, "UPDATE team SET budget = budget + 10 WHERE id = 3")
        let summary = try await rejoin(world)
        #expect(summary.pushed.transactions == transactions + 1)
        #expect(try await text(world, 0, "SELECT budget FROM team WHERE id < 4 ORDER BY id") == ["\(100 + transactions)", "8", "310"])
        #expect(try await text(world, 0, "SELECT name FROM team WHERE name LIKE 't%'").count == transactions)
        #expect(try await world.stores[0].conflicts().isEmpty)
        // The relay recognizes a late copy of the push and changes nothing.
        let head = try await world.relay.describe().head
        _ = try await world.relay.push(push.batch, seen: push.seen)
        #expect(try await world.relay.describe().head == head)
    }

    @Test func `law 7: a push that never arrived is refused for its base, and its work goes out once`() async throws {
        let world = try await world()
        try world.outside(1, "INSERT INTO team VALUES(4, 'mine', 0); UPDATE team SET budget = 101 WHERE id = 1")
        _ = try await world.stores[1].prepareOutbox()
        let push = try #require(try await world.stores[1].freezePush())
        try world.outside(0, "INSERT INTO team VALUES(4, 'theirs', 0)")
        try await purge(world)
        try await rejoin(world)
        #expect(try await text(world, 0, "SELECT name FROM team WHERE id > 3 ORDER BY id") == ["theirs", "mine"])
        let head = try await world.relay.describe().head
        _ = try await world.relay.push(push.batch, seen: push.seen)
        #expect(try await world.relay.describe().head == head)
    }

    @Test func `law 7: parts whose answers were lost and whose entries were purged take effect once`() async throws {
        var limits = OutboxLimits()
        limits.partBytes = 4 << 10
        let world = try await world(outboxLimits: limits)
        try world.outside(
            1,
            """
            WITH RECURSIVE c(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c WHERE x < 300)
            INSERT INTO person SELECT x, 1, 'mine ' || x, hex(randomblob(20)) FROM c
            """)
        _ = try await world.stores[1].prepareOutbox()
        let first = try #require(try await world.stores[1].freezePush())
        #expect(first.parts > 3)
        try world.outside(0, "UPDATE team SET budget = 7 WHERE id = 2")
        try await world.sync(0)
        for number in 0..<first.parts {
            let part = try #require(try await world.stores[1].part(number, of: first))
            _ = try await world.relay.push(part.batch, seen: part.seen)
        }
        try await purge(world)
        let summary = try await rejoin(world)
        #expect(summary.pushed.transactions == 1)
        #expect(try await text(world, 0, "SELECT count(*) FROM person WHERE name LIKE 'mine %'") == ["291"])
        #expect(try await world.stores[0].conflicts().isEmpty)
    }

    @Test func `own entries after the snapshot are kept, and later entries of others are applied`() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE team SET budget = 7 WHERE id = 2")
        try await world.sync(0)
        #expect(try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        try world.outside(0, "UPDATE team SET budget = 8 WHERE id = 2")
        try await world.sync(0)
        // The relay accepts this entry, because it conflicts with nothing. Replica 1 has not pulled the entries before it.
        try world.outside(1, "UPDATE team SET budget = 101 WHERE id = 1")
        #expect(try await world.sync(1, .pushOnly).pushed.transactions == 1)
        try world.outside(0, "UPDATE team SET budget = 9 WHERE id = 2")
        try await world.sync(0)
        try world.outside(1, "UPDATE team SET budget = 102 WHERE id = 1; INSERT INTO team VALUES(4, 'mine', 0)")
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        _ = try await world.relay.purge(rules)
        try await rejoin(world)
        #expect(try await text(world, 0, "SELECT budget FROM team ORDER BY id") == ["102", "9", "300", "0"])
    }

    @Test func `a copy of the file that resyncs does not send the same transaction again`() async throws {
        let world = try await world()
        try world.outside(1, "INSERT INTO team VALUES(4, 'shared', 0); UPDATE team SET budget = 101 WHERE id = 1")
        _ = try await world.stores[1].prepareOutbox()
        try await world.addCopy(of: 1)
        try await world.sync(1)
        try world.outside(1, "UPDATE team SET budget = 55 WHERE id = 3")
        try await world.sync(1)
        try world.outside(2, "INSERT INTO person VALUES(9, 4, 'of the copy', 'copy@x')")
        try await purge(world)
        let summary = try await rejoin(world, 2)
        #expect(summary.tookNewIdentity)
        #expect(try await text(world, 0, "SELECT name FROM team ORDER BY id") == ["ops", "dev", "law", "shared"])
        #expect(try await text(world, 0, "SELECT t.name FROM person p JOIN team t ON t.id = p.team WHERE p.id = 9") == ["shared"])
    }

    @Test func `a resync that fails at any request changes nothing, and the next sync completes`() async throws {
        let world = try await world()
        try world.outside(1, "INSERT INTO team VALUES(4, 'mine', 0); UPDATE team SET budget = 101 WHERE id = 1")
        try world.outside(0, "INSERT INTO team VALUES(4, 'theirs', 0)")
        try await purge(world)
        let digest = try await world.stores[1].digest()
        for number in 1...4 {
            let relay = AlteredRelay.failing(world.relay, from: number)
            await #expect(throws: AnnalsError.self) { try await world.sync(1, over: relay) }
            #expect(try await world.stores[1].digest() == digest, "request \(number)")
        }
        try await rejoin(world)
        #expect(try await text(world, 0, "SELECT name FROM team WHERE id > 3 ORDER BY id") == ["theirs", "mine"])
    }

    @Test func `unverified rows are compared with the newest snapshot that is not after the replica's position`() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE team SET budget = 7 WHERE id = 2")
        try await world.settle()
        try world.outside(
            1,
            """
            CREATE TABLE new_badge(code TEXT PRIMARY KEY, person INTEGER NOT NULL REFERENCES person(id));
            INSERT INTO new_badge SELECT * FROM badge; DROP TABLE badge; ALTER TABLE new_badge RENAME TO badge;
            INSERT INTO badge VALUES('unseen', 3);
            """)
        try world.outside(0, "UPDATE team SET budget = 8 WHERE id = 2")
        try await world.sync(0)
        #expect(try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        #expect(try await world.sync(1).reconciled == 1)
        try await expectEqual(world)
    }

    @Test func `the space can be replayed at any kept position without a store`() async throws {
        let world = try await world()
        var digests: [Position: Digest] = [Position(1): try await world.stores[0].digest()]
        for number in 0..<6 {
            try world.outside(0, "UPDATE team SET budget = budget + 1; INSERT INTO team(name) VALUES('t\(number)')")
            let position = try await world.sync(0).position
            digests[position] = try await world.stores[0].digest()
            if number == 3 { try await purge(world) }
        }
        let horizon = try await world.relay.describe().horizon
        #expect(horizon == Position(5))
        for (position, digest) in digests.sorted(by: { $0.key < $1.key }) {
            let path = world.folder.file("at-\(position).db")
            guard position >= horizon else {
                await #expect { _ = try await world.joining("r").replay(to: position, output: path) } throws: { error in
                    (error as? AnnalsError)?.code == .expired && "\(error)".contains("Choose a position from 5 to 7")
                }
                continue
            }
            #expect(try await world.joining("r").replay(to: position, output: path).position == position)
            #expect(try await !Store(path: path).read { try $0.tableExists("annals_meta") })
            try await Self.track(path)
            #expect(try await Store(path: path).digest() == digest, "position \(position)")
        }
        await #expect { _ = try await world.joining("r").replay(to: Position(8), output: world.folder.file("x.db")) } throws: {
            ($0 as? AnnalsError)?.code == .usage
        }
        await #expect { _ = try await world.joining("r").replay(to: Position(7), output: world.folder.file("at-7.db")) } throws: {
            ($0 as? AnnalsError)?.code == .cannotCreate
        }
    }

    @Test func `a clone starts again from the newer snapshot if the log is purged before its first pull`() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE team SET budget = 7 WHERE id = 2")
        try await world.sync(0)
        let relay = AlteredRelay(
            base: world.relay, after: { if $0.kind == .download, $0.ofKind == 1 { try await purge(world) } })
        let path = world.folder.file("late.db")
        let joining = Joining(
            transport: relay, address: "http://127.0.0.1:1", space: world.space, name: "late", configuration: world.configuration("late"),
            environment: world.environment)
        #expect(try await joining.clone(to: path).position == Position(2))
        world.add(try Store(path: path, configuration: world.configuration("late")))
        try world.outside(2, "INSERT INTO team VALUES(4, 'late', 0)")
        try await expectEqual(world)
    }
}
