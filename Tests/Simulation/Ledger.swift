import AnnalsCore

/// What the programs of the world wrote, transaction by transaction: against this the log is held.
struct Ledger {
    /// One transaction that a replica committed.
    struct Intent: Sendable {
        var id: TransactionID
        var replica: String
        var number: Int64
        /// What was different afterwards.
        var differences: [Difference]
        /// A rebase left nothing of it, and no conflict that the journal could tell of.
        var isGone = false
    }

    private(set) var intents: [TransactionID: Intent] = [:]

    mutating func add(_ intent: Intent) throws(Violation) {
        guard intents.updateValue(intent, forKey: intent.id) == nil else {
            throw Violation("law 7", "\(intent.replica) has two transactions \(intent.id)")
        }
    }

    mutating func noteGone(_ id: TransactionID) {
        intents[id]?.isGone = true
    }

    /// Every entry of the log is one whole transaction of its replica, or what is left of it (law 6).
    func check(_ entry: Oracle.Entry) throws(Violation) {
        guard intents[entry.info.id] != nil else {
            throw Violation("law 6", "position \(entry.position) holds transaction \(entry.info.id), which nobody committed")
        }
    }
}
