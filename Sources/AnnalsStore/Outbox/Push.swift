import AnnalsBlobs
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

    static func isUnderWay(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS(SELECT 1 FROM annals_push)") ?? false
    }

    static func load(_ db: Database) throws -> Push? {
        let sql = "SELECT first_counter, transactions, last_sequence, digests FROM annals_push"
        guard let row = try GRDB.Row.fetchOne(db, sql: sql) else { return nil }
        let digests: Data = row["digests"]
        let bytes = [UInt8](digests)
        let parsed = stride(from: 0, to: bytes.count, by: Digest.byteCount).compactMap {
            Digest(bytes: Array(bytes[$0..<min($0 + Digest.byteCount, bytes.count)]))
        }
        let push = Push(
            firstCounter: Counter(row["first_counter"]), transactions: row["transactions"], lastSequence: row["last_sequence"],
            digests: parsed)
        guard push.digests.count == push.transactions else { throw StoreDamage("annals_push.digests") }
        return push
    }

    /// The bytes to send.
    func batch(_ db: Database) throws -> [UInt8] {
        try StoredBlob(db, table: "annals_push", column: "batch", row: firstCounter.rawValue, .read).read()
    }

    /// Freezes the oldest outbox rows, up to the limits of one batch; nil when the outbox is empty.
    ///
    /// Counters are given here: last accepted + 1, + 2, … A refused transaction gives its counter back.
    static func freeze(_ db: Database, _ state: ReplicaState, layouts: LayoutNames) throws -> Push? {
        var encoder = BatchEncoder(
            lineage: state.lineage, replica: state.replica, firstCounter: state.lastCounter.next, previousDigest: state.lastDigest,
            schemaVersion: 1, codec: .zstd)
        let bodies = OutboxBodies(db)
        var named: Set<Int> = []
        var last: Int64 = 0
        let unsettled = try UnsettledReferences.first(db) ?? .max
        try Outbox.forEachFootprint(db) { sequence, footprint in
            guard sequence < unsettled else { return false }
            guard encoder.transactionCount < OutboxLimits.pushTransactions else { return false }
            let (body, byteCount, tables) = try bodies.body(of: sequence)
            if encoder.transactionCount > 0, encoder.plainBytes + byteCount > OutboxLimits.pushBytes { return false }
            for layout in tables where named.insert(layout).inserted { encoder.layout(ref: layout, try layouts.layout(layout)) }
            encoder.append(body, base: state.position, footprint: footprint)
            last = sequence
            return true
        }
        guard encoder.transactionCount > 0 else { return nil }
        let encoded = try encoder.finish()
        let push = Push(
            firstCounter: state.lastCounter.next, transactions: encoder.transactionCount, lastSequence: last, digests: encoded.digests)
        try push.save(db, encoded.pieces)
        return push
    }

    private func save(_ db: Database, _ batch: [[UInt8]]) throws {
        let statement = try PreparedStatement(
            db, "INSERT INTO annals_push (first_counter, transactions, last_sequence, digests, batch) VALUES (?1, ?2, ?3, ?4, ?5)")
        statement.bind(1, firstCounter.rawValue)
        statement.bind(2, Int64(transactions))
        statement.bind(3, lastSequence)
        statement.bind(4, .blob(digests.flatMap(\.bytes)))
        statement.bind(5, roomFor: batch.reduce(0) { $0 + $1.count })
        try statement.run()
        try StoredBlob(db, table: "annals_push", column: "batch", row: firstCounter.rawValue, .write).write(batch)
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
