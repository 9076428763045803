import AnnalsCore
import AnnalsMerge
import AnnalsWire

/// Puts net changes into a body and gathers their footprint.
struct BodyBuilder {
    private var encoder: BodyEncoder
    private var footprint: FootprintBuilder
    private let info: TransactionInfo
    private var layouts: [Int] = []
    private var journalCount = 0
    private var decisions = HumanDecisions()

    init(_ info: TransactionInfo) {
        self.info = info
        encoder = BodyEncoder(info: info)
        footprint = FootprintBuilder(transaction: info.id)
    }

    var isEmpty: Bool { encoder.changeCount == 0 && journalCount == 0 && decisions.isEmpty }

    mutating func beginTable(_ layout: Int64) {
        if layouts.last == Int(layout) { return }
        layouts.append(Int(layout))
        encoder.beginTable(Int(layout))
    }

    mutating func add(_ change: RowChange, mark: RowMark?, old: [Value]?, new: [Value]?, rules: FootprintRules) {
        encoder.change(MarkedChange(change, mark: mark))
        footprint.add(rules, old: old, new: new)
    }

    mutating func journal(_ entries: [JournalEntry]) {
        for entry in entries { encoder.journal(entry) }
        journalCount += entries.count
    }

    mutating func decide(_ decisions: HumanDecisions) {
        self.decisions = decisions
        encoder.policies(decisions.policies)
        encoder.resolutions(decisions.resolutions)
    }

    mutating func finish() -> Outbox.Draft {
        Outbox.Draft(
            id: info.id, time: info.time, changes: encoder.changeCount, journal: journalCount,
            footprint: decisions.policies.isEmpty ? footprint.finish() : .everything,
            body: encoder.finishInPieces())
    }

    /// What remains of an outbox transaction after it was laid on top; nil when nothing does.
    static func rewritten(_ transaction: OutboxTransaction, _ laid: LayOn.Laid, order: [String: Int]) -> Outbox.Draft? {
        var builder = BodyBuilder(transaction.info)
        builder.decide(transaction.decisions)
        for row in laid.rows.effective(tableOrder: order) {
            guard let change = row.change else { continue }
            builder.beginTable(row.table.layoutID)
            builder.add(change, mark: row.mark, old: row.old, new: row.new, rules: row.table.rules)
        }
        builder.journal(laid.journal)
        return builder.isEmpty ? nil : builder.finish()
    }
}
