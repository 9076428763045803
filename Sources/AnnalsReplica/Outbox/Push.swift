package import AnnalsSchema
import AnnalsSQLite
package import AnnalsCore
package import AnnalsWire
import Foundation
package import GRDB

/// The push under way. It is frozen before its first byte is sent, and kept until the relay gives a definite answer.
///
/// It is one batch of transactions, or one transaction in parts, with one batch for each part.
package struct Push {
    package var firstCounter: Counter
    /// The number of batches. Several batches are the parts of one transaction.
    package var parts: Int
    /// The sequence number of the last outbox row in it.
    package var lastSequence: Int64
    /// One digest for each transaction, or for each part.
    package var digests: [Digest]

    static let table = "annals_push"

    static let schema = """
        CREATE TABLE annals_push (
            first_counter INTEGER PRIMARY KEY,
            transactions INTEGER NOT NULL,
            last_sequence INTEGER NOT NULL,
            digests BLOB NOT NULL,
            batch BLOB NOT NULL
        );
        """

    package static func isUnderWay(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS(SELECT 1 FROM annals_push)")) ?? false
    }

    package static func load(_ db: Database) throws -> Push? {
        let sql = "SELECT first_counter, transactions, last_sequence, digests FROM annals_push ORDER BY first_counter"
        var push: Push?
        for row in try GRDB.Row.fetchAll(db.cachedStatement(sql: sql)) {
            let digests: Data = try row.value("digests")
            let bytes = [UInt8](digests)
            let parsed = stride(from: 0, to: bytes.count, by: Digest.byteCount).compactMap {
                Digest(bytes: Array(bytes[$0..<min($0 + Digest.byteCount, bytes.count)]))
            }
            guard try parsed.count == row.value("transactions") else { throw Corruption("annals_push.digests") }
            let first = try Counter(row.number("first_counter", in: SchemaLimits.positions))
            if push == nil { push = try Push(firstCounter: first, parts: 0, lastSequence: row.value("last_sequence"), digests: []) }
            push?.parts += 1
            push?.digests += parsed
        }
        return push
    }

    /// Throws `Corruption` if the bytes of the push under way are not a valid push.
    package static func check(_ db: Database) throws {
        guard let push = try load(db) else { return }
        for part in 0..<push.parts {
            guard let header = try? BatchHeader.parse(push.batch(db, part: part)),
                header.firstCounter.rawValue == push.firstCounter.rawValue + Int64(part)
            else { throw Corruption("annals_push") }
        }
    }

    /// The bytes to send.
    package func batch(_ db: Database, part: Int) throws -> [UInt8] {
        try StoredBlob(db, table: "annals_push", column: "batch", row: firstCounter.rawValue + Int64(part), .read).read()
    }

    /// Freezes the oldest outbox rows, up to the limits of one batch. If the oldest row has parts, it is frozen alone. Returns nil if
    /// there is nothing to send.
    ///
    /// Counters are assigned here: last accepted + 1, + 2, … A refused transaction gives its counter back.
    package static func freeze(
        _ db: Database, _ state: ReplicaState, layouts: LayoutNames, limits: OutboxLimits, cipher: SpaceCipher?
    ) throws -> Push? {
        let unsettled =
            try [UnsettledReferences.first(db), MigrationBarrier(db).first(), PendingSchemaEntries.first(db, .own)].compactMap { $0 }
            .min() ?? .max
        if let row = try Outbox.firstRow(db), row.parts > 1, row.sequence < unsettled {
            return try freezeParts(db, row, state, layouts, cipher)
        }
        var encoder = BatchEncoder(
            lineage: state.lineage, signer: try state.key(), seen: state.seenLog, firstCounter: state.lastCounter.next,
            previousDigest: state.lastDigest,
            schemaVersion: try SpaceSchema.version(db), codec: .zstd, cipher: cipher)
        let bodies = OutboxBodies(db)
        var named: Set<Int> = []
        var last: Int64 = 0
        // Each is a batch of its own. Then a replica that waits for it can apply all older work, also corrections of rows for new
        // constraints, and one that makes its additions can do so before it applies newer work.
        let schemaEntries = try PendingSchemaEntries.carriers(db)
        try Outbox.forEachFootprint(db) { sequence, parts, footprint in
            guard sequence < unsettled, parts == 1 else { return false }
            if encoder.transactionCount > 0, schemaEntries.contains(sequence) { return false }
            guard encoder.transactionCount < limits.pushTransactions else { return false }
            let (body, byteCount, tables) = try bodies.body(of: sequence)
            if encoder.transactionCount > 0, encoder.plainBytes + byteCount > limits.pushBytes { return false }
            for layout in tables where named.insert(layout).inserted { encoder.layout(ref: layout, try layouts.layout(layout)) }
            encoder.append(body, base: state.position, footprint: footprint)
            last = sequence
            return !schemaEntries.contains(sequence)
        }
        guard encoder.transactionCount > 0 else { return nil }
        let encoded = try finish(encoder, tables: named, layouts)
        let push = Push(firstCounter: state.lastCounter.next, parts: 1, lastSequence: last, digests: encoded.digests)
        try push.save(db, encoded, part: 0)
        return push
    }

    /// All parts have one base and one footprint, because they are certified together.
    private static func freezeParts(
        _ db: Database, _ row: Outbox.Row, _ state: ReplicaState, _ layouts: LayoutNames, _ cipher: SpaceCipher?
    ) throws -> Push {
        var push = Push(firstCounter: state.lastCounter.next, parts: row.parts, lastSequence: row.sequence, digests: [])
        let key = try state.key()
        for number in 0..<row.parts {
            let body = try Outbox.body(db, of: row.sequence, part: number, parts: row.parts)
            var encoder = BatchEncoder(
                lineage: state.lineage, signer: key, seen: state.seenLog,
                firstCounter: Counter(push.firstCounter.rawValue + Int64(number)),
                previousDigest: push.digests.last ?? state.lastDigest, schemaVersion: try SpaceSchema.version(db),
                part: BatchPart(number: number, count: row.parts), codec: .zstd, cipher: cipher)
            let tables = try BodyReader(bytes: body).tables
            for layout in tables { encoder.layout(ref: layout, try layouts.layout(layout)) }
            encoder.append(body: body, base: state.position, footprint: row.footprint)
            let encoded = try finish(encoder, tables: Set(tables), layouts)
            try push.save(db, encoded, part: number)
            push.digests += encoded.digests
        }
        return push
    }

    /// Throws `AnnalsError` with code `tooLarge` if a transaction has too many parts.
    private static func finish(_ encoder: BatchEncoder, tables: Set<Int>, _ layouts: LayoutNames) throws -> EncodedBatch {
        do {
            return try encoder.finish()
        } catch WireError.tooLarge {
            let names = try Set(tables.map { try layouts.layout($0).name }).sorted().joined(separator: ", ")
            throw AnnalsError(
                .tooLarge, operation: "sync",
                "a transaction (\(names)) has more than \(WireLimits.maximumParts) parts and cannot be sent",
                hint: "Write its rows in several transactions: call leave(force: true), then join again with existing: .sameKey",
                commandHint: "Write its rows in several transactions: run annals leave --force, then annals join --existing same-key")
        }
    }

    private func save(_ db: Database, _ encoded: EncodedBatch, part: Int) throws {
        let counter = firstCounter.rawValue + Int64(part)
        let statement = try PreparedStatement(
            db, "INSERT INTO annals_push (first_counter, transactions, last_sequence, digests, batch) VALUES (?1, ?2, ?3, ?4, ?5)")
        statement.bind(1, counter)
        statement.bind(2, Int64(encoded.digests.count))
        statement.bind(3, lastSequence)
        statement.bind(4, .blob(encoded.digests.flatMap(\.bytes)))
        statement.bind(5, roomFor: encoded.pieces.reduce(0) { $0 + $1.count })
        try statement.run()
        try StoredBlob(db, table: "annals_push", column: "batch", row: counter, .write).write(encoded.pieces)
    }

    package static func thaw(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_push")
    }
}
