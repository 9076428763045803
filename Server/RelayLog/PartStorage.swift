internal import AnnalsBlobs
internal import AnnalsCore
internal import AnnalsWire
internal import Foundation
internal import GRDB

/// All SQL of parts that wait for the rest of their transaction.
enum PartStorage {
    static let schema = """
        -- Parts before the last of transactions that are not in the log yet; at most one transaction a replica.
        CREATE TABLE annals_parts(
            id INTEGER PRIMARY KEY,
            space INTEGER NOT NULL REFERENCES annals_spaces(id),
            replica BLOB NOT NULL,
            part INTEGER NOT NULL,
            counter INTEGER NOT NULL,
            digest BLOB NOT NULL,
            received INTEGER NOT NULL,
            batch BLOB NOT NULL,
            UNIQUE (space, replica, part)
        ) STRICT;
        """

    static func append(_ header: BatchHeader, _ batch: [UInt8], to space: Int64, at now: Int64, db: Database) throws {
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO annals_parts(space, replica, part, counter, digest, received, batch) VALUES (?, ?, ?, ?, ?, ?, zeroblob(?))
                """)
        try statement.execute(arguments: [
            space, Data(header.replica.bytes), header.part.number, header.firstCounter.rawValue, Data(header.certificates[0].digest.bytes),
            now, batch.count,
        ])
        try StoredBlob(db, table: "annals_parts", column: "batch", row: db.lastInsertedRowID, .write).write([batch])
    }

    static func drop(of replica: ReplicaID, in space: Int64, db: Database) throws {
        try db.cachedStatement(sql: "DELETE FROM annals_parts WHERE space = ? AND replica = ?")
            .execute(arguments: [space, Data(replica.bytes)])
    }

    /// A part becomes a run of the log; SQLite copies it, one at a time.
    ///
    /// - Parameter digest: the log's running digest behind it.
    static func move(
        _ part: Int, of replica: ReplicaID, row: Int64, in space: Int64, to position: Position, digest: Digest, at now: Int64, db: Database
    ) throws {
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO annals_runs(space, position, count, first_index, replica, counter, received, log_digest, batch)
                SELECT space, ?, 1, 0, ?, counter, ?, ?, batch FROM annals_parts WHERE space = ? AND replica = ? AND part = ?
                """)
        try statement.execute(arguments: [position.rawValue, row, now, Data(digest.bytes), space, Data(replica.bytes), part])
    }

    /// What waits in a space. Parts of which the first cannot be read count as not there.
    static func load(of space: Int64, in db: Database) throws -> [ReplicaID: PendingParts] {
        let sql = "SELECT id, replica, part, digest, length(batch) AS length FROM annals_parts WHERE space = ? ORDER BY replica, part"
        var pending: [ReplicaID: PendingParts] = [:]
        for row in try Row.fetchAll(db, sql: sql, arguments: [space]) {
            guard let replica = ReplicaID(bytes: row["replica"] as Data), let digest = Digest(bytes: [UInt8](row["digest"] as Data))
            else { continue }
            if row["part"] as Int > 0 {
                pending[replica]?.append(digest, byteCount: row["length"])
            } else if let header = try header(of: row["id"], in: db) {
                pending[replica] = PendingParts(first: header, byteCount: row["length"])
            }
        }
        return pending
    }

    private static func header(of row: Int64, in db: Database) throws -> BatchHeader? {
        let batch = try StoredBlob(db, table: "annals_parts", column: "batch", row: row, .read).read()
        return try? BatchHeader.parse(batch, limits: BatchLimits(batchBytes: .max, plainBytes: .max, transactions: .max))
    }
}
