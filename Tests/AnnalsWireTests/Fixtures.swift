import AnnalsCore
import AnnalsWire
import Foundation

/// A file of bytes, the inputs that it was made of, and their meaning as JSON beside it.
struct Fixture: CustomStringConvertible, Sendable {
    var name: String
    var bytes: [UInt8]
    /// What the file means, as text; from the inputs.
    var json: String
    /// False where a library may pack the same content into other bytes tomorrow.
    var isExact = true

    var description: String { name }
    var bytesURL: URL { Self.folder.appendingPathComponent(name + ".bin") }
    var jsonURL: URL { Self.folder.appendingPathComponent(name + ".json") }

    static let testFolder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    static let folder = testFolder.appendingPathComponent("Fixtures")

    /// The keys of sealed fixtures.
    static let keyURL = folder.appendingPathComponent("space.key")

    /// Set this variable to write the files anew, after a deliberate change of the format.
    static var isWriting: Bool { ProcessInfo.processInfo.environment["ANNALS_WRITE_FIXTURES"] != nil }
}

extension Fixture {
    static func all() throws -> [Fixture] {
        let batches = try [
            batch(codec: .plain), batch(codec: .zstd), hashed(), hashed(sealed: true), decisions(), part(), piece(), voiding(),
            voided(),
        ]
        return try batches + [snapshot()] + footprints() + [page()] + answers()
    }

    private static func batch(codec: Codec) throws -> Fixture {
        let encoded = try Samples.batch(codec: codec)
        let transactions = [
            Transaction(
                info: Samples.firstInfo, tables: [3, 200], sections: Samples.firstChanges, footprint: Samples.footprints[0], base: 0),
            Transaction(
                info: Samples.secondInfo, tables: [200], sections: [(200, [MarkedChange(.insert(Samples.everyValue))])],
                journal: Samples.journal, footprint: Samples.footprints[1], base: 1_000),
            Transaction(
                info: Samples.thirdInfo, tables: [], sections: [], schema: Samples.schema, footprint: Samples.footprints[2], base: 2_000),
        ]
        let json = JSON.object([
            "kind": .string("batch"), "codec": .string(codec == .plain ? "plain" : "zstd"), "keyID": .big(0),
            "seen": JSON.seen(Samples.seen),
            "lineage": .string(Samples.lineage.description), "replica": .string(Samples.replica.description), "firstCounter": .big(41),
            "schemaVersion": .big(2), "part": .array([.number(0), .number(1)]),
            "previousDigest": .string(Digest.sha256([1, 2, 3]).description),
            "dictionary": .object(["3": JSON.layout(Samples.people), "200": JSON.layout(Samples.seats)]),
            "transactions": .array(zip(transactions, encoded.digests).map { $0.json(digest: $1) }),
        ])
        return Fixture(
            name: codec == .plain ? "batch-plain" : "batch-zstd", bytes: encoded.bytes, json: json.text(), isExact: codec == .plain)
    }

    /// A batch whose footprints are those of its changes, which a reader can recompute.
    private static func hashed(sealed: Bool = false) throws -> Fixture {
        let cipher = try sealed ? Samples.cipher() : nil
        let key = cipher?.footprintKey ?? .none
        let hash = FootprintHash(key: key)
        let row: [Value] = [.real(7), .text("blue"), .integer(1)]
        let update = RowChange.update(key: [.text("blue"), .integer(8)], columns: [ColumnChange(column: 2, old: .null, new: .integer(1))])
        let writes = [
            hash.rowHash(table: "seats", key: [.text("blue"), .integer(7)]),
            hash.tupleHash(table: "seats", columns: ["hall", "row"], values: [.text("blue"), .integer(7)]),
            hash.rowHash(table: "seats", key: [.text("blue"), .integer(8)]),
        ]
        let footprint = Footprint(
            keyID: key.id,
            groups: [
                .init(table: hash.tableHash("Seats"), writes: writes),
                .init(
                    table: hash.tableHash("people"),
                    reads: [hash.tupleHash(table: "people", columns: ["id"], values: [.integer(1)])]),
                .init(table: hash.transactionGroup, writes: [hash.idHash(Samples.firstInfo.id)]),
            ]
        ).normalized()
        var body = BodyEncoder(info: Samples.firstInfo)
        body.beginTable(200)
        body.insert(row)
        body.change(MarkedChange(update))
        var encoder = BatchEncoder(
            lineage: Samples.lineage, signer: Samples.key, firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1,
            codec: .plain, cipher: cipher)
        encoder.layout(ref: 200, Samples.seats)
        encoder.append(body: body.finish(), base: Position(17), footprint: footprint)
        let encoded = try encoder.finish()
        let transaction = Transaction(
            info: Samples.firstInfo, tables: [200], sections: [(200, [MarkedChange(.insert(row)), MarkedChange(update)])],
            footprint: footprint, base: 17)
        let json = JSON.object([
            "kind": .string("batch"), "codec": .string("plain"), "keyID": .big(key.id), "lineage": .string(Samples.lineage.description),
            "seen": JSON.seen(SeenLog(position: Position(17), digest: nil)),
            "replica": .string(Samples.replica.description), "firstCounter": .big(1), "schemaVersion": .big(1),
            "part": .array([.number(0), .number(1)]), "previousDigest": .string(Digest.zero.description),
            "dictionary": .object(["200": JSON.layout(Samples.seats)]),
            "transactions": .array([transaction.json(digest: encoded.digests[0])]),
        ])
        return Fixture(name: sealed ? "batch-sealed" : "batch-hashed", bytes: encoded.bytes, json: json.text())
    }

    /// A sealed snapshot of two pieces, though not of a database.
    private static func snapshot() throws -> Fixture {
        let cipher = try Samples.cipher()
        let plain = (0..<65_636).map { UInt8(truncatingIfNeeded: $0 * $0 >> 3) }
        let seal = SnapshotSeal(
            cipher, lineage: Samples.lineage, position: Position(4_711), logDigest: .sha256([4]), salt: (0..<32).map { $0 })
        let json = JSON.object([
            "kind": .string("snapshot"), "keyID": .big(cipher.keyID), "lineage": .string(Samples.lineage.description),
            "position": .big(4_711), "logDigest": .string(Digest.sha256([4]).description), "bytes": .number(plain.count),
            "sha256": .string(Digest.sha256(plain[...]).description),
        ])
        return Fixture(name: "snapshot-sealed", bytes: try SealedBytes.of(plain, cipher, seal), json: json.text())
    }

    /// A batch of one transaction that sets policies and resolves conflicts.
    private static func decisions() throws -> Fixture {
        var encoder = BatchEncoder(
            lineage: Samples.lineage, signer: Samples.key, firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1,
            codec: .plain)
        encoder.append(body: Samples.decisionsBody, base: Position(17), footprint: .everything)
        let encoded = try encoder.finish()
        let transaction = Transaction(
            info: Samples.thirdInfo, tables: [], sections: [], policies: Samples.policies, resolutions: Samples.resolutions,
            references: Samples.references,
            footprint: .everything, base: 17)
        let json = JSON.object([
            "kind": .string("batch"), "codec": .string("plain"), "keyID": .big(0), "lineage": .string(Samples.lineage.description),
            "seen": JSON.seen(SeenLog(position: Position(17), digest: nil)),
            "replica": .string(Samples.replica.description), "firstCounter": .big(1), "schemaVersion": .big(1),
            "part": .array([.number(0), .number(1)]), "previousDigest": .string(Digest.zero.description), "dictionary": .object([:]),
            "transactions": .array([transaction.json(digest: encoded.digests[0])]),
        ])
        return Fixture(name: "batch-decisions", bytes: encoded.bytes, json: json.text())
    }

    /// The middle one of three parts.
    private static func part() throws -> Fixture {
        let change = MarkedChange(.insert([.real(7), .text("blue"), .integer(1)]))
        let encoded = try Samples.part(BatchPart(number: 1, count: 3)).finish()
        let transaction = Transaction(
            info: Samples.firstInfo, tables: [200], sections: [(200, [change])], journal: Samples.journal,
            footprint: Samples.footprints[0], base: 17)
        let json = JSON.object([
            "kind": .string("batch"), "codec": .string("plain"), "keyID": .big(0), "lineage": .string(Samples.lineage.description),
            "seen": JSON.seen(SeenLog(position: Position(17), digest: nil)),
            "replica": .string(Samples.replica.description), "firstCounter": .big(42), "schemaVersion": .big(2),
            "part": .array([.number(1), .number(3)]), "previousDigest": .string(Digest.sha256([1, 2, 3]).description),
            "dictionary": .object(["200": JSON.layout(Samples.seats)]),
            "transactions": .array([transaction.json(digest: encoded.digests[0])]),
        ])
        return Fixture(name: "batch-part", bytes: encoded.bytes, json: json.text())
    }

    /// The middle one of the parts that hold the pieces of one body.
    private static func piece() throws -> Fixture {
        var encoder = BodyEncoder(info: Samples.firstInfo)
        encoder.beginTable(200)
        encoder.insert([.real(7), .text("blue"), .blob((0..<200).map { $0 })])
        let body = encoder.finish()
        var pieces: [[UInt8]] = []
        try BodyPieces.forEach(of: [body], pieceBytes: 100) { part, _ in pieces += part }
        let encoded = try Samples.part(BatchPart(number: 1, count: pieces.count), body: pieces[1]).finish()
        let json = JSON.object([
            "kind": .string("batch"), "codec": .string("plain"), "keyID": .big(0), "lineage": .string(Samples.lineage.description),
            "seen": JSON.seen(SeenLog(position: Position(17), digest: nil)),
            "replica": .string(Samples.replica.description), "firstCounter": .big(42), "schemaVersion": .big(2),
            "part": .array([.number(1), .number(pieces.count)]), "previousDigest": .string(Digest.sha256([1, 2, 3]).description),
            "dictionary": .object(["200": JSON.layout(Samples.seats)]),
            "transactions": .array([
                .object([
                    "info": JSON.info(Samples.firstInfo), "tables": .array([.number(200)]), "base": .big(17),
                    "digest": .string(encoded.digests[0].description), "footprint": JSON.footprint(Samples.footprints[0]),
                    "total": .big(body.count), "offset": .big(100), "piece": .string(Hexadecimal.encode(Array(body[100..<200]))),
                ])
            ]),
        ])
        return Fixture(name: "batch-piece", bytes: encoded.bytes, json: json.text())
    }

    /// The relay's own entry, which voids others.
    private static func voiding() throws -> Fixture {
        let voids = [VoidedEntry(position: Position(17), digest: .sha256([5])), VoidedEntry(position: Position(1_000), digest: .zero)]
        let encoded = try Voiding.entry(
            voids, in: Samples.lineage, counter: Counter(3), previous: .sha256([1, 2, 3]), after: Position(2_000), id: Samples.thirdInfo.id,
            time: 1_760_000_000_123)
        let info = TransactionInfo(
            id: Samples.thirdInfo.id, time: HybridTime(milliseconds: 1_760_000_000_123, counter: 0), contextName: "void", origin: .local)
        let transaction = Transaction(info: info, tables: [], sections: [], voids: voids, footprint: .everything, base: 2_000)
        let json = JSON.object([
            "kind": .string("batch"), "codec": .string("plain"), "keyID": .big(0), "lineage": .string(Samples.lineage.description),
            "seen": JSON.seen(SeenLog(position: Position(2_000), digest: nil)),
            "replica": .string("00000000-0000-0000-0000-000000000001"), "firstCounter": .big(3), "schemaVersion": .big(0),
            "part": .array([.number(0), .number(1)]), "previousDigest": .string(Digest.sha256([1, 2, 3]).description),
            "dictionary": .object([:]), "transactions": .array([transaction.json(digest: encoded.digests[0])]),
        ])
        return Fixture(name: "batch-voiding", bytes: encoded.bytes, json: json.text())
    }

    /// What is left of a sealed batch that was voided.
    private static func voided() throws -> Fixture {
        let cipher = try Samples.cipher()
        let encoded = try Samples.encoder(codec: .plain, cipher: cipher).finish()
        let certificates = zip(encoded.digests, Samples.footprints).enumerated().map { index, entry in
            JSON.object([
                "base": .big(1_000 * index), "digest": .string(entry.0.description), "footprint": JSON.footprint(entry.1),
            ])
        }
        let json = JSON.object([
            "kind": .string("batch"), "codec": .string("voided"), "keyID": .big(cipher.keyID),
            "seen": JSON.seen(Samples.seen),
            "lineage": .string(Samples.lineage.description), "replica": .string(Samples.replica.description), "firstCounter": .big(41),
            "schemaVersion": .big(2), "part": .array([.number(0), .number(1)]),
            "previousDigest": .string(Digest.sha256([1, 2, 3]).description), "certificates": .array(certificates),
        ])
        return Fixture(name: "batch-voided", bytes: try Voiding.voided(encoded.bytes), json: json.text())
    }

    private static func footprints() -> [Fixture] {
        let named: [(String, Footprint)] = [
            ("precise", Samples.footprints[0]), ("whole", Samples.footprints[1]), ("everything", .everything), ("empty", Footprint()),
            ("other-rules", Footprint(rules: 700, keyID: .max)),
        ]
        return named.map { name, footprint in
            let json = JSON.object(["kind": .string("footprint"), "footprint": JSON.footprint(footprint)])
            return Fixture(name: "footprint-" + name, bytes: footprint.encode(), json: json.text())
        }
    }

    private static func page() -> Fixture {
        Fixture(name: "page", bytes: Samples.page.encode(), json: JSON.page(Samples.page).text())
    }

    private static func answers() throws -> [Fixture] {
        try Samples.answers.map { Fixture(name: "answer-" + $0.name, bytes: try $0.answer.encode(), json: JSON.answer($0.answer).text()) }
    }
}

/// One transaction's inputs.
private struct Transaction {
    var info: TransactionInfo
    var tables: [Int]
    var sections: [(ref: Int, changes: [MarkedChange])]
    var journal: [JournalEntry] = []
    var schema: SchemaEntry?
    var policies: [PolicySetting] = []
    var resolutions: [ConflictResolution] = []
    var references: [ReferenceSetting] = []
    var voids: [VoidedEntry] = []
    var footprint: Footprint
    var base: Int

    func json(digest: Digest) -> JSON {
        var members: [String: JSON] = [
            "info": JSON.info(info), "tables": .array(tables.map { .number($0) }), "base": .big(base),
            "digest": .string(digest.description), "footprint": JSON.footprint(footprint), "journal": .array(journal.map(JSON.journal)),
            "schema": JSON.optional(schema, JSON.schema), "policies": .array(policies.map(JSON.policy)),
            "resolutions": .array(resolutions.map(JSON.resolution)),
            "sections": .array(
                sections.map { .object(["table": .number($0.ref), "changes": .array($0.changes.map(JSON.change))]) }),
        ]
        if !references.isEmpty { members["references"] = .array(references.map(JSON.reference)) }
        if !voids.isEmpty {
            members["voids"] = .array(
                voids.map { .object(["position": .big($0.position.rawValue), "digest": .string($0.digest.description)]) })
        }
        return .object(members)
    }
}

/// Hashes over names and values as a caller gives them; the other language computes them anew.
enum HashCases {
    static let url = Fixture.folder.appendingPathComponent("hashes.json")

    static func json() -> String {
        let keys = [FootprintKey.none, FootprintKey(id: 9, low: 0x0706_0504_0302_0100, high: 0x0f0e_0d0c_0b0a_0908)]
        var cases: [JSON] = []
        for key in keys {
            let hash = FootprintHash(key: key)
            func add(_ kind: String, _ result: UInt64, table: String = "", columns: [String] = [], values: [Value] = [], id: String = "") {
                cases.append(
                    .object([
                        "kind": .string(kind), "key": .array([.hash(key.low), .hash(key.high)]), "table": .string(table),
                        "columns": JSON.strings(columns), "values": JSON.values(values), "id": .string(id), "hash": .hash(result),
                    ]))
            }
            for table in ["people", "PEOPLE", "Größe"] { add("table", hash.tableHash(table), table: table) }
            for value in Samples.everyValue { add("row", hash.rowHash(table: "t", key: [value]), table: "t", values: [value]) }
            let (columns, values) = (["Row", "hall", "Ärger"], [Value.integer(1), .text("blue"), .real(2.5)])
            add(
                "tuple", hash.tupleHash(table: "Seats", columns: columns, values: values), table: "Seats", columns: columns, values: values)
            add("index", hash.indexHash(table: "Seats", columns: columns), table: "Seats", columns: columns)
            add("transaction", hash.idHash(Samples.firstInfo.id), id: Samples.firstInfo.id.description)
            add("transactionGroup", hash.transactionGroup)
            add("schema", hash.schemaHash)
            for resolution in Samples.resolutions {
                let conflict = resolution.conflict
                add("conflict", hash.conflictHash(conflict), id: "\(conflict.replica) \(conflict.transaction) \(conflict.index)")
            }
            add("conflictGroup", hash.conflictGroup)
        }
        return JSON.object(["cases": .array(cases)]).text()
    }
}
