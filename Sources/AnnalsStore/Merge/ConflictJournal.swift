public import AnnalsCore
import AnnalsWire
import Foundation
import GRDB

/// Conflicts as they were settled, by whichever replica settled them: equal on all replicas at a position, because
/// entries travel in the log and count once they are in it.
enum ConflictJournal {
    static let schema = """
        CREATE TABLE annals_conflicts (
            id INTEGER PRIMARY KEY,
            replica BLOB NOT NULL,
            transaction_id BLOB NOT NULL,
            number INTEGER NOT NULL,
            position INTEGER NOT NULL,
            received_at INTEGER NOT NULL,
            time INTEGER NOT NULL,
            time_counter INTEGER NOT NULL,
            author TEXT,
            name TEXT NOT NULL,
            resolved INTEGER NOT NULL DEFAULT 0,
            entry BLOB NOT NULL,
            UNIQUE (replica, transaction_id, number)
        );
        """
    static let tables = ["annals_conflicts"]

    /// Keeps the entries of one transaction that is in the log.
    static func append(
        _ db: Database, _ entries: [JournalEntry], transaction: TransactionInfo, replica: ReplicaID, position: Position, receivedAt: Int64
    ) throws {
        for (number, entry) in entries.enumerated() {
            try db.cachedStatement(
                sql: """
                    INSERT OR IGNORE INTO annals_conflicts
                        (replica, transaction_id, number, position, received_at, time, time_counter, author, name, entry)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """
            ).execute(arguments: [
                Data(replica.bytes), Data(transaction.id.bytes), number, position.rawValue, receivedAt, transaction.time.milliseconds,
                Int64(transaction.time.counter), transaction.author, entry.table, Data(entry.encode()),
            ])
        }
    }

    static func count(_ db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_conflicts") ?? 0
    }

    /// Visits entries, oldest first.
    static func all(_ db: Database) throws -> [Conflict] {
        try GRDB.Row.fetchAll(db, sql: "SELECT * FROM annals_conflicts ORDER BY id").map { row in
            let replica: Data = row["replica"]
            let transaction: Data = row["transaction_id"]
            let entry: Data = row["entry"]
            guard let replica = ReplicaID(bytes: replica), let transaction = TransactionID(bytes: transaction) else {
                throw StoreDamage("annals_conflicts")
            }
            return Conflict(
                id: row["id"], replica: replica, transaction: transaction, position: Position(row["position"]),
                time: HybridTime(milliseconds: row["time"], counter: row["time_counter"]), author: row["author"],
                isResolved: row["resolved"] != 0, entry: try JournalEntry.decode([UInt8](entry)))
        }
    }
}

/// One line of the conflict journal.
public struct Conflict: Sendable {
    public var id: Int64
    /// Who settled it: the replica whose work came second.
    public var replica: ReplicaID
    public var transaction: TransactionID
    /// Where the transaction that carries it stands in the log.
    public var position: Position
    /// The incoming transaction's time.
    public var time: HybridTime
    public var author: String?
    public var isResolved: Bool
    public var entry: JournalEntry
}
