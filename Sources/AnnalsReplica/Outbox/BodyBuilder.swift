package import AnnalsCore
package import AnnalsMerge
import AnnalsRows
package import AnnalsWire

/// Builds a body from net changes, and its footprint.
///
/// A large transaction is cut into parts while it is built, so that only one part is in memory.
package struct BodyBuilder {
    private var encoder: BodyEncoder
    private var footprint: FootprintBuilder
    private let info: TransactionInfo
    private let parts: Outbox.PartWriter
    private var table = 0
    private var journalCount = 0
    private var conflictCount = 0
    private var decisions = UserDecisions()
    private var schema: SchemaEntry?
    private var dependsOnEverything = false

    /// - Parameters:
    ///   - key: The key of the footprint's hashes.
    ///   - parts: Writes all parts except the last when they are full.
    package init(_ info: TransactionInfo, key: FootprintKey, parts: Outbox.PartWriter) {
        self.info = info
        self.parts = parts
        encoder = BodyEncoder(info: info)
        footprint = FootprintBuilder(transaction: info.id, key: key)
    }

    package var isEmpty: Bool { encoder.changeCount == 0 && journalCount == 0 && decisions.isEmpty && schema == nil }

    /// Adds a schema entry to the transaction.
    package mutating func bring(_ schema: SchemaEntry) {
        encoder.schema(schema)
        footprint.addSchema()
        self.schema = schema
    }

    /// The transaction is serializable; see `SerializableTable`.
    ///
    /// - Parameter tables: the tables that it read; nil if it conflicts with everything.
    mutating func serialize(reading tables: [FootprintRules]?) {
        dependsOnEverything = tables == nil
        for table in tables ?? [] { footprint.addReads(ofAll: table) }
    }

    mutating func beginTable(_ layout: Int64) {
        table = Int(layout)
    }

    /// - Parameters:
    ///   - leftOut: The columns with values that neither row holds and that the change did not touch.
    ///   - age: How long before the transaction's time the row was written last, in milliseconds.
    package mutating func add(
        _ change: RowChange, mark: RowMark?, old: [Value]?, new: [Value]?, leftOut: [Int] = [], age: Int64 = 0, rules: FootprintRules
    ) throws {
        try endFullPart()
        encoder.beginTable(table)
        encoder.change(MarkedChange(change, mark: mark, age: age))
        footprint.add(rules, old: old, new: new, leftOut: leftOut)
    }

    /// Adds a change of a transaction with a known footprint.
    package mutating func copy(_ change: MarkedChange) throws {
        try endFullPart()
        encoder.beginTable(table)
        encoder.change(change)
    }

    package mutating func journal(_ entries: [JournalEntry]) throws {
        for entry in entries {
            try endFullPart()
            try encoder.journal(parts.fitting(entry))
        }
        journalCount += entries.count
        conflictCount += entries.count { $0.kind != .renumber }
    }

    /// To be called only if more data follows, so that no part is empty.
    private mutating func endFullPart() throws {
        if parts.isFull(encoder.byteCount) { try parts.write(encoder.finishPart()) }
    }

    mutating func decide(_ decisions: UserDecisions) {
        self.decisions = decisions
        encoder.policies(decisions.policies)
        encoder.resolutions(decisions.resolutions)
        for resolution in decisions.resolutions { footprint.add(resolution) }
        encoder.references(decisions.references)
    }

    /// - Parameter known: The footprint, if it is known.
    package mutating func finish(touching known: Footprint? = nil) throws -> Outbox.Draft {
        let changes = encoder.changeCount
        let last = try parts.writeLast(encoder.finishInPieces())
        let concernsEverything = dependsOnEverything || decisions.concernEverything || schema?.isBreaking ?? false
        return Outbox.Draft(
            id: info.id, time: info.time, changes: changes, journal: journalCount, conflicts: conflictCount,
            footprint: concernsEverything ? .everything : known ?? footprint.finish(), parts: parts.count + 1, body: last)
    }

    /// The result of rebasing an outbox transaction; nil if nothing is left of it.
    package static func rewritten(
        _ transaction: OutboxTransaction, _ rebased: Rebase.RebasedTransaction, order: [String: Int], key: FootprintKey,
        parts: Outbox.PartWriter
    ) throws -> Outbox.Draft? {
        var builder = BodyBuilder(transaction.info, key: key, parts: parts)
        builder.decide(transaction.decisions)
        if let schema = transaction.schema { builder.bring(schema) }
        for row in rebased.rows.effective(tableOrder: order) {
            guard let change = row.change else { continue }
            builder.beginTable(row.table.layoutID)
            try builder.add(change, mark: row.mark, old: row.old, new: row.new, age: row.age, rules: row.table.rules)
        }
        try builder.journal(rebased.journal)
        return try builder.isEmpty ? nil : builder.finish()
    }
}
