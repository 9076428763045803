import AnnalsHistory
import AnnalsStore

/// Prints what a purge dropped.
enum PurgePrint {
    /// The store's rule after `--remember`, and the rule before.
    struct Rule: Sendable {
        let now: String
        let before: String
        /// Whether the rule before had been set.
        let wasSet: Bool

        init(now: HistoryRetention, _ replaced: (before: HistoryRetention, wasSet: Bool)) {
            self.now = StatusPrint.retention(now)
            before = StatusPrint.retention(replaced.before)
            wasSet = replaced.wasSet
        }

        var line: String {
            guard wasSet else { return "the store's rule is now to keep \(now); it replaces the default, to keep \(before)" }
            return now == before
                ? "the store's rule is to keep \(now), as before"
                : "the store's rule is now to keep \(now); it replaces the rule to keep \(before)"
        }
    }

    /// About options that applied to one purge of a store with a rule of its own.
    static func once(_ rule: HistoryRetention) -> String {
        "the options applied only to this purge; the store's rule is still to keep \(StatusPrint.retention(rule)), and --remember replaces it"
    }

    /// With `--remember`, `rule` is the store's rule, and `replacedRule` is the rule that was set before; null if none was, or the same.
    static func json(_ store: String, _ result: PurgeResult, isDryRun: Bool, vacuumed: Int64?, _ rule: Rule?) -> JSON {
        .object([
            "store": .text(store), "dryRun": .bool(isDryRun), "transactions": .integer(result.transactions),
            "changes": .integer(result.changes), "bytes": .integer(result.bytes), "conflicts": .integer(result.conflicts),
            "oldestToken": .text(result.oldest.description), "heldBackBy": .array(result.heldBackBy.map { .text($0.name) }),
            "stranded": .array(result.stranded.map { .text($0.name) }), "vacuumedBytes": vacuumed.map { .integer($0) } ?? .null,
            "rule": .text(rule?.now),
            "replacedRule": .text(rule.flatMap { $0.wasSet && $0.before != $0.now ? $0.before : nil }),
        ])
    }

    static func lines(_ store: String, _ result: PurgeResult, isDryRun: Bool, vacuumed: Int64?) -> [String] {
        var lines: [String] = []
        let what = "\(Count.of(result.transactions, "transaction")) with \(Count.of(result.changes, "change"))"
        if result.transactions == 0 {
            lines.append("\(store): \(isDryRun ? "nothing would be dropped" : "nothing to drop"), history begins at \(result.oldest)")
        } else if isDryRun {
            lines.append("\(store): would drop \(what), about \(ByteCount.text(result.bytes)); history would begin at \(result.oldest)")
        } else {
            // Space smaller than a page is free as well, but SQLite's list of free pages does not count it.
            let freed = result.bytes > 0 ? "; \(ByteCount.text(result.bytes)) of the file are free for new rows" : ""
            lines.append("\(store): dropped \(what)\(freed); history begins at \(result.oldest)")
        }
        if result.conflicts > 0 {
            let lost = Count.of(result.conflicts, "line")
            lines.append("\(lost) of the conflict journal \(isDryRun ? "would be dropped" : "dropped")")
        }
        if !result.heldBackBy.isEmpty {
            let readers = result.heldBackBy.filter { $0 != HistoryConsumer.push }
            if !readers.isEmpty {
                lines.append("older history is kept for \(names(readers)); annals consumers shows how far each has read")
            }
            if readers.count < result.heldBackBy.count {
                lines.append("older history is kept because it was not pushed: run annals sync")
            }
        }
        if !result.stranded.isEmpty {
            lines.append("consumers that \(isDryRun ? "would have to start over" : "must start over"): \(names(result.stranded))")
        }
        if let vacuumed { lines.append("the file is \(ByteCount.text(max(0, vacuumed))) smaller") }
        return lines
    }

    private static func names(_ consumers: [HistoryConsumer]) -> String {
        consumers.map { PrintableText.of($0.name) }.joined(separator: ", ")
    }
}
