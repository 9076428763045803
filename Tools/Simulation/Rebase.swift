import AnnalsCore
import AnnalsHistory
import AnnalsStore

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
        /// Tables of which it is not known what moved.
        var blurredTables: Set<String> = []

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
    /// Own work that is among the pulled entries, because another copy of the file pushed it: what it was here.
    var known: [TransactionID: DecodedBody] = [:]
    /// Those by which it was settled.
    var policies = PolicyBook()
}

extension SimulatedSpace {
    /// What became of the outbox between two looks; nil when nothing was pulled.
    func rebase(_ replica: Replica, _ before: Look, _ now: Look) throws(Violation) -> Rebase? {
        let oracle = log(of: replica)
        let passed = (before.position..<max(before.position, now.position)).map { oracle.entry(at: $0 + 1) }
        // What the relay said is this file's own was in its rows before.
        var pulled = passed.filter { $0.isWhole && !replica.accepted.contains($0.position) }
        guard !pulled.isEmpty || before.unsettled || hasSettled(replica, now) else { return nil }
        var start = oracle.rows(at: now.position)
        for position in now.ahead { try start.apply(oracle.entry(at: position).changes, plan.schema) }
        let isBack = cameBack(replica, before, now)
        if isBack { pulled = try [difference(passed, from: rowsBelowOutbox(before, oracle), to: start)] }
        let after = Dictionary(now.outbox.map { ($0.id, $0.decoded) }, uniquingKeysWith: { $1 })
        // A copy of the file may have sent one already; until that is pulled it waits here too. Whoever takes a snapshot
        // instead does not learn of it, and lays all that waited on top.
        func isUnsent(_ id: TransactionID) -> Bool {
            isBack || oracle.position(of: id).map { $0 > now.position && !now.ahead.contains($0) } ?? true
        }
        let unsent = before.outbox.filter { isUnsent($0.id) }
        var rewrites = unsent.map { Rebase.Rewrite(before: $0.decoded, after: after[$0.id]) }
        for intent in ledger.intents(of: replica.name, in: before.outboxed..<now.outboxed) where isUnsent(intent.id) {
            rewrites.append(
                Rebase.Rewrite(
                    before: intent.body, after: after[intent.id], isExact: false, blurredTables: intent.blurredTables))
        }
        let known =
            isBack ? [] : before.outbox.filter { row in pulled.contains { $0.info.id == row.id } }.map { ($0.id, $0.decoded) }
        return Rebase(
            replica: replica.id, rewrites: rewrites, pulled: pulled, start: start,
            known: Dictionary(known, uniquingKeysWith: { $1 }), policies: policies(replica, before, pulled: pulled))
    }

    /// The log at a replica's position, and its own entries beyond it.
    private func rowsBelowOutbox(_ look: Look, _ oracle: Oracle) throws(Violation) -> Rows {
        var rows = oracle.rows(at: look.position)
        for position in look.ahead { try rows.apply(oracle.entry(at: position).changes, plan.schema) }
        return rows
    }

    /// All that a snapshot has otherwise, as one entry of nobody in particular; row by row, since it does not tell who moved.
    private func difference(_ passed: [Oracle.Entry], from before: Rows, to after: Rows) -> Oracle.Entry {
        var entry = passed[passed.count - 1]
        entry.isSnapshot = true
        entry.changes = before.differences(to: after).compactMap { Change($0) }
        entry.journal = []
        entry.policies = passed.flatMap(\.policies)
        return entry
    }

    /// Whether strangers' writes were sealed that left children without parents.
    private func hasSettled(_ replica: Replica, _ now: Look) -> Bool {
        now.recorded.contains { $0.origin == TransactionOrigin.external.rawValue }
            && now.recorded.contains { $0.origin == TransactionOrigin.rebase.rawValue }
    }

    /// What was in force before, and over it what the page brings.
    private func policies(_ replica: Replica, _ before: Look, pulled: [Oracle.Entry]) -> PolicyBook {
        var book = PolicyBook()
        let oracle = log(of: replica)
        for position in 0..<before.position { book.set(oracle.entry(at: position + 1).policies) }
        for position in before.ahead { book.set(oracle.entry(at: position).policies) }
        for waiting in before.outbox { book.set(waiting.decoded.policies) }
        for entry in pulled { book.set(entry.policies) }
        book.override(replica.overrides)
        return book
    }
}
