import AnnalsCore
import Foundation
import GRDB

/// The log's running digest at the newest positions that a replica has passed: what others say of the log is compared with them.
enum LogDigests {
    static let schema = """
        CREATE TABLE annals_log_digests (
            position INTEGER PRIMARY KEY,
            digest BLOB NOT NULL
        );
        """

    static let tables = ["annals_log_digests"]

    /// nil where it is not kept, or not any more.
    static func at(_ position: Position, _ db: Database) throws -> Digest? {
        let statement = try db.cachedStatement(sql: "SELECT digest FROM annals_log_digests WHERE position = ?")
        return try Data.fetchOne(statement, arguments: [position.rawValue]).flatMap { Digest(bytes: [UInt8]($0)) }
    }

    /// Keeps the newest ones.
    static func note(_ db: Database, _ digests: some Collection<(Position, Digest)>) throws {
        guard let first = digests.first?.0.rawValue, let last = digests.map(\.0.rawValue).max() else { return }
        let oldest = last - Limits.keptLogDigests
        let statement = try db.cachedStatement(sql: "INSERT OR REPLACE INTO annals_log_digests (position, digest) VALUES (?, ?)")
        for (position, digest) in digests where position.rawValue > oldest {
            try statement.execute(arguments: [position.rawValue, Data(digest.bytes)])
        }
        // Not with each of many small steps.
        guard first / Limits.logDigestsAtOnce != last / Limits.logDigestsAtOnce else { return }
        try db.cachedStatement(sql: "DELETE FROM annals_log_digests WHERE position <= ?").execute(arguments: [oldest])
    }

    /// Those of a log that this replica does not follow any more.
    static func clear(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_log_digests")
    }
}
