import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The consumers of a store: rows of `annals_consumers`, a table that is created with the first consumer.
package struct ConsumerTable {
    private let db: Database
    private let bounds: HistoryBounds

    /// A consumer's row in `annals_consumers`.
    package struct Entry {
        package var consumer: HistoryConsumer
        /// The last transaction that it has read.
        package var number: Int64
        /// In milliseconds since 1970.
        package var lastSeen: Int64

        /// Whether it was idle for longer than its lease.
        func hasLapsed(at now: Int64) -> Bool {
            consumer.lease.map { lastSeen + $0.wholeMilliseconds < now } ?? false
        }
    }

    /// - Throws: `AnnalsError` with code `notTracked`.
    package init(_ db: Database) throws {
        self.db = db
        bounds = try HistoryBounds(db)
    }

    /// All consumers by name, including lapsed ones.
    package static func all(_ db: Database) throws -> [Entry] {
        guard try db.tableExists("annals_consumers") else { return [] }
        return try GRDB.Row.fetchAll(db, sql: "SELECT name, number, lease, seen FROM main.annals_consumers ORDER BY name").map(Entry.init)
    }

    /// The highest number below a limit that a consumer has read; nil if there is none.
    package static func newest(below limit: Int64, _ db: Database) throws -> Int64? {
        guard try db.tableExists("annals_consumers") else { return nil }
        return try Int64.fetchOne(db, sql: "SELECT max(number) FROM main.annals_consumers WHERE number < ?", arguments: [limit])
    }

    package func entry(_ name: String) throws -> Entry {
        let row =
            try db.tableExists("annals_consumers")
            ? GRDB.Row.fetchOne(db, sql: "SELECT name, number, lease, seen FROM main.annals_consumers WHERE name = ?", arguments: [name])
            : nil
        guard let row else {
            throw AnnalsError(
                .consumerUnknown, operation: "consumers", "history has no consumer named \(name)",
                hint: "consumers() lists the consumers", commandHint: "annals consumers lists the consumers")
        }
        return try Entry(row)
    }

    /// Registers a consumer at a token. An existing consumer moves there and gets the new lease.
    package func register(_ consumer: HistoryConsumer, at token: HistoryToken, now: Int64) throws {
        guard !consumer.name.isEmpty else { throw AnnalsError(.usage, operation: "consumers", "a consumer needs a name") }
        guard consumer.name != HistoryConsumer.push.name else {
            throw AnnalsError(
                .usage, operation: "consumers", "the name \(consumer.name) is reserved for what a joined store has not pushed yet",
                hint: "Choose another name")
        }
        try bounds.checkComplete(token)
        try createIfMissing()
        try db.execute(
            sql: """
                INSERT INTO main.annals_consumers(name, number, lease, seen) VALUES(?, ?, ?, ?)
                ON CONFLICT(name) DO UPDATE SET number = excluded.number, lease = excluded.lease, seen = excluded.seen
                """, arguments: [consumer.name, token.number, consumer.lease?.wholeMilliseconds, now])
    }

    /// Moves a consumer forward, never back: a late acknowledgement changes nothing.
    package func acknowledge(_ name: String, _ token: HistoryToken, now: Int64) throws {
        let found = try entry(name)
        try bounds.checkComplete(token)
        try db.execute(
            sql: "UPDATE main.annals_consumers SET number = ?, seen = ? WHERE name = ?",
            arguments: [max(found.number, token.number), now, name])
    }

    /// Returns whether the consumer existed.
    package func remove(_ name: String) throws -> Bool {
        guard try db.tableExists("annals_consumers") else { return false }
        try db.execute(sql: "DELETE FROM main.annals_consumers WHERE name = ?", arguments: [name])
        return db.changesCount > 0
    }

    /// The point up to which a consumer has read.
    ///
    /// - Throws: `AnnalsError` with code `consumerUnknown`, or `tokenExpired` if a purge deleted what it had not read.
    package func token(of name: String) throws -> HistoryToken {
        let entry = try entry(name)
        guard entry.number >= bounds.complete.number else {
            let isPurged = entry.number < bounds.oldest.number
            throw AnnalsError(
                .tokenExpired, operation: "consumers",
                isPurged
                    ? "history that the consumer \(name) had not read was purged"
                    : "a program wrote to a table without capture after the point up to which the consumer \(name) has read",
                hint: "Read the current rows and let the consumer start over; the oldest token is \(bounds.complete)",
                commandHint: "Read the current rows, then let the consumer start here: annals consumers STORE --register \(name)")
        }
        return try bounds.check(HistoryToken(number: entry.number, store: bounds.storeID))
    }

    /// The status of each consumer; the push is the first.
    ///
    /// - Parameter push: the last transaction before those that a replica has not pushed yet; see `PushedHistory`.
    package func statuses(push: Int64?, now: Int64) throws -> [ConsumerStatus] {
        func status(_ consumer: HistoryConsumer, _ kind: ConsumerStatus.Kind, _ number: Int64, _ seen: Int64?, _ hasLapsed: Bool)
            -> ConsumerStatus
        {
            ConsumerStatus(
                consumer: consumer, kind: kind, token: HistoryToken(number: number, store: bounds.storeID),
                unread: bounds.latest.number - max(number, bounds.complete.number), lastSeen: seen,
                state: number < bounds.complete.number ? .expired : hasLapsed ? .lapsed : .live)
        }
        let push = push.map { status(HistoryConsumer.push, .push, max($0, bounds.complete.number), nil, false) }
        return try [push].compactMap(\.self)
            + Self.all(db).map { status($0.consumer, .registered, $0.number, $0.lastSeen, $0.hasLapsed(at: now)) }
    }

    private func createIfMissing() throws {
        guard try !db.tableExists("annals_consumers") else { return }
        try db.execute(
            sql: """
                CREATE TABLE main.annals_consumers(
                  name TEXT PRIMARY KEY, number INTEGER NOT NULL, lease INTEGER, seen INTEGER NOT NULL) WITHOUT ROWID
                """)
        try StoreSchema.noteSchemaVersion(db)
    }
}

extension ConsumerTable.Entry {
    package init(_ row: GRDB.Row) throws {
        let lease: Int64? = try row.value("lease")
        consumer = try HistoryConsumer(row.value("name"), lease: lease.map { .milliseconds($0) })
        number = try row.number("number")
        lastSeen = try row.value("seen")
    }
}

extension HistoryConsumer {
    /// The sync of a replica. A purge must not delete history that was not pushed.
    package static let push = HistoryConsumer("sync")
}
