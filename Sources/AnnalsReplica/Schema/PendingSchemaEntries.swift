package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import Foundation
package import GRDB

/// The outbox transactions that concern the schema.
package enum PendingSchemaEntries {
    package enum Kind: Int {
        /// The rows of a migration that only added what the space has already. They are not sent, and are undone when deferred cells
        /// are written to the rows.
        case own = 0
        /// It carries additions to the space's schema.
        case schema = 1
        /// The rows of the migration that made these additions. If another replica makes the same additions first, they are dropped.
        case rows = 2
        /// It adds constraints to tables of the space; see `SchemaAdditions.tightened`. It stays after all older work.
        case constraints = 3
    }

    package static let schema = """
        CREATE TABLE IF NOT EXISTS annals_schema_offers (id BLOB PRIMARY KEY, kind INTEGER NOT NULL, entry BLOB) WITHOUT ROWID;
        """

    /// - Parameter entry: For rows, the transaction that carries the additions.
    package static func note(_ db: Database, _ id: TransactionID, _ kind: Kind, of entry: TransactionID? = nil) throws {
        try MissingSchema.createTables(db)
        try db.execute(
            sql: "INSERT OR REPLACE INTO annals_schema_offers (id, kind, entry) VALUES (?, ?, ?)",
            arguments: [Data(id.bytes), kind.rawValue, entry.map { Data($0.bytes) }])
    }

    /// The rows that a migration wrote together with the additions of this transaction.
    package static func rows(_ db: Database, of entry: TransactionID) throws -> [TransactionID] {
        let sql = "SELECT id FROM annals_schema_offers WHERE kind = ? AND entry = ?"
        return try Data.fetchAll(db, sql: sql, arguments: [Kind.rows.rawValue, Data(entry.bytes)]).compactMap { TransactionID(bytes: $0) }
    }

    /// Moves the transactions with additions before all others. Older transactions are then repeated on the new columns. No push may be
    /// under way.
    static func moveFirst(_ db: Database) throws {
        for sequence in try sequences(db, .schema).reversed() {
            let first = try Outbox.first(db) ?? 0
            guard first > .min else { throw Corruption("\(OwnTables.outbox).sequence") }
            try Outbox.move(db, sequence, to: first - 1)
        }
    }

    /// Removes entries with constraints if `isCurrent` is false for one, or if later work follows them: it may violate them, if the store
    /// did not have the constraints meanwhile. Entries of a push under way stay.
    static func dropConstraints(_ db: Database, unless isCurrent: (SchemaEntry) throws -> Bool) throws {
        let sequences = try sequences(db, .constraints)
        guard !sequences.isEmpty, try !Push.isUnderWay(db) else { return }
        let rows = try sequences.compactMap { try Outbox.row(db, sequence: $0) }
        let isLast = try Set(Outbox.sequencesFromNewest(db).prefix(sequences.count)) == Set(sequences)
        let areCurrent = try rows.allSatisfy { row in
            try Outbox.content(db, of: row, layouts: [:]).rest({ _, _ in }).schema.map(isCurrent) ?? false
        }
        guard !isLast || !areCurrent else { return }
        for row in rows {
            try Outbox.delete(db, sequence: row.sequence)
            try forget(db, row.id)
        }
    }

    package static func forget(_ db: Database, _ id: TransactionID) throws {
        guard try db.tableExists("annals_schema_offers") else { return }
        try db.execute(sql: "DELETE FROM annals_schema_offers WHERE id = ?", arguments: [Data(id.bytes)])
    }

    package static func isNoted(_ db: Database, _ id: TransactionID) throws -> Bool {
        let statement = try db.cachedStatement(sql: "SELECT EXISTS(SELECT 1 FROM annals_schema_offers WHERE id = ?)")
        return try Bool.fetchOne(statement, arguments: [Data(id.bytes)]) ?? false
    }

    package static func own(_ db: Database) throws -> Set<TransactionID> {
        guard try db.tableExists("annals_schema_offers") else { return [] }
        let ids = try Data.fetchAll(db, sql: "SELECT id FROM annals_schema_offers WHERE kind = ?", arguments: [Kind.own.rawValue])
        return Set(ids.compactMap { TransactionID(bytes: $0) })
    }

    /// The first outbox transaction of this kind, as its sequence number; nil if there is none.
    package static func first(_ db: Database, _ kind: Kind) throws -> Int64? {
        try sequences(db, kind).first
    }

    /// The sequence numbers of the transactions that carry schema entries.
    static func carriers(_ db: Database) throws -> [Int64] { try sequences(db, .schema) + sequences(db, .constraints) }

    private static func sequences(_ db: Database, _ kind: Kind) throws -> [Int64] {
        guard try db.tableExists("annals_schema_offers") else { return [] }
        return try Outbox.sequences(db, ofIDs: "SELECT id FROM annals_schema_offers WHERE kind = ?", [kind.rawValue])
    }

    /// The schema entries that the outbox holds already.
    package static func entries(_ db: Database) throws -> [SchemaEntry] {
        try carriers(db).compactMap { sequence in
            guard let row = try Outbox.row(db, sequence: sequence) else { return nil }
            return try Outbox.content(db, of: row, layouts: [:]).rest { _, _ in }.schema
        }
    }
}

extension OutboxFiller {
    /// Appends the store's schema additions to the outbox, if neither the space nor the outbox has them. Must be called before new
    /// transactions are moved to the outbox. Added constraints are left out; see `offerConstraints`.
    ///
    /// Returns the transaction that carries them; nil if there are none.
    @discardableResult
    package func offer(_ additions: SchemaAdditions, _ makeInfo: () throws -> TransactionInfo) throws -> TransactionID? {
        var additions = additions
        additions.tightened = []
        guard !additions.isEmpty else { return nil }
        let entry = try entry(of: additions)
        try SpaceRename.remove(additions.renames, db)
        guard let entry else { return nil }
        let info = try append(entry, as: .schema, makeInfo)
        for removal in entry.removals where removal.column == nil { try TrackedTable.noteRemoval(of: removal.table, db) }
        return info.id
    }

    /// Appends the constraints that the store has and the space lacks to the outbox, if the outbox does not have them. Must be called
    /// after all transactions were moved to the outbox. Entries with other declarations than the present ones are removed.
    ///
    /// While the rows are unverified, the outbox lacks changes that may be necessary for the constraints.
    package func offerConstraints(_ tightened: [DeclaredTable], _ makeInfo: () throws -> TransactionInfo) throws {
        try PendingSchemaEntries.dropConstraints(db) { entry in
            let statements = try tightened.filter { entry.redeclares($0.name) }.flatMap {
                [SpaceRemoval(table: $0.name).statement] + (try CanonicalStatements(db, tables).statements(of: $0.name))
            }
            return entry.statements == statements
        }
        guard !tightened.isEmpty, try !UnverifiedRows.isNoted(db) else { return }
        var additions = SchemaAdditions()
        additions.tightened = tightened
        if let entry = try entry(of: additions) { try append(entry, as: .constraints, makeInfo) }
    }

    /// Whether the outbox offers a table or column with another declaration than it has here now, because it was declared again since.
    package func areOffersOutdated() throws -> Bool {
        let pending = try PendingSchemaEntries.entries(db)
        guard !pending.isEmpty, var space = try SpaceSchema.load(db) else { return false }
        do {
            for entry in pending { space.add(try SchemaAdditions(entry, to: space)) }
            _ = try SchemaComparison(tables, space, missingSchema: MissingSchema.load(db), renames: SpaceRename.waiting(db))
            return false
        } catch let error as AnnalsError where error.code == .schemaRefused {
            return true
        }
    }

    /// Removes the offers from the outbox, and offers the store's additions as they are declared now.
    package func replaceOffers() throws {
        for sequence in try PendingSchemaEntries.carriers(db) {
            guard let row = try Outbox.row(db, sequence: sequence) else { continue }
            let schema = try Outbox.content(db, of: row, layouts: [:]).rest { _, _ in }.schema
            // Renames are stored to be sent again.
            if let schema { try SpaceRename.add(schema.renames, db) }
            try Outbox.delete(db, sequence: sequence)
            try PendingSchemaEntries.forget(db, row.id)
        }
        try offer(self)
    }

    @discardableResult
    private func append(
        _ entry: SchemaEntry, as kind: PendingSchemaEntries.Kind, _ makeInfo: () throws -> TransactionInfo
    ) throws -> TransactionInfo {
        var space = try SpaceSchema.load(db) ?? SpaceSchema(tables)
        for earlier in try PendingSchemaEntries.entries(db) {
            if let additions = try? SchemaAdditions(earlier, to: space) { space.add(additions) }
        }
        try SchemaAdditions.checkForReceivers(entry, of: space)
        var info = try makeInfo()
        info.replicaName = try replicaName()
        var builder = BodyBuilder(info, key: try footprintKey(), parts: Outbox.PartWriter(db, limits: limits))
        builder.bring(entry)
        try Outbox.append(db, builder.finish())
        try PendingSchemaEntries.note(db, info.id, kind)
        return info
    }

    /// The entry that carries the additions; nil if the pending entries carry all of them.
    package func entry(of additions: SchemaAdditions) throws -> SchemaEntry? {
        let pending = try PendingSchemaEntries.entries(db)
        var missing = additions.missing(in: pending)
        func isPending(_ table: DeclaredTable) throws -> Bool {
            guard let last = pending.last(where: { $0.redeclares(table.name) }) else { return false }
            return try CanonicalStatements(db, tables).statements(of: table.name).allSatisfy(last.statements.contains)
        }
        try missing.relaxed.removeAll(where: isPending)
        try missing.tightened.removeAll(where: isPending)
        guard !missing.isEmpty else { return nil }
        let version = max(try SpaceSchema.version(db), pending.map(\.version).max() ?? 1) + 1
        return try missing.entry(version: version, db, in: tables)
    }
}
