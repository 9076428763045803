import AnnalsCore
import Foundation
import GRDB

/// The log's running digests at the newest positions that a replica has passed. They are compared with what other replicas have seen.
///
/// The table is a ring. All its rows are created at the beginning, so that the file does not grow with the log (law 9).
enum LogDigests {
    package static let schema = """
        CREATE TABLE annals_log_digests (
            slot INTEGER PRIMARY KEY,
            position INTEGER NOT NULL,
            digest BLOB NOT NULL
        );
        WITH RECURSIVE slots (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM slots WHERE slot < \(ReplicaLimits.logDigestsKept - 1))
        INSERT INTO annals_log_digests SELECT slot, \(unused), zeroblob(\(Digest.byteCount)) FROM slots;
        """

    /// The position of an unused row. It takes as many bytes as the largest position.
    private static let unused: Int64 = 1 << 40

    /// nil if the digest is not stored, or not any more.
    package static func at(_ position: Position, _ db: Database) throws -> Digest? {
        let statement = try db.cachedStatement(sql: "SELECT digest FROM annals_log_digests WHERE slot = ? AND position = ?")
        let found = try Data.fetchOne(statement, arguments: [slot(of: position), position.rawValue])
        return found.flatMap { Digest(bytes: [UInt8]($0)) }.flatMap { $0 == .zero ? nil : $0 }
    }

    /// Stores the newest digests.
    package static func note(_ db: Database, _ digests: some BidirectionalCollection<(Position, Digest)>) throws {
        let statement = try db.cachedStatement(sql: "INSERT OR REPLACE INTO annals_log_digests (slot, position, digest) VALUES (?, ?, ?)")
        for (position, digest) in digests.suffix(Int(ReplicaLimits.logDigestsKept)) {
            try statement.execute(arguments: [slot(of: position), position.rawValue, Data(digest.bytes)])
        }
    }

    /// To be called when another log continues after a position.
    package static func drop(_ db: Database, after position: Position) throws {
        try db.execute(
            sql: "UPDATE annals_log_digests SET position = \(unused), digest = zeroblob(\(Digest.byteCount)) WHERE position > ?",
            arguments: [position.rawValue])
    }

    private static func slot(of position: Position) -> Int64 { position.rawValue % ReplicaLimits.logDigestsKept }
}
