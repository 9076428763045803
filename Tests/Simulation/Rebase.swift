import AnnalsCore

/// One rebase as it looks from outside: the unsent transactions before and after, and what was pulled between.
struct Rebase {
    /// An unsent transaction, and what the rebase made of it.
    struct Rewrite {
        var before: DecodedBody
        /// nil when nothing is left of it.
        var after: DecodedBody?
        /// Whether `before` is what stood in the outbox. What got there in the same step that rebased it was not seen
        /// there; then only the rows that its program changed are known, and not which of them moved.
        var isExact = true

        var text: String {
            let (old, new) = (before.changes.map(\.text), changes.map(\.text))
            let what = old == new ? "\(old) stays" : "\(old) becomes \(new)"
            return journal.isEmpty ? what : "\(what), journal \(journal.map { "\($0.kind) \($0.table) \($0.columns) \($0.winner)" })"
        }

        /// What the rebase did with it, as changes.
        var changes: [Change] { after?.changes ?? [] }

        /// The conflicts that this rebase settled.
        var journal: [JournalEntry] {
            var known = before.journal
            return (after?.journal ?? []).filter { entry in
                guard let place = known.firstIndex(of: entry) else { return true }
                known.remove(at: place)
                return false
            }
        }
    }

    var replica: ReplicaID
    /// In local order.
    var rewrites: [Rewrite]
    /// Others' entries that were taken in.
    var pulled: [Oracle.Entry]
    /// The rows under the outbox: the log and own entries ahead.
    var start: Rows
}

extension World {
    /// What became of the outbox between two looks; nil when nothing was pulled.
    func rebase(_ replica: Replica, _ before: Look, _ now: Look) throws(Violation) -> Rebase? {
        guard now.position > before.position else { return nil }
        let pulled = (before.position..<now.position).map { oracle.entry(at: $0 + 1) }.filter { $0.replica != replica.id }
        guard !pulled.isEmpty else { return nil }
        var start = oracle.rows(at: now.position)
        for position in now.ahead { try start.apply(oracle.entry(at: position).changes, plan.schema) }
        let after = Dictionary(now.outbox.map { ($0.id, $0.decoded) }, uniquingKeysWith: { $1 })
        let unsent = before.outbox.filter { oracle.position(of: $0.id) == nil }
        var rewrites = unsent.map { Rebase.Rewrite(before: $0.decoded, after: after[$0.id]) }
        for intent in ledger.intents(of: replica.name, in: before.outboxed..<now.outboxed) where oracle.position(of: intent.id) == nil {
            rewrites.append(Rebase.Rewrite(before: intent.body, after: after[intent.id], isExact: false))
        }
        return Rebase(replica: replica.id, rewrites: rewrites, pulled: pulled, start: start)
    }
}
