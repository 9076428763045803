import AnnalsCore
import AnnalsWire

@testable import Simulation

/// Two tables on which every check of the oracle can be shown: t1 (k, a, u) and its child t2 (k, p).
enum SmallSchema {
    static let parent = Table(
        name: "t1",
        columns: [
            Column(name: "k", kind: .text, collation: .noCase, isNotNull: true, domain: []),
            Column(name: "a", kind: .integer, isNotNull: true, domain: []),
            Column(name: "u", kind: .text, domain: []),
        ],
        key: [0], hasIntegerKey: false, uniques: [Unique(parts: [Part(sql: "u", collation: .trimmed) { $0[2] }])],
        checks: [Check(sql: "a <> 3") { $0[1] != .integer(3) }])

    static let child = Table(
        name: "t2",
        columns: [Column(name: "k", kind: .integer, isNotNull: true, domain: []), Column(name: "p", kind: .text, domain: [])],
        key: [0], hasIntegerKey: true,
        references: [
            Reference(
                columns: [1], parent: "t1", parentColumns: [0], parentNames: ["k"], collations: [.noCase], onDelete: .setNull,
                onUpdate: .cascade, isDeferred: false)
        ])

    static let schema = Schema(tables: [parent, child])

    static func rows(_ parents: [[Cell]], _ children: [[Cell]] = []) -> Rows {
        var rows = Rows()
        for row in parents { rows.put(parent, row) }
        for row in children { rows.put(child, row) }
        return rows
    }

    static func row(_ k: String, _ a: Int64, _ u: String? = nil) -> [Cell] {
        [.text(k), .integer(a), u.map { .text($0) } ?? .null]
    }

    static func change(_ table: String, _ kind: Change.Kind) -> Change { Change(table: table, kind: kind) }

    static func update(_ key: String, _ column: Int, _ old: Cell, _ new: Cell) -> Change {
        change("t1", .update(key: [.text(key)], [.init(column: column, old: old, new: new)]))
    }

    static func identifier<Kind>(_ number: UInt64) -> Identifier<Kind> { Identifier(high: 1, low: number) }

    static func info(_ number: UInt64, at milliseconds: Int64) -> TransactionInfo {
        TransactionInfo(id: identifier(number), time: HybridTime(milliseconds: milliseconds))
    }

    static func body(_ number: UInt64, at milliseconds: Int64, _ changes: [Change], _ journal: [JournalEntry] = []) -> DecodedBody {
        DecodedBody(info: info(number, at: milliseconds), changes: changes, journal: journal)
    }

    /// Whose entries these are.
    private static let key = ReplicaKey.random()

    /// One transaction at a position of the log, as a relay hands it out; it inserts rows into t1.
    static func frame(
        _ position: Int64, transaction: UInt64, inserting rows: [[Value]], part: BatchPart = .whole, base: Int64 = 0,
        after digest: Digest = .zero
    ) throws -> LogFrame {
        var body = BodyEncoder(info: info(transaction, at: 1_000))
        body.beginTable(1)
        for row in rows { body.insert(row) }
        var batch = BatchEncoder(
            lineage: identifier(7), signer: key, firstCounter: Counter(position), previousDigest: digest, schemaVersion: 1,
            part: part)
        batch.layout(ref: 1, TableLayout(name: "t1", columns: ["k", "a", "u"], key: [0]))
        batch.append(body: body.finish(), base: Position(base), footprint: Footprint())
        return LogFrame(firstPosition: Position(position), acceptedCount: 1, receivedAt: 1_000, batch: try batch.finish().bytes)
    }

    /// One transaction in parts from a position on; each inserts a row into t1.
    static func parts(from position: Int64, transaction: UInt64, inserting keys: [String]) throws -> [LogFrame] {
        var frames: [LogFrame] = []
        var digest = Digest.zero
        for (number, key) in keys.enumerated() {
            let frame = try frame(
                position + Int64(number), transaction: transaction, inserting: [[.text(key), .integer(1), .null]],
                part: BatchPart(number: number, count: keys.count), after: digest)
            digest = try BatchHeader.parse(frame.batch).certificates[0].digest
            frames.append(frame)
        }
        return frames
    }
}
