package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import Foundation
package import GRDB

/// Copies this store's own transactions from history to the outbox: encoded, and with their footprints.
///
/// This costs writers nothing. It runs at the beginning of an exchange and before every pull, in the same SQLite transaction.
/// So the base of a transaction is the position that its author has seen.
package struct OutboxFiller {
    package let db: Database
    package let tables: TrackedTables
    package let limits: OutboxLimits
    /// Returns the key of the footprints' hashes. Called only if there is something to hash.
    package let footprintKey: () throws -> FootprintKey
    /// The name of this replica. Other replicas see it as the author of transactions without one.
    package var replicaName: () throws -> String? = { nil }
    /// Adds the schema additions that the space does not have, before the transactions that use them.
    package var offer: (OutboxFiller) throws -> Void = { _ in }
    /// Adds constraints that the space does not have, after all transactions.
    package var offerConstraints: (OutboxFiller) throws -> Void = { _ in }

    package init(
        db: Database, tables: TrackedTables, limits: OutboxLimits, footprintKey: @escaping () throws -> FootprintKey,
        replicaName: @escaping () throws -> String? = { nil }, offer: @escaping (OutboxFiller) throws -> Void = { _ in },
        offerConstraints: @escaping (OutboxFiller) throws -> Void = { _ in }
    ) {
        self.db = db
        self.tables = tables
        self.limits = limits
        self.footprintKey = footprintKey
        self.replicaName = replicaName
        self.offer = offer
        self.offerConstraints = offerConstraints
    }

    /// Returns the number of added transactions.
    @discardableResult
    package func fill() throws -> Int {
        try offer(self)
        let meta = Meta(db)
        let done = try meta.integer(.outboxed) ?? 0
        let cursor = try TransactionTable(db).rows(after: done)
        var last = done
        var count = 0
        var changes: NetChanges?
        var known: (key: FootprintKey, name: String?)?
        lazy var serializable = Result { try SerializableTable(db).waiting()?.number }
        while let row = try cursor.next() {
            last = try row.number("number")
            guard let origin = try TransactionOrigin(rawValue: row.value("origin")), TransactionOrigin.own.contains(origin) else {
                continue
            }
            let reader = try changes ?? NetChanges(db, tables: tables, readsTimes: true)
            changes = reader
            let (key, name) = try known ?? (footprintKey(), replicaName())
            known = (key, name)
            let isSerializable = try serializable.get() == last
            if let entry = try encode(row, origin, reader, key, name, isSerializable: isSerializable) {
                try Outbox.append(db, entry)
                count += 1
            } else if isSerializable {
                // It changed nothing that is sent.
                try SerializableTable(db).settle(.ordered)
            }
        }
        if last > done { try meta.set(.outboxed, last) }
        try offerConstraints(self)
        return count
    }

    /// The number of own transactions that are not in the outbox yet.
    package static func waiting(_ db: Database) throws -> Int {
        try TransactionTable(db).countOwn(after: Meta(db).integer(.outboxed) ?? 0)
    }

    /// Adds history's transaction `number` with other contents of the entry. All earlier transactions must be in the outbox already.
    @discardableResult
    package func append(_ number: Int64, _ decisions: UserDecisions, _ journal: [JournalEntry] = []) throws -> TransactionID? {
        guard let row = try TransactionTable(db).row(number) else {
            throw Corruption(OwnTables.transactions)
        }
        let origin = try TransactionOrigin(rawValue: row.value("origin")) ?? .local
        let entry = try encode(
            row, origin, NetChanges(db, tables: tables, readsTimes: true), footprintKey(), replicaName(), decisions, journal)
        if let entry { try Outbox.append(db, entry) }
        try Meta(db).set(.outboxed, number)
        return entry?.id
    }

    /// Adds a user's decisions, with the changes of history's transaction `number` if there are any. Without changes they are a
    /// separate transaction with the id `id`. All earlier transactions must be in the outbox already.
    package func append(
        _ decisions: UserDecisions, with number: Int64?, as id: TransactionID, time: HybridTime, author: String?
    ) throws {
        guard let number else {
            let info = TransactionInfo(id: id, time: time, author: author, replicaName: try replicaName(), origin: .local)
            var builder = BodyBuilder(info, key: try footprintKey(), parts: Outbox.PartWriter(db, limits: limits))
            builder.decide(decisions)
            return try Outbox.append(db, builder.finish())
        }
        try append(number, decisions)
    }

    /// The greatest possible age of a write of a transaction. It was made after the transaction before was recorded, whatever the wall
    /// clock says, and its hybrid logical time is later.
    private func oldestAge(_ number: Int64, _ time: HybridTime) throws -> Int64 {
        let transactions = TransactionTable(db)
        // An imported transaction may have an earlier time than an own one before it.
        let before = try [transactions.row(number - 1)?.value("time"), transactions.lastMoment(before: number)].compactMap { $0 as Int64? }
        return before.max().map { max(0, time.milliseconds - $0 - 1) } ?? .max
    }

    private func encode(
        _ row: GRDB.Row, _ origin: TransactionOrigin, _ changes: NetChanges, _ key: FootprintKey, _ name: String?,
        _ decisions: UserDecisions = UserDecisions(), _ journal: [JournalEntry] = [], isSerializable: Bool = false
    ) throws -> Outbox.Draft? {
        let id: Data = try row.value("id")
        guard let id = TransactionID(bytes: id) else { throw Corruption("\(OwnTables.transactions).id") }
        let info = try TransactionInfo(
            id: id, time: HybridTime(milliseconds: row.value("time"), counter: row.value("time_counter")),
            author: row.value("author"), replicaName: name, contextName: row.value("context"),
            origin: origin.inLog ?? .local)
        var builder = BodyBuilder(info, key: key, parts: Outbox.PartWriter(db, limits: limits))
        builder.decide(decisions)
        let number: Int64 = try row.number("number")
        if isSerializable {
            let ids = try SerializableTable(db).tables(of: number)
            let read = ids.map { ids in tables.entries.filter { ids.contains($0.id) }.map(\.rules) }
            // A table that was changed or dropped since has another id, or none.
            builder.serialize(reading: read?.count == ids?.count ? read : nil)
        }
        var highest: [String: Int64] = [:]
        let oldest = origin == .external ? try oldestAge(number, info.time) : 0
        try changes.forEach(in: number) { table, row in
            guard let change = RowChange(old: row.old, new: row.new, key: table.definition.primaryKey) else { return }
            if case .insert(let new) = change, let columnIndex = table.definition.rowidAlias, let key = new[columnIndex].integer {
                highest[table.first.name] = max(highest[table.first.name] ?? 0, key)
            }
            builder.beginTable(table.id)
            try builder.add(
                change, mark: nil, old: row.old, new: row.new, leftOut: row.leftOut, age: min(row.age(at: info.time), oldest),
                rules: table.rules)
        }
        try HighestKeys.save(db, highest)
        try builder.journal(journal)
        return try builder.isEmpty ? nil : builder.finish()
    }
}
