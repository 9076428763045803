package import AnnalsCore
package import AnnalsMerge
import AnnalsRows
package import AnnalsWire

/// Puts net changes into a body and gathers their footprint.
///
/// A large transaction is cut into parts on the way, so that no more than one part of it is in memory.
package struct BodyBuilder {
    private var encoder: BodyEncoder
    private var footprint: FootprintBuilder
    private let info: TransactionInfo
    private let parts: Outbox.PartWriter
    private var table = 0
    private var journalCount = 0
    private var decisions = UserDecisions()
    private var bringsSchema = false

    /// - Parameters:
    ///   - key: keys the footprint's hashes.
    ///   - parts: where all parts but the last go as they are filled.
    package init(_ info: TransactionInfo, key: FootprintKey, parts: Outbox.PartWriter) {
        self.info = info
        self.parts = parts
        encoder = BodyEncoder(info: info)
        footprint = FootprintBuilder(transaction: info.id, key: key)
    }

    package var isEmpty: Bool { encoder.changeCount == 0 && journalCount == 0 && decisions.isEmpty && !bringsSchema }

    /// The transaction tells the space what its schema has more from now on.
    package mutating func bring(_ schema: SchemaEntry) {
        encoder.schema(schema)
        footprint.addSchema()
        bringsSchema = true
    }

    mutating func beginTable(_ layout: Int64) {
        table = Int(layout)
    }

    /// - Parameter leftOut: places of values that neither row holds, and that the change left as they were.
    package mutating func add(
        _ change: RowChange, mark: RowMark?, old: [Value]?, new: [Value]?, leftOut: [Int] = [], rules: FootprintRules
    ) throws {
        try endFullPart()
        encoder.beginTable(table)
        encoder.change(MarkedChange(change, mark: mark))
        footprint.add(rules, old: old, new: new, leftOut: leftOut)
    }

    /// A change of a transaction whose footprint is known.
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
    }

    /// Only when more is to come, so that no part is empty.
    private mutating func endFullPart() throws {
        if parts.isFull(encoder.byteCount) { try parts.write(encoder.finishPart()) }
    }

    mutating func decide(_ decisions: UserDecisions) {
        self.decisions = decisions
        encoder.policies(decisions.policies)
        encoder.resolutions(decisions.resolutions)
    }

    /// - Parameter known: the footprint, where it is known.
    package mutating func finish(touching known: Footprint? = nil) throws -> Outbox.Draft {
        let changes = encoder.changeCount
        let last = try parts.writeLast(encoder.finishInPieces())
        return Outbox.Draft(
            id: info.id, time: info.time, changes: changes, journal: journalCount,
            footprint: decisions.policies.isEmpty ? known ?? footprint.finish() : .everything, parts: parts.count + 1, body: last)
    }

    /// What remains of an outbox transaction after it was laid on top; nil when nothing does.
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
            try builder.add(change, mark: row.mark, old: row.old, new: row.new, rules: row.table.rules)
        }
        try builder.journal(rebased.journal)
        return try builder.isEmpty ? nil : builder.finish()
    }
}
