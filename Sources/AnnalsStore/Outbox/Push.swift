import AnnalsCore
import AnnalsWire
import Foundation
import GRDB

/// The push under way: frozen before its first byte leaves, kept until the relay gave a definite answer.
struct Push {
    var firstCounter: Counter
    var transactions: Int
    /// The last outbox row inside.
    var lastSequence: Int64
    var digests: [Digest]
    var batch: [UInt8]

    static func load(_ db: Database) throws -> Push? {
        guard let row = try GRDB.Row.fetchOne(db, sql: "SELECT * FROM annals_push") else { return nil }
        let digests: Data = row["digests"]
        let batch = try row.withUnsafeData(named: "batch") { [UInt8]($0 ?? Data()) }
        let bytes = [UInt8](digests)
        let parsed = stride(from: 0, to: bytes.count, by: Digest.byteCount).compactMap {
            Digest(bytes: Array(bytes[$0..<min($0 + Digest.byteCount, bytes.count)]))
        }
        let push = Push(
            firstCounter: Counter(row["first_counter"]), transactions: row["transactions"], lastSequence: row["last_sequence"],
            digests: parsed, batch: batch)
        guard push.digests.count == push.transactions else { throw StoreDamage("annals_push.digests") }
        return push
    }

    /// Freezes the oldest outbox rows, up to the limits of one batch; nil when the outbox is empty.
    ///
    /// Counters are given here: last accepted + 1, + 2, … A refused transaction gives its counter back.
    static func freeze(_ db: Database, _ state: ReplicaState, layouts: LayoutNames) throws -> Push? {
        var encoder = BatchEncoder(
            lineage: state.lineage, replica: state.replica, firstCounter: state.lastCounter.next, previousDigest: state.lastDigest,
            schemaVersion: 1, codec: .zstd)
        var named: Set<Int> = []
        var count = 0
        var size = 0
        var last: Int64 = 0
        try Outbox.forEach(db) { row in
            if count > 0, size + row.body.count > OutboxLimits.pushBytes || count >= OutboxLimits.pushTransactions { return false }
            for layout in try BodyReader(bytes: row.body).tables where named.insert(layout).inserted {
                encoder.layout(ref: layout, try layouts.layout(layout))
            }
            encoder.append(body: row.body, base: state.position, footprint: row.footprint)
            count += 1
            size += row.body.count
            last = row.sequence
            return true
        }
        guard count > 0 else { return nil }
        let encoded = try encoder.finish()
        let push = Push(
            firstCounter: state.lastCounter.next, transactions: count, lastSequence: last, digests: encoded.digests, batch: encoded.bytes)
        let statement = try PreparedStatement(
            db, "INSERT INTO annals_push (first_counter, transactions, last_sequence, digests, batch) VALUES (?1, ?2, ?3, ?4, ?5)")
        statement.bind(1, push.firstCounter.rawValue)
        statement.bind(2, Int64(count))
        statement.bind(3, last)
        statement.bind(4, .blob(encoded.digests.flatMap(\.bytes)))
        try encoded.bytes.withUnsafeBytes { try statement.run(lending: 5, $0) }
        return push
    }

    static func thaw(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_push")
    }
}

/// Named bounds of the outbox and of pushes.
enum OutboxLimits {
    /// Plain bytes of bodies in one push, unless a single transaction is larger.
    static let pushBytes = 2 << 20
    static let pushTransactions = 4_096
}
