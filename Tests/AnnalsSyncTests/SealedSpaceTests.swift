import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import RelayLog
import Testing

/// An encrypted space behaves like any other space.
@Suite struct SealedSpaceTests {
    private static let schema = """
        CREATE TABLE ledgerbook(id INTEGER PRIMARY KEY, headline TEXT UNIQUE, pieces INTEGER);
        CREATE TABLE sheet(id INTEGER PRIMARY KEY, book INTEGER REFERENCES ledgerbook(id), remark TEXT);
        INSERT INTO ledgerbook VALUES(1, 'confidential-one', 100), (2, 'confidential-two', 200), (3, 'confidential-three', 300);
        INSERT INTO sheet VALUES(1, 1, 'confidential-remark');
        """
    /// Data that no relay may see: values, names of tables and columns, authors, names of replicas.
    private static let secrets = ["confidential", "ledgerbook", "headline", "pieces", "sheet", "remark", "Margarethe", "ledger-host"]
    private static let first = SpaceKey.random()
    private static let second = SpaceKey.random()

    private static func ring(_ keys: SpaceKey...) throws -> SpaceKeyRing {
        try SpaceKeyRing(text: keys.map(\.line).joined(separator: "\n"))
    }

    private func world(replicas: Int = 2, outboxLimits: OutboxLimits = OutboxLimits()) async throws -> SyncedStores {
        try await SyncedStores(replicas: replicas, schema: Self.schema, outboxLimits: outboxLimits, spaceKeys: Self.ring(Self.first))
    }

    private func write(_ world: SyncedStores, _ index: Int, _ sql: String) async throws {
        world.clock.advance(.seconds(60))
        try await world.stores[index].write(author: "Margarethe", contextName: "confidential") { db in try db.execute(sql: sql) }
    }

    /// Law 2 for the replicas and a fresh clone, and no readable data at the relay.
    private func expectEqualAndSealed(_ world: SyncedStores, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await world.settle()
        try await world.addClone("fresh-\(world.stores.count)")
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1, sourceLocation: sourceLocation)
        for (number, store) in world.stores.enumerated() {
            #expect(try await store.verify().isEmpty, "replica \(number)", sourceLocation: sourceLocation)
        }
        let found = try Self.found(in: world.folder.file("relay"))
        #expect(found.bytes > 1_000 && found.words.isEmpty, "\(found)", sourceLocation: sourceLocation)
    }

    private static func found(in folder: String) throws -> (words: [String], bytes: Int) {
        var (words, count) = ([String](), 0)
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder) {
            guard let data = FileManager.default.contents(atPath: "\(folder)/\(name)") else { continue }
            count += data.count
            words += secrets.filter { data.range(of: Data($0.utf8)) != nil }.map { "\($0) in \(name)" }
        }
        return (words, count)
    }

    @Test func `laws 2 and 5: replicas converge, conflicts are settled, and the relay reads nothing`() async throws {
        let world = try await world(replicas: 3)
        try await write(world, 0, "UPDATE ledgerbook SET pieces = 1, headline = 'confidential-a' WHERE id = 1; DELETE FROM sheet")
        try await write(world, 1, "UPDATE ledgerbook SET pieces = 2 WHERE id = 1; INSERT INTO ledgerbook VALUES(4, 'confidential-b', 0)")
        try await write(world, 2, "INSERT INTO ledgerbook VALUES(4, 'confidential-c', 0); INSERT INTO sheet VALUES(7, 4, 'confidential-d')")
        try world.outside(0, "INSERT INTO sheet VALUES(3, 2, 'confidential-e')")
        try await expectEqualAndSealed(world)
        #expect(try await world.stores[0].conflicts().isEmpty == false)
        // Replica 2 has the rows of all entries that the relay sent.
        #expect(try await world.rows(2, "SELECT count(*) FROM sheet")[0][0] == 2.databaseValue)
    }

    @Test func `the relay cannot compare guessed values with footprints`() async throws {
        let world = try await world()
        try await write(world, 0, "UPDATE ledgerbook SET pieces = 1 WHERE id = 1")
        // This change causes a rebase. The footprint of a rebased transaction must have the key too.
        try await write(world, 1, "UPDATE ledgerbook SET pieces = 2 WHERE id = 1")
        try await world.settle()
        let seen = LogMark(lineage: try await world.relay.describe().lineage)
        let page = try await world.relay.pull(after: Position(1), seen: seen, byteLimit: .max, wait: nil)
        #expect(page.frames.count == 2)
        let plain = FootprintHash()
        for frame in page.frames {
            let header = try BatchHeader.parse(frame.batch)
            let footprint = header.certificates[0].footprint
            #expect(header.keyID == Self.first.id && footprint.keyID == Self.first.id && !footprint.groups.isEmpty)
            #expect(!footprint.groups.contains { $0.table == plain.tableHash("ledgerbook") })
            #expect(!footprint.groups.contains { $0.writes.contains(plain.rowHash(table: "ledgerbook", key: [.integer(1)])) })
        }
    }

    @Test func `disjoint transactions are accepted at once, and only conflicting ones are refused`() async throws {
        let world = try await world()
        try await write(world, 0, "UPDATE ledgerbook SET pieces = 1 WHERE id = 1")
        try await write(world, 1, "UPDATE ledgerbook SET pieces = 2 WHERE id = 2")
        try await world.sync(0)
        #expect(try await world.sync(1).refusals == 0)
        try await world.settle()
        try await write(world, 0, "UPDATE ledgerbook SET pieces = 3 WHERE id = 1")
        try await write(world, 1, "UPDATE ledgerbook SET pieces = 4 WHERE id = 1")
        try await world.sync(0)
        #expect(try await world.sync(1).refusals == 1)
    }

    @Test func `a transaction in parts, and a replica that resyncs from a snapshot`() async throws {
        var limits = OutboxLimits()
        limits.partBytes = 20_000
        let world = try await world(outboxLimits: limits)
        try await write(world, 1, "UPDATE ledgerbook SET pieces = 7 WHERE id = 2; INSERT INTO sheet VALUES(9, 2, 'confidential-mine')")
        try await write(
            world, 0,
            """
            WITH RECURSIVE c(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c WHERE x < 900)
                INSERT INTO sheet SELECT x, 1, 'confidential-' || hex(randomblob(40)) FROM c
            """)
        #expect(try await world.sync(0).position.rawValue > 4)
        try await world.addClone("late")
        let agent = SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment)
        #expect(try await agent.makeSnapshot() != nil)
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        _ = try await world.relay.purge(rules)
        #expect(try await world.sync(1).cameBack != nil)
        try await expectEqualAndSealed(world)
    }

    @Test func `unverified rows are compared with the log of a sealed space`() async throws {
        let world = try await world()
        try world.outside(
            1,
            """
            PRAGMA legacy_alter_table = ON; CREATE TABLE other(id INTEGER PRIMARY KEY, book INTEGER REFERENCES ledgerbook(id), remark TEXT);
            INSERT INTO other SELECT id, book, 'confidential-unseen' FROM sheet; DROP TABLE sheet; ALTER TABLE other RENAME TO sheet
            """)
        #expect(try await world.sync(1).reconciled == 1)
        try await expectEqualAndSealed(world)
        #expect(try await world.rows(0, "SELECT remark FROM sheet")[0][0] == "confidential-unseen".databaseValue)
    }

    @Test func `the space can be replayed at an earlier position with the key`() async throws {
        let world = try await world()
        try await write(world, 0, "DELETE FROM sheet")
        try await world.sync(0)
        let path = world.folder.file("then.db")
        _ = try await world.joining("anybody").replay(to: Position(1), output: path)
        let queue = try DatabaseQueue(path: path)
        #expect(try await queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sheet") } == 1)
    }

    // MARK: Without the key, and with another key

    private func joining(_ world: SyncedStores, _ keys: SpaceKeyRing?, file: String? = nil, over relay: (any RelayTransport)? = nil)
        -> Joining
    {
        Joining(
            transport: relay ?? world.relay, address: "http://127.0.0.1:1", space: world.space, name: "x", spaceKeys: keys,
            spaceKeyFile: file, environment: world.environment)
    }

    private func error(_ body: () async throws -> Void) async -> AnnalsError? {
        do {
            try await body()
            return nil
        } catch {
            return error as? AnnalsError
        }
    }

    @Test(arguments: [nil, try SealedSpaceTests.ring(second)] as [SpaceKeyRing?])
    func `clone, join and replay without the right key fail and create nothing`(keys: SpaceKeyRing?) async throws {
        let world = try await world(replicas: 1)
        let path = world.folder.file("no.db")
        let before = try FileManager.default.contentsOfDirectory(atPath: world.folder.path).sorted()
        let own = world.folder.file("own.db")
        let queue = try DatabaseQueue(path: own)
        try await queue.write { try $0.execute(sql: Self.schema) }
        try queue.close()
        let store = try Store(path: own)
        _ = try await store.track(.all)
        let joining = joining(world, keys, file: "space.key")
        let errors = await [
            error { _ = try await joining.clone(to: path) }, error { _ = try await joining.replay(to: Position(1), output: path) },
            error { _ = try await joining.join(store) }, error { _ = try await joining.join(store, existing: .theirs) },
            error { _ = try await joining.prospect(of: store) },
        ]
        for error in errors {
            #expect(error?.code == .missingKey)
            #expect(error?.message.contains(SpaceKey.name(of: Self.first.id)) == true, "\(error?.message ?? "")")
        }
        #expect(try await store.replicaState() == nil)
        try store.close()
        try FileManager.default.removeItem(atPath: own)
        for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: own + suffix) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: world.folder.path).sorted() == before)
    }

    @Test func `a key for a space that is not sealed is refused`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        let joining = joining(world, try Self.ring(Self.first))
        let failed = await error { _ = try await joining.clone(to: world.folder.file("no.db")) }
        #expect(failed?.code == .configuration && failed?.message.contains("not encrypted") == true)
        #expect(!FileManager.default.fileExists(atPath: world.folder.file("no.db")))
    }

    @Test func `a store that is opened without its key, or with another key, sends and applies nothing`() async throws {
        let world = try await world()
        try await write(world, 0, "UPDATE ledgerbook SET pieces = 1 WHERE id = 1")
        try await write(world, 1, "UPDATE ledgerbook SET pieces = 2 WHERE id = 2")
        try await world.sync(0)
        let head = try await world.relay.describe().head
        for keys in [nil, try Self.ring(Self.second)] {
            var configuration = world.configuration("r1")
            configuration.spaceKeys = keys
            let store = try Store(path: world.stores[1].path, configuration: configuration)
            let digest = try await store.digest()
            let failed = await error {
                _ = try await SyncAgent(store: store, transport: world.relay, environment: world.environment).sync()
            }
            #expect(failed?.code == .missingKey, "\(failed?.message ?? "none")")
            #expect(try await store.digest() == digest)
            #expect(try await store.status().outbox == 1, "the status counts the outbox without the key")
            try store.close()
        }
        #expect(try await world.relay.describe().head == head)
        try await expectEqualAndSealed(world)
    }

    @Test func `a store and its join must agree on the keys before they create a space`() async throws {
        let world = try await world(replicas: 1)
        let relay = try LocalRelay(folder: world.folder.file("other-relay"), space: world.space)
        func store(_ keys: SpaceKeyRing?) async throws -> Store {
            let path = world.folder.file("\(ReplicaID.random()).db")
            let queue = try DatabaseQueue(path: path)
            try await queue.write { try $0.execute(sql: Self.schema) }
            try queue.close()
            var configuration = world.configuration("x")
            configuration.spaceKeys = keys
            let store = try Store(path: path, configuration: configuration)
            _ = try await store.track(.all)
            return store
        }
        let ring = try Self.ring(Self.first)
        let (with, without) = (try await store(ring), try await store(nil))
        #expect(await error { _ = try await joining(world, nil, over: relay).join(with) }?.code == .configuration)
        #expect(await error { _ = try await joining(world, ring, over: relay).join(without) }?.code == .configuration)
        await #expect(throws: TransportError.self) { try await relay.describe() }
        _ = try await joining(world, ring, over: relay).join(with)
        #expect(try await with.replicaState()?.sealedUnder == Self.first.id)
    }

    @Test func `a store with the key completes a space that was created without rows`() async throws {
        let world = try await world(replicas: 1)
        let relay = try LocalRelay(folder: world.folder.file("other-relay"), space: world.space)
        let ring = try Self.ring(Self.first)
        func store(_ name: String) async throws -> Store {
            let path = world.folder.file("\(name).db")
            let queue = try DatabaseQueue(path: path)
            try await queue.write { try $0.execute(sql: Self.schema) }
            try queue.close()
            var configuration = world.configuration(name)
            configuration.spaceKeys = name == "plain" ? nil : ring
            // The clock of each other store is an hour ahead of the store that created the space.
            let now = Store.Configuration().now
            configuration.now = { now() + (name == "begins" ? 0 : 3_600_000) }
            let store = try Store(path: path, configuration: configuration)
            _ = try await store.track(.all)
            return store
        }
        let begins = try await store("begins")
        let failing = AlteredRelay.failing(relay, from: 4)
        await #expect(throws: (any Error).self) { _ = try await joining(world, ring, over: failing).join(begins) }
        let (plain, other) = (try await store("plain"), try await store("other"))
        let head = try await relay.describe().head
        #expect(head == Position(1))
        #expect(await error { _ = try await joining(world, nil, over: relay).join(plain) }?.code == .missingKey)
        let second = joining(world, try Self.ring(Self.second), file: "x", over: relay)
        #expect(await error { _ = try await second.join(plain) }?.code == .missingKey)
        _ = try await joining(world, ring, over: relay).join(other)
        #expect(try await relay.describe().snapshot?.position == Position(1))
        let path = world.folder.file("clone.db")
        _ = try await joining(world, ring, over: relay).clone(to: path)
        #expect(try await Store(path: path).digest() == other.digest())
    }

    @Test func `a clone fails if the relay reports another running digest than the snapshot contains`() async throws {
        let world = try await world(replicas: 1)
        try await write(world, 0, "DELETE FROM sheet")
        try await world.sync(0)
        _ = try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot()
        let ring = try Self.ring(Self.first)
        // The real relay would refuse a pull with the changed digest.
        let relay = AlteredRelay(
            base: world.relay, space: { $0.snapshot?.logDigest = Digest.sha256([1]).description }, ask: { _, seen in seen.digest = nil })
        let failed = await error { _ = try await joining(world, ring, over: relay).clone(to: world.folder.file("no.db")) }
        #expect(failed?.code == .relayRolledBack)
        _ = try await joining(world, ring).clone(to: world.folder.file("yes.db"))
    }

    // MARK: Rotation

    @Test func `rotation: old entries can be read, and a replica with only the old key stops until it has the new key`() async throws {
        let world = try await world(replicas: 3)
        try await write(world, 0, "UPDATE ledgerbook SET pieces = 1 WHERE id = 1")
        try await write(world, 2, "UPDATE ledgerbook SET headline = 'confidential-x' WHERE id = 3")
        try await world.sync(0)
        try world.give(Self.ring(Self.first, Self.second), to: 0)
        try await write(world, 0, "UPDATE ledgerbook SET pieces = 2 WHERE id = 2")
        try await world.sync(0)
        let digest = try await world.stores[1].digest()
        let failed = await error { try await world.sync(1) }
        #expect(failed?.code == .missingKey && failed?.message.contains(SpaceKey.name(of: Self.second.id)) == true)
        #expect(failed?.message.contains("position 3") == true, "\(failed?.message ?? "")")
        #expect(try await world.stores[1].digest() == digest)
        // Replica 2 has the new key. It can send a transaction that it wrote while it had only the old key.
        try world.give(Self.ring(Self.first, Self.second), to: 2)
        try await world.sync(2)
        try world.give(Self.ring(Self.first, Self.second), to: 1)
        try await world.settle()
        // Without the old key, replica 1 can read all new entries.
        try world.give(Self.ring(Self.second), to: 1)
        try await write(world, 0, "UPDATE ledgerbook SET pieces = 5 WHERE id = 2")
        try await world.settle()
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1)
        let late = Joining(
            transport: world.relay, address: "http://127.0.0.1:1", space: world.space, name: "late",
            spaceKeys: try Self.ring(Self.first, Self.second), environment: world.environment)
        #expect(try await late.clone(to: world.folder.file("late.db")).position == world.relay.describe().head)
    }

    // MARK: A malicious relay or member

    @Test func `an interrupted join of a sealed space continues only with the same key`() async throws {
        let world = try await world(replicas: 1)
        let relay = try LocalRelay(folder: world.folder.file("other-relay"), space: world.space)
        let path = world.folder.file("book.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { try $0.execute(sql: Self.schema) }
        try queue.close()
        var configuration = world.configuration("x")
        configuration.spaceKeys = nil
        let store = try Store(path: path, configuration: configuration)
        _ = try await store.track(.all)
        let ring = try Self.ring(Self.first)
        let file = world.folder.file("space.key")
        try Self.first.line.write(toFile: file, atomically: true, encoding: .utf8)
        func joining(_ keys: SpaceKeyRing?, over transport: any RelayTransport) -> Joining {
            Joining(
                transport: transport, address: "http://127.0.0.1:1", space: world.space, name: "x", spaceKeys: keys,
                spaceKeyFile: keys.map { _ in file }, configuration: configuration, environment: world.environment)
        }
        // The requests are describe, create, push and the upload of the snapshot. The last one fails.
        await #expect(throws: AnnalsError.self) { _ = try await joining(ring, over: AlteredRelay.failing(relay, from: 4)).join(store) }
        #expect(try await store.replicaState()?.sealedUnder == Self.first.id)
        #expect(await error { _ = try await joining(nil, over: relay).join(store) }?.code == .missingKey)
        let other = try Self.ring(Self.second)
        #expect(await error { _ = try await joining(other, over: relay).join(store) }?.code == .missingKey)
        #expect(try await relay.describe().snapshot == nil)
        _ = try await joining(ring, over: relay).join(store)
        let found = try Self.found(in: world.folder.file("other-relay"))
        #expect(found.bytes > 1_000 && found.words.isEmpty, "\(found)")
    }

    @Test func `a corrupt part is reported, and it is requested a limited number of times`() async throws {
        var limits = OutboxLimits()
        limits.partBytes = 1
        let world = try await world(outboxLimits: limits)
        try await write(world, 0, "UPDATE ledgerbook SET pieces = pieces + 1")
        let head = try await world.sync(0).position
        #expect(head == Position(4))
        let relay = AlteredRelay.meddling(world.relay, .payload, pageBytes: 1, from: Position(3))
        let error = await error { _ = try await world.sync(1, over: relay) }
        #expect(error?.code == .corruptBatch && error?.isRetryable == false, "\(String(describing: error))")
        #expect(relay.pulls < 10)
        try await expectEqualAndSealed(world)
    }

    @Test(arguments: Meddling.breaking)
    func `a changed entry stops a replica and is never skipped`(way: Meddling) async throws {
        let world = try await world(replicas: 3)
        try await write(world, 0, "UPDATE ledgerbook SET pieces = 1 WHERE id = 1")
        try await world.sync(0)
        try await world.sync(2)
        // The entry has the same length as the one before it, so that their payloads can be exchanged.
        try await write(world, 2, "UPDATE ledgerbook SET pieces = 2 WHERE id = 1")
        try await world.sync(2)
        let digest = try await world.stores[1].digest()
        let state = try #require(await world.stores[1].replicaState())
        let cipher = try Self.ring(Self.first).cipher(for: world.space)
        let failed = await error { try await world.sync(1, over: AlteredRelay.meddling(world.relay, way, cipher)) }
        #expect(failed?.code == .corruptBatch, "\(failed?.message ?? "none")")
        #expect(failed?.message.contains("position") == true, "\(failed?.message ?? "")")
        #expect(try await world.stores[1].digest() == digest)
        #expect(try await world.stores[1].replicaState()?.position == state.position)
        try await expectEqualAndSealed(world)
    }
}

extension AlteredRelay {
    /// - Parameter position: Pages that end before it are sent unchanged.
    static func meddling(
        _ base: any RelayTransport, _ way: Meddling, _ cipher: SpaceCipher? = nil, pageBytes: Int = .max, from position: Position = .zero
    ) -> AlteredRelay {
        AlteredRelay(
            base: base, pageBytes: pageBytes,
            page: { page, _ in
                guard page.lastPosition >= position, let last = page.frames.indices.last else { return }
                page.frames[last].batch = try AlteredRelay.checksummed(way.changed(page.frames, cipher))
            })
    }
}

/// How a relay changes the last entry of a page before it sends it.
enum Meddling {
    /// Flips a bit of the payload and corrects the checksum.
    case payload
    /// Changes the clear part: a bit of the author's public key.
    case clear
    /// Replaces the payload with that of another entry of the same log.
    case swapped
    /// Replaces the entry with one of an author without the key.
    case unsealed
    /// Replaces the entry with one of another log, sealed with the same key for a space with the same name.
    case lineage
    /// Sends only the clear part of the entry, as if the relay had voided it.
    case voided

    /// Changes that a replica with the key must detect.
    static let breaking: [Meddling] = [.payload, .clear, .swapped, .unsealed, .lineage]

    /// The changed batch of the last frame.
    fileprivate func changed(_ frames: [LogFrame], _ cipher: SpaceCipher?) throws -> [UInt8] {
        let last = frames.count - 1
        var bytes = frames[last].batch
        let header = try BatchHeader.parse(bytes)
        switch self {
        case .voided: bytes = try Voiding.voided(bytes)
        case .payload: bytes[header.payload.lowerBound + 40] ^= 1
        // The byte is in the author's public key. The head contains lineage, public key and counter.
        case .clear: bytes[43] ^= 2
        case .swapped:
            let other = frames[last - 1].batch
            let payload = other[try BatchHeader.parse(other).payload]
            guard payload.count == header.payload.count else { throw WireError.badLength }
            bytes.replaceSubrange(header.payload, with: payload)
        case .unsealed, .lineage:
            var encoder = BatchEncoder(
                lineage: self == .lineage ? .random() : header.lineage, signer: .random(), firstCounter: Counter(1),
                previousDigest: .zero, schemaVersion: 1, cipher: self == .lineage ? cipher : nil)
            var body = BodyEncoder(info: TransactionInfo(id: .random(), time: .zero, origin: .local))
            encoder.append(body: body.finish(), base: header.certificates[0].base, footprint: .everything)
            bytes = try encoder.finish().bytes
        }
        return bytes
    }
}
