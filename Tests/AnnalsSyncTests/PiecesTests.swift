import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import Testing

/// Values that are too large for a part. The limit is one KiB, so that some thousand bytes have many pieces.
@Suite struct PiecesTests {
    private static let pieceBytes = 1 << 10
    private static let schema = """
        CREATE TABLE doc(id INTEGER PRIMARY KEY, name TEXT UNIQUE, body, note TEXT);
        INSERT INTO doc VALUES(1, 'first', NULL, NULL)
        """

    private func world(
        replicas: Int = 2, isSealed: Bool = false, journalEntryBytes: Int? = nil
    ) async throws -> SyncedStores {
        var limits = OutboxLimits()
        limits.pieceBytes = Self.pieceBytes
        if let journalEntryBytes { limits.journalEntryBytes = journalEntryBytes }
        let keys = isSealed ? try SpaceKeyRing(text: SpaceKey.random().line) : nil
        return try await SyncedStores(replicas: replicas, schema: Self.schema, outboxLimits: limits, spaceKeys: keys)
    }

    private func expectEqual(_ world: SyncedStores) async throws {
        try await world.settle()
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1)
        #expect(Set(try await world.stores.asyncMap { try await $0.digestOfLog() }).count == 1)
        for index in world.stores.indices {
            #expect(try await world.stores[index].verify().isEmpty)
            for table in ["annals_outbox", "annals_outbox_parts", "annals_push", "annals_parts", "annals_ahead"] {
                #expect(try await world.rows(index, "SELECT count(*) FROM \(table)") == [[0.databaseValue]], "\(table) of \(index)")
            }
        }
        let journals = try await world.stores.asyncMap { store in
            try await store.conflicts().map { "\($0.name) \($0.position) \($0.entry)" }.sorted()
        }
        #expect(Set(journals).count == 1)
    }

    @Test(arguments: ["randomblob(10000)", "hex(randomblob(5000))", "CAST(randomblob(10000) AS TEXT)"], [false, true])
    func `F10: a value larger than a part arrives whole, and other rows with it`(value: String, isSealed: Bool) async throws {
        let world = try await world(isSealed: isSealed)
        try world.outside(
            0,
            """
            INSERT INTO doc VALUES(2, 'before', 'small', NULL); INSERT INTO doc VALUES(3, 'large', \(value), 'beside');
            INSERT INTO doc VALUES(4, 'after', NULL, NULL)
            """)
        let relay = AlteredRelay(base: world.relay)
        let pushed = try await world.sync(0, over: relay).pushed
        #expect(pushed.transactions == 1 && pushed.changes == 3 && relay.pushes >= 10)
        let pulled = try await world.sync(1, over: AlteredRelay(base: world.relay, pageBytes: 1)).pulled
        #expect(pulled.transactions == 1 && pulled.changes == 3)
        let rows = "SELECT * FROM doc ORDER BY id"
        #expect(try await world.rows(0, rows) == world.rows(1, rows))
        let lengths = try await world.rows(1, "SELECT length(CAST(body AS BLOB)), note FROM doc WHERE id = 3")
        #expect(lengths == [[10_000.databaseValue, "beside".databaseValue]])
        try await world.addClone("r2")
        try await expectEqual(world)
    }

    @Test(arguments: ["zeroblob", "quote"])
    func `F10: a value larger than a batch may be arrives by the limits that stores have`(kind: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let bytes = WireLimits.maximumPlainBytes + 1_000_000
        let value = kind == "quote" ? "substr(quote(zeroblob(\(bytes / 2))), 1, \(bytes))" : "zeroblob(\(bytes))"
        try world.outside(0, "UPDATE doc SET body = \(value), note = 'large'")
        try await world.settle()
        let found = try await world.rows(1, "SELECT length(body), note FROM doc")
        #expect(found == [[bytes.databaseValue, "large".databaseValue]])
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }

    @Test func `F10: an update of another column neither changes nor sends a large value`() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE doc SET body = randomblob(100000)")
        try await world.settle()
        let sizes = "SELECT coalesce(sum(length(body)), 0) FROM annals_outbox"
        for note in ["one", "two", "three"] {
            try world.outside(0, "UPDATE doc SET note = '\(note)'")
            #expect(try await world.stores[0].prepareOutbox().outbox == 1)
            let bytes = try #require(try await world.stores[0].read { db in try Int.fetchOne(db, sql: sizes) })
            #expect(bytes > 0 && bytes < 200)
            let relay = AlteredRelay(base: world.relay)
            try await world.sync(0, over: relay)
            #expect(relay.pushes == 1)
            try await world.sync(1)
        }
        // Its values are not in history a second time.
        for index in 0...1 {
            let tables = try await world.rows(index, "SELECT id FROM annals_tables WHERE name = 'doc'")
            let table = try #require(Int64.fromDatabaseValue(tables[0][0]))
            let kept = try await world.rows(index, "SELECT count(*) FROM annals_changes_\(table) WHERE length(n2) > 10000")
            #expect(kept == [[1.databaseValue]])
            #expect(
                try await world.rows(index, "SELECT count(*) FROM annals_changes_\(table) WHERE length(o2) > 10000") == [[0.databaseValue]])
        }
        try await expectEqual(world)
    }

    @Test func `law 7: killed after any piece and come back`() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE doc SET body = randomblob(6000)")
        _ = try await world.stores[0].prepareOutbox()
        let push = try #require(try await world.stores[0].freezePush())
        #expect(push.parts == 6)
        for part in 1...push.parts {
            for moment in AlteredRelay.Moment.allCases {
                let relay = AlteredRelay.failing(world.relay, .push, from: part, moment)
                await #expect(throws: AnnalsError.self) { try await world.sync(0, over: relay) }
                try world.reopen(0)
                let isThere = part == push.parts && moment == .after
                #expect(try await world.relay.describe().head.rawValue == (isThere ? Int64(push.parts) + 1 : 1))
            }
        }
        try await expectEqual(world)
    }

    @Test(arguments: 1...6)
    func `law 6: a page may end between two pieces, and no reader sees half`(pulls: Int) async throws {
        let world = try await world()
        try world.outside(0, "UPDATE doc SET body = randomblob(6000), note = 'whole'")
        try await world.sync(0)
        let relay = AlteredRelay.failing(world.relay, .pull, from: pulls, pageBytes: 1)
        await #expect(throws: AnnalsError.self) { try await world.sync(1, over: relay) }
        #expect(try await world.rows(1, "SELECT body, note FROM doc") == [[.null, .null]])
        try world.outside(1, "INSERT INTO doc VALUES(2, 'mine', randomblob(2000), NULL)")
        try world.reopen(1)
        try await expectEqual(world)
    }

    @Test func `large values that two replicas change at once are settled by column, and what lost is in every journal`() async throws {
        let world = try await world(replicas: 3)
        try world.outside(0, "UPDATE doc SET body = randomblob(5000); INSERT INTO doc VALUES(2, 'second', randomblob(5000), NULL)")
        try await world.settle()
        try world.outside(0, "UPDATE doc SET body = zeroblob(7000) WHERE id = 1; UPDATE doc SET note = 'theirs' WHERE id = 2")
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE doc SET body = zeroblob(8000) WHERE id = 1; UPDATE doc SET body = zeroblob(9000) WHERE id = 2")
        try await world.sync(0)
        let summary = try await world.sync(1)
        #expect(summary.refusals == 1 && summary.conflicts == 1)
        try await expectEqual(world)
        for index in 0...2 {
            #expect(
                try await world.rows(index, "SELECT length(body), note FROM doc ORDER BY id") == [
                    [8_000.databaseValue, .null], [9_000.databaseValue, "theirs".databaseValue],
                ])
            let conflict = try #require(try await world.stores[index].conflicts().first)
            #expect(conflict.entry.stored == [.blob([UInt8](repeating: 0, count: 7_000))])
            let base = try #require(conflict.entry.base?.first)
            if case .blob(let bytes) = base { #expect(bytes.count == 5_000) } else { Issue.record("\(base)") }
        }
    }

    @Test func `large unique values that are swapped, rows that go, and a value that becomes small`() async throws {
        let world = try await world()
        try world.outside(
            0,
            """
            INSERT INTO doc VALUES(2, hex(randomblob(2000)), 'b', NULL), (3, hex(randomblob(2000)), 'c', NULL),
                (4, 'd', randomblob(4000), NULL), (5, 'e', randomblob(4000), NULL)
            """)
        try await world.settle()
        try world.outside(
            0,
            """
            UPDATE doc SET note = name WHERE id IN (2, 3); UPDATE doc SET name = id WHERE id IN (2, 3);
            UPDATE doc SET name = (SELECT note FROM doc AS other WHERE other.id = 5 - doc.id) WHERE id IN (2, 3);
            DELETE FROM doc WHERE id = 4; UPDATE doc SET body = 'small' WHERE id = 5;
            UPDATE doc SET id = 50 WHERE id = 3
            """)
        try await expectEqual(world)
        #expect(try await world.rows(1, "SELECT id FROM doc ORDER BY id").map { $0[0] } == [1, 2, 5, 50].map(\.databaseValue))
    }

    @Test func `a large cell that a replica of an older schema lacks is kept, and there once it has migrated`() async throws {
        let world = try await world()
        // The schema entry of the column has pieces too, and precedes waiting work.
        let add = "ALTER TABLE doc ADD COLUMN picture BLOB DEFAULT '\(String(repeating: "none", count: 800))'"
        try world.outside(0, "UPDATE doc SET body = randomblob(3000)")
        _ = try await world.stores[0].prepareOutbox()
        try world.outside(0, add)
        _ = try await world.stores[0].prepareOutbox()
        let parts = try await world.rows(0, "SELECT min(parts) > 1 FROM annals_outbox")
        #expect(parts == [[true.databaseValue]])
        // If entries of other replicas are applied first, it moves to the front.
        try world.outside(1, "INSERT INTO doc VALUES(20, 'theirs', NULL, NULL)")
        try await world.sync(1)
        try await world.sync(0, .pullOnly)
        let sequences = try await world.rows(0, "SELECT DISTINCT sequence < 1 FROM annals_outbox_parts ORDER BY 1")
        #expect(sequences == [[false.databaseValue], [true.databaseValue]])
        try await world.settle()
        try world.outside(0, "UPDATE doc SET picture = randomblob(5000), note = 'seen'")
        try await world.settle()
        #expect(try await world.rows(1, "SELECT DISTINCT note FROM doc") == [["seen".databaseValue]])
        try world.outside(1, add)
        try await expectEqual(world)
        #expect(try await world.rows(1, "SELECT DISTINCT length(picture) FROM doc") == [[5_000.databaseValue]])
    }

    @Test func `a conflict too large to be kept goes without what both had found, or is refused by name`() async throws {
        let world = try await world(journalEntryBytes: 5_000)
        try world.outside(0, "UPDATE doc SET body = zeroblob(2000)")
        try await world.settle()
        try world.outside(0, "UPDATE doc SET body = zeroblob(2100)")
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE doc SET body = zeroblob(2200)")
        try await world.settle()
        let conflict = try #require(try await world.stores[0].conflicts().first).entry
        #expect(conflict.base == nil && conflict.stored?.count == 1 && conflict.incoming?.count == 1)
        try await expectEqual(world)
        try world.outside(0, "UPDATE doc SET body = zeroblob(3000)")
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE doc SET body = zeroblob(3100)")
        try await world.sync(0)
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1) }
        #expect(error?.code == .tooLarge && error?.message.contains("doc") == true)
        #expect(try await world.rows(1, "SELECT length(body) FROM doc") == [[3_100.databaseValue]])
        #expect(try await world.stores[1].verify().isEmpty)
    }

    /// Entries that another program could push.
    private enum Lie: CaseIterable {
        case order, missing, twice, otherTotal, nested, noPieces
    }

    @Test(arguments: Lie.allCases)
    private func `a transaction that lies about its pieces is a corrupt batch, and nothing of it is applied`(lie: Lie) async throws {
        let world = try await world()
        var body = BodyEncoder(info: TransactionInfo(id: .random(), time: HybridTime(milliseconds: 1), origin: .local))
        body.beginTable(1)
        body.insert([.integer(9), .text("nine"), .blob([UInt8](repeating: 1, count: 3_500)), .null])
        let whole = body.finish()
        func pieces(_ body: [UInt8], _ count: Int = 1_000) throws -> [[UInt8]] {
            var pieces: [[UInt8]] = []
            try BodyPieces.forEach(of: [body], pieceBytes: count) { part, _ in pieces.append(part[0]) }
            return pieces
        }
        var parts = try pieces(whole)
        switch lie {
        case .order: parts.swapAt(1, 2)
        case .missing: parts.remove(at: 2)
        case .twice: parts.insert(parts[1], at: 1)
        case .otherTotal: parts[2] = try pieces(whole + [0])[2]
        case .nested: parts = try pieces(parts[0], 300)
        case .noPieces: parts[3] = whole
        }
        let description = try await world.relay.describe()
        var previous = Digest.zero
        let key = ReplicaKey.random()
        for (number, part) in parts.enumerated() {
            var batch = BatchEncoder(
                lineage: description.lineage, signer: key, firstCounter: Counter(Int64(number) + 1), previousDigest: previous,
                schemaVersion: 1, part: BatchPart(number: number, count: parts.count))
            batch.layout(ref: 1, TableLayout(name: "doc", columns: ["id", "name", "body", "note"], key: [0]))
            batch.append(body: part, base: description.head, footprint: .everything)
            let encoded = try batch.finish()
            previous = encoded.digests[0]
            let answer = try await world.relay.push(encoded.bytes, seen: LogMark(lineage: description.lineage))
            #expect(answer.outcome == .accepted)
        }
        let digest = try await world.stores[1].digest()
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1) }
        #expect(error?.code == .corruptBatch && error?.isRetryable == false, "\(String(describing: error))")
        #expect(error?.message.contains("position") == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("the pieces of a large body do not fit together") == true, "\(error?.message ?? "")")
        #expect(error?.entry?.rule == .badValue)
        #expect(try await world.stores[1].digest() == digest)
    }
}
