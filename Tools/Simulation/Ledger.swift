import AnnalsCore

/// The transactions that the world's programs wrote. The log is compared with them.
struct Ledger {
    /// One transaction that a replica committed.
    struct Intent: Sendable {
        var id: TransactionID
        var replica: String
        var number: Int64
        var time: HybridTime
        /// The rows that differ afterwards.
        var differences: [Difference]
        /// Whether a rebase dropped the whole transaction, without a conflict in the journal.
        var isGone = false

        /// Tables with new keys and with removed or changed rows: here a row may have moved.
        var blurredTables: Set<String> {
            let grown = Set(differences.filter { $0.old == nil }.map(\.table))
            return grown.intersection(differences.filter { $0.old != nil }.map(\.table))
        }

        /// Its changes, as far as the differences show them. A new row is left out if it may be a moved row.
        var body: DecodedBody {
            let blurred = blurredTables
            var changes: [Change] = []
            for difference in differences {
                if difference.old == nil, blurred.contains(difference.table) { continue }
                if let change = Change(difference) { changes.append(change) }
            }
            return DecodedBody(info: TransactionInfo(id: id, time: time), changes: changes, journal: [])
        }
    }

    private(set) var intents: [TransactionID: Intent] = [:]
    /// Replicas that began as copies of other files, with the newest transaction that both have.
    private var copies: [String: (source: String, number: Int64)] = [:]

    mutating func noteCopy(_ copy: String, of source: String, through number: Int64) {
        copies[copy] = (source, number)
    }

    mutating func add(_ intent: Intent) throws(Violation) {
        guard intents.updateValue(intent, forKey: intent.id) == nil else {
            throw Violation("law 7", "\(intent.replica) has two transactions \(intent.id)")
        }
    }

    /// A replica's transactions with numbers after the start of the range, up to its end.
    func intents(of replica: String, in numbers: Range<Int64>) -> [Intent] {
        if numbers.isEmpty { return [] }
        var inherited: [Intent] = []
        if let (source, number) = copies[replica], numbers.lowerBound < number {
            inherited = intents(of: source, in: numbers.lowerBound..<min(number, numbers.upperBound))
        }
        let own = intents.values.filter { $0.replica == replica && $0.number > numbers.lowerBound && $0.number <= numbers.upperBound }
        return inherited + own.sorted { $0.number < $1.number }
    }

    mutating func noteGone(_ id: TransactionID) {
        intents[id]?.isGone = true
    }

    /// Every entry of the log is one whole transaction of its replica, or what a rebase kept of it (law 6).
    func check(_ entry: Oracle.Entry) throws(Violation) {
        // A store makes a schema entry of its own.
        if entry.hasSchema, entry.changes.isEmpty { return }
        guard intents[entry.info.id] != nil else {
            throw Violation("law 6", "position \(entry.position) holds transaction \(entry.info.id), which nobody committed")
        }
    }
}
