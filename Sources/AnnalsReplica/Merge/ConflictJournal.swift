public import AnnalsCore
import AnnalsMerge
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import Foundation
package import GRDB

/// The settled conflicts of the space. At one position the journal is equal on all replicas, because its entries travel in
/// the log and count once they are in the log.
package enum ConflictJournal {
    package static let schema = """
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
            waits INTEGER NOT NULL DEFAULT 0,
            resolved INTEGER NOT NULL DEFAULT 0,
            seen INTEGER NOT NULL DEFAULT 0,
            entry BLOB NOT NULL,
            UNIQUE (replica, transaction_id, number)
        );
        """

    /// Adds journal entries of one transaction that is in the log.
    ///
    /// - Parameters:
    ///   - first: The index of the first of these entries within the transaction. Its parts add their entries one after another.
    ///   - own: The replica whose store this is.
    package static func append(
        _ db: Database, _ entries: [JournalEntry], from first: Int, transaction: TransactionInfo, replica: ReplicaID, position: Position,
        receivedAt: Int64, own: ReplicaID
    ) throws -> JournalGrowth {
        var growth = JournalGrowth()
        for (number, entry) in entries.enumerated() {
            try db.cachedStatement(
                sql: """
                    INSERT OR IGNORE INTO annals_conflicts
                        (replica, transaction_id, number, position, received_at, time, time_counter, author, name, waits, entry)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """
            ).execute(arguments: [
                Data(replica.bytes), Data(transaction.id.bytes), first + number, position.rawValue, receivedAt,
                transaction.time.milliseconds, Int64(transaction.time.counter), transaction.author, entry.table,
                entry.waitsForPerson, Data(entry.encode()),
            ])
            guard db.changesCount > 0 else { continue }
            guard entry.kind != .renumber else {
                growth += JournalGrowth(renumbered: 1)
                continue
            }
            let isLost = entry.loser(incoming: replica) == own
            growth += JournalGrowth(conflicts: 1, lost: isLost ? 1 : 0, first: db.lastInsertedRowID)
        }
        return growth
    }

    /// The columns that replicas share: all except the local id and whether a person saw the conflict in this store.
    private static let shared = [
        "replica", "transaction_id", "number", "position", "received_at", "time", "time_counter", "author", "name", "waits", "resolved",
        "entry",
    ]

    /// Copies the journal to a table of this name in an attached snapshot.
    package static func copy(_ db: Database, to table: String) throws {
        try db.execute(
            sql: "CREATE TABLE \(table) AS SELECT \(shared.joined(separator: ", ")) FROM main.annals_conflicts ORDER BY id")
    }

    /// Copies the entries of another replica's journal, or of a snapshot's. An existing entry gets the new position and time of
    /// receipt, and is resolved if one of the two is.
    package static func takeIn(_ rows: RowCursor, _ db: Database) throws {
        let placeholders = Array(repeating: "?", count: shared.count).joined(separator: ", ")
        let insert = try db.cachedStatement(
            sql: """
                INSERT INTO annals_conflicts (\(shared.joined(separator: ", "))) VALUES (\(placeholders))
                ON CONFLICT (replica, transaction_id, number) DO UPDATE SET position = excluded.position,
                    received_at = excluded.received_at, resolved = CASE excluded.resolved WHEN 0 THEN resolved ELSE excluded.resolved END
                """)
        while let row = try rows.next() {
            try insert.execute(arguments: StatementArguments(shared.map { row[$0] as DatabaseValue }))
        }
    }

    package static func takeIn(from other: Database, table: String = "annals_conflicts", order: String = "id", to db: Database) throws {
        try takeIn(GRDB.Row.fetchCursor(other, sql: "SELECT \(shared.joined(separator: ", ")) FROM \(table) ORDER BY \(order)"), db)
    }

    /// The number of conflicts, and of rows that got another key. These are entries too, and no conflicts: both rows exist.
    package static func count(_ db: Database) throws -> (conflicts: Int, renumbered: Int) {
        let row = try GRDB.Row.fetchOne(
            db, sql: "SELECT count(*) AS total, count(*) FILTER (WHERE \(isRenumber)) AS renumbered FROM annals_conflicts")
        let (total, renumbered) = try (row?.number("total") ?? 0, row?.number("renumbered") ?? 0) as (Int, Int)
        return (total - renumbered, renumbered)
    }

    /// The number of conflicts in which a constraint refused the incoming values, and which nobody has decided since.
    package static func refusedCount(_ db: Database) throws -> Int {
        // Bit 6 of the second byte is set if the incoming side won.
        let hasStoredWon = "(instr('0123456789ABCDEF', substr(hex(substr(entry, 2, 1)), 1, 1)) - 1) & 4 = 0"
        let refused = "FROM annals_conflicts WHERE resolved = 0 AND \(isOfKind([.unique, .foreignKey, .check])) AND \(hasStoredWon)"
        // A merged row was not refused. Only entries that contain the name of the policy are decoded.
        let mayBeMerged = "instr(entry, CAST('\(UniqueRule.mergeRows.rawValue)' AS BLOB)) > 0"
        var count = try Int.fetchOne(db, sql: "SELECT count(*) \(refused) AND NOT \(mayBeMerged)") ?? 0
        let rows = try GRDB.Row.fetchCursor(db, sql: "SELECT entry \(refused) AND \(mayBeMerged)")
        while let row = try rows.next() {
            let bytes: Data = try row.value("entry")
            if try !JournalEntry.decode([UInt8](bytes)).isMerge { count += 1 }
        }
        return count
    }

    /// The first byte of an entry is its kind.
    private static let isRenumber = isOfKind([.renumber])

    private static func isOfKind(_ kinds: [JournalEntry.Kind]) -> String {
        "hex(substr(entry, 1, 1)) IN (\(kinds.map { "printf('%02X', \($0.rawValue))" }.joined(separator: ", ")))"
    }

    /// The number of conflicts that wait for a person.
    package static func waitingCount(_ db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_conflicts WHERE waits AND resolved = 0") ?? 0
    }

    /// All entries, oldest first.
    package static func all(_ db: Database, _ tables: TrackedTables) throws -> [Conflict] {
        let names = tables.localNames
        return try GRDB.Row.fetchAll(db, sql: "SELECT * FROM annals_conflicts ORDER BY id").map { try conflict($0, names) }
    }

    /// The conflict with this id in this store, under canonical names.
    package static func find(_ db: Database, _ id: Int64) throws -> Conflict? {
        try GRDB.Row.fetchOne(db, sql: "SELECT * FROM annals_conflicts WHERE id = ?", arguments: [id]).map { try conflict($0, NameMap()) }
    }

    /// The conflict with this name, under canonical names.
    static func find(_ db: Database, _ name: ConflictID) throws -> Conflict? {
        try GRDB.Row.fetchOne(
            db, sql: "SELECT * FROM annals_conflicts WHERE replica = ? AND transaction_id = ? AND number = ?",
            arguments: [Data(name.replica.bytes), Data(name.transaction.bytes), name.index]
        ).map { try conflict($0, NameMap()) }
    }

    /// The conflicts of the journal that have another decision than these.
    static func replaced(_ db: Database, by resolutions: [ConflictResolution]) throws -> [ConflictID] {
        try resolutions.filter { resolution in
            let before = try find(db, resolution.conflict)?.resolution
            return before != nil && before != .tableRemoved && before != Conflict.Resolution(resolution.choice)
        }.map(\.conflict)
    }

    /// Records a person's decision. Does nothing if the journal does not hold the conflict any more.
    package static func note(_ db: Database, _ resolution: ConflictResolution) throws {
        try db.execute(
            sql: "UPDATE annals_conflicts SET resolved = ? WHERE replica = ? AND transaction_id = ? AND number = ?",
            arguments: [
                Int64(resolution.choice.rawValue) + 1, Data(resolution.conflict.replica.bytes), Data(resolution.conflict.transaction.bytes),
                resolution.conflict.index,
            ])
    }

    /// Conflicts of a table that the space has removed wait for nobody.
    ///
    /// - Parameter table: its canonical name.
    static func settle(_ db: Database, removedTable table: String) throws {
        try db.execute(
            sql: "UPDATE annals_conflicts SET resolved = \(removed) WHERE name = ? COLLATE NOCASE AND waits AND resolved = 0",
            arguments: [table])
    }

    /// Beside the choices of `ConflictResolution`, which are stored as 1, 2 and 3.
    private static let removed = 4

    /// Deletes entries that the relay received before a time, in milliseconds since 1970. A trial only counts them.
    package static func purge(_ db: Database, before moment: Int64, force: Bool, isTrial: Bool = false) throws -> Int {
        let old = """
            FROM annals_conflicts
            WHERE received_at < ? AND (? OR seen AND NOT (waits AND resolved = 0)) AND id < (SELECT max(id) FROM annals_conflicts)
            """
        let count = try Int.fetchOne(db, sql: "SELECT count(*) \(old)", arguments: [moment, force]) ?? 0
        if !isTrial { try db.execute(sql: "DELETE \(old)", arguments: [moment, force]) }
        return count
    }

    /// Returns at most `limit` conflicts with a higher id than `after`, in the order of their ids, under canonical names.
    package static func page(_ db: Database, after: Int64, limit: Int, onlyUnresolved: Bool) throws -> [Conflict] {
        try GRDB.Row.fetchAll(
            db,
            sql: """
                SELECT * FROM annals_conflicts
                WHERE id > ? AND (waits AND resolved = 0 OR NOT ?)
                ORDER BY id LIMIT ?
                """, arguments: [after, onlyUnresolved, limit]
        ).map { try conflict($0, NameMap()) }
    }

    /// The entries that one transaction carried into the log, whichever replica sent it. The index begins with the replica, so it is
    /// searched once for each replica.
    package static func entries(of transaction: DatabaseValue, _ db: Database) throws -> [Conflict] {
        try GRDB.Row.fetchAll(
            db,
            sql: """
                WITH RECURSIVE replicas(replica) AS (
                  SELECT min(replica) FROM annals_conflicts
                  UNION ALL
                  SELECT (SELECT min(c.replica) FROM annals_conflicts AS c WHERE c.replica > replicas.replica) FROM replicas
                  WHERE replicas.replica NOT NULL)
                SELECT c.* FROM replicas CROSS JOIN annals_conflicts AS c ON c.replica = replicas.replica AND c.transaction_id = ?
                ORDER BY c.id
                """, arguments: [transaction]
        ).map { try conflict($0, NameMap()) }
    }

    /// Marks entries as seen by a person in this store.
    package static func noteSeen(_ db: Database, _ ids: [Int64]) throws {
        let statement = try db.cachedStatement(sql: "UPDATE annals_conflicts SET seen = 1 WHERE id = ? AND seen = 0")
        for id in ids { try statement.execute(arguments: [id]) }
    }

    /// Deletes the entries of log entries after a position.
    static func forget(_ db: Database, after position: Position) throws {
        try db.execute(sql: "DELETE FROM annals_conflicts WHERE position > ?", arguments: [position.rawValue])
    }

    /// Visits all entries that arrived in the same push as the conflict, in order.
    static func forEachEntry(_ db: Database, with conflict: Conflict, _ visit: (JournalEntry) throws -> Void) throws {
        let rows = try GRDB.Row.fetchCursor(
            db,
            sql: """
                SELECT entry FROM annals_conflicts
                WHERE replica = ? AND received_at = (SELECT received_at FROM annals_conflicts WHERE id = ?) ORDER BY id
                """, arguments: [Data(conflict.name.replica.bytes), conflict.id])
        while let row = try rows.next() {
            let bytes: Data = try row.value("entry")
            try visit(JournalEntry.decode([UInt8](bytes)))
        }
    }

    private static func resolution(_ number: Int64) throws -> Conflict.Resolution? {
        switch number {
        case 0: return nil
        case Int64(removed): return .tableRemoved
        default: break
        }
        guard let choice = UInt8(exactly: number - 1).flatMap(ConflictResolution.Choice.init) else { throw Corruption("annals_conflicts") }
        return Conflict.Resolution(choice)
    }

    /// - Parameter names: The local names. The journal uses canonical names.
    package static func conflict(_ row: GRDB.Row, _ names: NameMap) throws -> Conflict {
        let replica: Data = try row.value("replica")
        let transaction: Data = try row.value("transaction_id")
        let entry: Data = try row.value("entry")
        guard let replica = ReplicaID(bytes: replica), let transaction = TransactionID(bytes: transaction) else {
            throw Corruption("annals_conflicts")
        }
        let read = try JournalEntry.decode([UInt8](entry))
        let time = try HybridTime(milliseconds: row.value("time"), counter: row.value("time_counter"))
        return try Conflict(
            id: row.number("id"), name: ConflictID(replica: replica, transaction: transaction, index: row.value("number")),
            position: Position(row.value("position")), time: read.incomingTime ?? time, author: row.value("author"),
            resolution: resolution(row.value("resolved")), isSeen: row.value("seen"), entry: read.renamed(names))
    }
}

/// One conflict of the conflict journal.
public struct Conflict: Sendable {
    /// Its id in this store.
    public var id: Int64
    /// Its id on every replica. The replica in it is the one that settled the conflict, the author of the incoming transaction.
    public var name: ConflictID
    /// The position of the log entry that carries it.
    public var position: Position
    /// When the incoming value was written.
    public var time: HybridTime
    public var author: String?
    /// What a person decided; nil if nobody did.
    public var resolution: Resolution?
    /// Whether a person has seen it on this replica.
    public var isSeen: Bool
    public var entry: JournalEntry

    /// Whether a person has decided it.
    public var isResolved: Bool { resolution != nil }
    /// Whether it still waits for a person: its policy is `manual`, and it is not resolved. Other policies settle conflicts.
    public var isWaiting: Bool { entry.waitsForPerson && !isResolved }

    /// The values that the row got by a person's decision. They may have been changed again since.
    public enum Resolution: String, Hashable, Sendable {
        case stored
        case incoming
        /// Values that the person entered.
        case values
        /// Nobody needed to decide, because the space removed the table.
        case tableRemoved

        package init(_ choice: ConflictResolution.Choice) {
            switch choice {
            case .stored: self = .stored
            case .incoming: self = .incoming
            case .values: self = .values
            }
        }
    }
}

extension Conflict {
    package func renamed(_ names: NameMap) -> Conflict {
        var renamed = self
        renamed.entry = entry.renamed(names)
        return renamed
    }
}

extension JournalEntry {
    /// The replica whose value is not in the row; nil if it is not known, and for a renumbered row, whose values are.
    ///
    /// - Parameter replica: the author of the incoming transaction.
    package func loser(incoming replica: ReplicaID) -> ReplicaID? {
        kind == .renumber ? nil : winner == .incoming ? storedReplica : replica
    }

    package func renamed(_ names: NameMap) -> JournalEntry {
        guard !names.isEmpty else { return self }
        var renamed = self
        renamed.table = names.table(table)
        renamed.columns = columns.map { names.column($0, of: table) }
        return renamed
    }

    fileprivate var waitsForPerson: Bool { policy == RowPolicy.manual.description }
}

/// What an exchange added to the conflict journal.
package struct JournalGrowth: Hashable, Sendable {
    package var conflicts = 0
    /// Rows that got another key, because two replicas had used the same one.
    package var renumbered = 0
    /// The conflicts in which a value of this replica lost.
    package var lost = 0
    /// Decisions that another replica's decision about the same conflict replaced.
    package var replaced = 0
    /// The id of the first conflict.
    package var first: Int64?

    package init(conflicts: Int = 0, renumbered: Int = 0, lost: Int = 0, replaced: Int = 0, first: Int64? = nil) {
        (self.conflicts, self.renumbered, self.lost, self.replaced, self.first) = (conflicts, renumbered, lost, replaced, first)
    }

    package static func += (growth: inout JournalGrowth, more: JournalGrowth) {
        growth.conflicts += more.conflicts
        growth.renumbered += more.renumbered
        growth.lost += more.lost
        growth.replaced += more.replaced
        growth.first = growth.first ?? more.first
    }
}

extension JournalEntry {
    /// Whether the incoming row was merged into the stored one. Its own values are only in the journal, and rows that referred to it refer to
    /// the stored row.
    package var isMerge: Bool { kind == .unique && policy == UniqueRule.mergeRows.rawValue && winner == .stored }
}
