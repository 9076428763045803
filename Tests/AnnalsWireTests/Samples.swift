import AnnalsCore
import AnnalsWire
import Testing

/// Fixed inputs that between them have every value kind, change, mark, journal entry and schema entry.
enum Samples {
    static let lineage = Lineage(high: 0x0102_0304_0506_0708, low: 0x090a_0b0c_0d0e_0f10)
    /// The secret of the replica that signs: 32 bytes from 0x11 on.
    static let key = signingKey(0x11)
    static var replica: ReplicaID { key.replica }
    static let otherReplica = ReplicaID(high: 0xa1a2_a3a4_a5a6_47a8, low: 0x99aa_abac_adae_afb0)

    static func signingKey(_ first: UInt8) -> ReplicaKey {
        guard let key = ReplicaKey(bytes: (0..<32).map { first + $0 }) else { preconditionFailure("a key has 32 bytes") }
        return key
    }

    /// What the samples' author had seen of the log.
    static let seen = SeenLog(position: Position(2_000), digest: .sha256([7]))
    static let pushName = PushName(replica: key.replica, firstCounter: Counter(41), lastDigest: .sha256([6]))

    static let people = TableLayout(name: "people", columns: ["id", "name", "Größe", "photo"], key: [0])
    static let seats = TableLayout(name: "seats", columns: ["row", "hall", "person"], key: [1, 0])

    static let everyValue: [Value] = [
        .null, .integer(0), .integer(1), .integer(-16), .integer(-17), .integer(111), .integer(112), .integer(-1_000_000),
        .integer(1 << 53 + 1),
        .integer(.max), .integer(.min), .real(0), .real(1), .real(-2.5), .real(1e300), .real(.leastNonzeroMagnitude), .real(.infinity),
        .real(-.infinity), .text(""), .text("Zoë"), .text(String(repeating: "x", count: 63)), .text(String(repeating: "y", count: 64)),
        .text(ByteString([0xc3, 0x28, 0x00, 0xff])), .blob([]), .blob([0, 1, 2, 0xff]), .blob((0..<31).map { $0 }),
        .blob((0..<200).map { $0 }),
    ]

    static let firstInfo = TransactionInfo(
        id: TransactionID(high: 0x2122_2324_2526_4728, low: 0x992a_2b2c_2d2e_2f30),
        time: HybridTime(milliseconds: 1_760_000_000_123, counter: 5), author: "Ada", replicaName: "till 3",
        contextName: "form ✓", origin: .local)
    static let secondInfo = TransactionInfo(
        id: TransactionID(high: 0x3132_3334_3536_4738, low: 0x993a_3b3c_3d3e_3f40), time: HybridTime(milliseconds: -1),
        replicaName: "laptop", origin: .external)
    static let thirdInfo = TransactionInfo(
        id: TransactionID(high: 0x4142_4344_4546_4748, low: 0x994a_4b4c_4d4e_4f50), time: .zero, contextName: "migrate", origin: .migration)

    static let firstChanges: [(ref: Int, changes: [MarkedChange])] = [
        (
            3,
            [
                MarkedChange(.insert([.integer(1), .text("Zoë"), .real(1.75), .blob([1, 2, 3])])),
                MarkedChange(
                    .update(
                        key: [.integer(2)],
                        columns: [
                            ColumnChange(column: 0, old: .integer(2), new: .integer(300)),
                            ColumnChange(column: 3, old: .blob([9]), new: .null),
                        ]), age: 2_500),
                MarkedChange(.delete([.integer(4), .null, .null, .null]), age: 2_500),
            ]
        ),
        (200, [MarkedChange(.insert([.integer(1), .text("blue"), .null]))]),
        (
            3,
            [
                MarkedChange(.delete([.integer(5), .text("a"), .real(0), .null]), mark: .merged(into: [.integer(6)])),
                MarkedChange(.delete([.integer(7), .text("b"), .real(-1), .null]), mark: .setAside),
                MarkedChange(
                    .insert([.integer(8), .text("c"), .null, .null]),
                    mark: .revived(Position(51), changed: [ColumnChange(column: 1, old: .text("b"), new: .text("c"))])),
            ]
        ),
    ]

    static let journal: [JournalEntry] =
        JournalEntry.Kind.allCases.map {
            JournalEntry(kind: $0, table: "people", key: [.integer(Int64($0.rawValue))], policy: "lastWriterWins", winner: .stored)
        } + [
            JournalEntry(
                kind: .update, table: "seats", key: [.text("blue"), .integer(1)], columns: ["person", "row"], policy: "sum",
                base: [.null, .integer(1)], stored: [.integer(5), .integer(2)], incoming: [.integer(6), .integer(3)], winner: .incoming,
                storedReplica: otherReplica, storedTime: HybridTime(milliseconds: 1_760_000_000_456, counter: 1),
                storedPosition: Position(12), incomingTime: HybridTime(milliseconds: 1_760_000_000_400))
        ]

    static let schema = SchemaEntry(
        version: 2,
        statements: [
            "CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, Größe REAL, photo BLOB)", "CREATE UNIQUE INDEX names ON people(name)",
        ],
        tracked: [people, seats], isBreaking: true)

    /// A part of a transaction with a change and journal entries.
    static func part(_ part: BatchPart) -> BatchEncoder {
        var body = BodyEncoder(info: firstInfo)
        body.beginTable(200)
        body.insert([.real(7), .text("blue"), .integer(1)])
        for entry in journal { body.journal(entry) }
        return self.part(part, body: body.finish())
    }

    static func part(_ part: BatchPart, body: [UInt8]) -> BatchEncoder {
        var encoder = BatchEncoder(
            lineage: lineage, signer: key, firstCounter: Counter(42), previousDigest: .sha256([1, 2, 3]), schemaVersion: 2,
            part: part, codec: .plain)
        encoder.layout(ref: 200, seats)
        encoder.append(body: body, base: Position(17), footprint: footprints[0])
        return encoder
    }

    /// Changes and marks of every kind.
    static var firstBody: [UInt8] {
        var body = BodyEncoder(info: firstInfo)
        for (table, changes) in firstChanges {
            body.beginTable(table)
            for change in changes { body.change(change) }
        }
        return body.finish()
    }

    /// Every value kind, and journal entries.
    static var secondBody: [UInt8] {
        var body = BodyEncoder(info: secondInfo)
        body.journal(journal[0])
        body.beginTable(200)
        body.insert(everyValue)
        for entry in journal.dropFirst() { body.journal(entry) }
        return body.finish()
    }

    /// A schema entry and no change.
    static var thirdBody: [UInt8] {
        var body = BodyEncoder(info: thirdInfo)
        body.schema(schema)
        return body.finish()
    }

    static let policies = [
        PolicySetting(table: nil, aspect: .delete, policy: "updateWins"), PolicySetting(table: "seats", aspect: .whole, policy: "yes"),
        PolicySetting(table: "people", column: "Größe", aspect: .update, policy: "sql: max(:stored, :incoming)"),
        PolicySetting(table: "people", aspect: .unique, policy: "keepLast"), PolicySetting(table: "people", aspect: .key, policy: ""),
    ]

    static let resolutions = [ConflictResolution.Choice.stored, .incoming, .values].enumerated().map { place, choice in
        ConflictResolution(
            conflict: ConflictID(replica: otherReplica, transaction: Samples.secondInfo.id, index: place * 200), choice: choice)
    }

    static let references = [
        ReferenceSetting(table: "seats", columns: ["person"], to: ReferenceTarget(table: "people", columns: ["id"])),
        ReferenceSetting(
            table: "seats", columns: ["row", "hall"],
            to: ReferenceTarget(
                table: "rows", columns: ["number", "Größe"], onDelete: .cascade, condition: "kind = 'a' AND n IN (1, -2)")),
        ReferenceSetting(table: "seats", columns: ["colour"], .none), ReferenceSetting(table: "people", columns: ["x"], .undecided),
    ]

    /// Decisions and no change.
    static var decisionsBody: [UInt8] {
        var body = BodyEncoder(info: thirdInfo)
        body.policies(policies)
        body.resolutions(resolutions)
        body.references(references)
        return body.finish()
    }

    static let footprints: [Footprint] = [
        Footprint(groups: [
            .init(table: 5, writes: [1, 2, 0xffee_ddcc_bbaa_9988]), .init(table: 0x8000_0000_0000_0000, readsWhole: true, writes: [7]),
        ]),
        Footprint(
            keyID: 300, groups: [.init(table: 1, writesWhole: true, reads: [3, 4]), .init(table: 2, writesWhole: true, readsWhole: true)]),
        .everything,
    ]

    static func encoder(codec: Codec, cipher: SpaceCipher? = nil) -> BatchEncoder {
        var batch = BatchEncoder(
            lineage: lineage, signer: key, seen: seen, firstCounter: Counter(41), previousDigest: Digest.sha256([1, 2, 3]),
            schemaVersion: 2,
            codec: codec, cipher: cipher)
        batch.layout(ref: 200, seats)
        batch.layout(ref: 3, people)
        for (index, body) in [firstBody, secondBody, thirdBody].enumerated() {
            batch.append(body: body, base: Position(Int64(1_000 * index)), footprint: footprints[index])
        }
        return batch
    }

    static func batch(codec: Codec) throws -> EncodedBatch {
        try encoder(codec: codec).finish()
    }

    static let page = Page(
        lineage: lineage, head: Position(1_000), horizon: Position(2), after: Position(5),
        frames: [
            LogFrame(firstPosition: Position(4), acceptedCount: 3, receivedAt: 1_760_000_001_000, batch: Array("first".utf8)),
            LogFrame(firstPosition: Position(7), firstIndex: 2, acceptedCount: 1, receivedAt: -5, batch: Array("second".utf8)),
        ], isLast: false)

    static let answers: [(name: String, answer: PushAnswer)] = [
        ("accepted", answer(.accepted, [Position(3), Position(4), Position(900)])),
        ("stale", answer(.stale(at: Position(999)), page: page)),
        ("stale-below-floor", answer(.stale(at: nil))), ("identity-conflict", answer(.identityConflict)), ("gap", answer(.gap)),
        ("log-rolled-back", answer(.logRolledBack)), ("wait", answer(.wait(milliseconds: 1_500))),
        ("parts-missing", answer(.partsMissing)),
    ]

    private static func answer(_ outcome: PushAnswer.Outcome, _ positions: [Position] = [], page: Page? = nil) -> PushAnswer {
        PushAnswer(
            outcome: outcome, to: pushName, positions: positions, lineage: lineage, head: Position(1_000), receivedAt: 1_760_000_002_000,
            page: page)
    }

    // MARK: Sealing

    static let space = "shop"
    static let spaceKey = key(0)
    static let otherKey = key(100)

    static func key(_ first: UInt8) -> SpaceKey {
        guard let key = SpaceKey(bytes: (0..<32).map { first + $0 }) else { preconditionFailure("a key has 32 bytes") }
        return key
    }

    static func cipher(_ keys: [SpaceKey] = [spaceKey], space: String = space) throws -> SpaceCipher {
        let ring = try SpaceKeyRing(text: keys.map(\.line).joined(separator: "\n"))
        return ring.cipher(for: try #require(SpaceName(space)))
    }
}

/// Sealed snapshots in memory.
enum SealedBytes {
    /// - Parameter step: how many bytes come at once.
    static func of(_ plain: [UInt8], _ cipher: SpaceCipher, _ seal: SnapshotSeal, step: Int = 10_000) throws -> [UInt8] {
        var sealer = try SnapshotSealer(cipher, seal)
        var sealed: [UInt8] = []
        for start in stride(from: 0, to: plain.count, by: step) {
            try plain[start..<min(plain.count, start + step)].withUnsafeBytes { try sealer.write($0) { sealed += $0 } }
        }
        try sealer.finish { sealed += $0 }
        return sealed
    }

    static func open(_ sealed: [UInt8], _ cipher: SpaceCipher?, step: Int = 10_000) throws -> (plain: [UInt8], seal: SnapshotSeal?) {
        var opener = SnapshotOpener(cipher)
        var plain: [UInt8] = []
        for start in stride(from: 0, to: sealed.count, by: step) {
            try sealed[start..<min(sealed.count, start + step)].withUnsafeBytes { try opener.write($0) { plain += $0 } }
        }
        try opener.finish { plain += $0 }
        return (plain, opener.seal)
    }
}
