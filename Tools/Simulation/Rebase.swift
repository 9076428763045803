import AnnalsCore
import AnnalsHistory
import AnnalsStore

/// One rebase, as another program can observe it: the unsent transactions before and after it, and the pulled entries.
struct Rebase {
    /// An unsent transaction, and what the rebase made of it.
    struct Rewrite {
        var before: DecodedBody
        /// nil if the rebase dropped all of it.
        var after: DecodedBody?
        /// Whether `before` was in the outbox. If a transaction was moved to the outbox and rebased in the same step, no look found it
        /// in the outbox. Then it is known which rows its program changed, but not which of them moved.
        var isExact = true
        /// Tables in which it is unknown which rows moved.
        var blurredTables: Set<String> = []

        var text: String {
            let (old, new) = (before.changes.map(\.text), changes.map(\.text))
            let what = old == new ? "\(old) stays" : "\(old) becomes \(new)"
            return journal.isEmpty ? what : "\(what), journal \(journal.map { "\($0.kind) \($0.table) \($0.columns) \($0.winner)" })"
        }

        /// The changes of the transaction after the rebase.
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
    /// Entries of others that were applied.
    var pulled: [Oracle.Entry]
    /// The rows without the outbox: the log and own entries ahead.
    var start: Rows
    /// Own transactions among the pulled entries, because another copy of the file pushed them, with their content here.
    var known: [TransactionID: DecodedBody] = [:]
    /// The policies that settled the conflicts.
    var policies = PolicyBook()
}

extension SimulatedSpace {
    /// The rebase between two looks. nil if nothing was pulled.
    func rebase(_ replica: Replica, _ before: Look, _ now: Look) throws(Violation) -> Rebase? {
        let oracle = log(of: replica)
        let passed = (before.position..<max(before.position, now.position)).map { oracle.entry(at: $0 + 1) }
        // Entries that the relay reported as accepted from this file were in its rows before.
        var pulled = passed.filter { $0.isWhole && !replica.accepted.contains($0.position) }
        guard !pulled.isEmpty || before.unsettled || hasSettled(replica, now) else { return nil }
        var start = oracle.rows(at: now.position)
        for position in now.ahead { try start.apply(oracle.entry(at: position).changes, plan.schema) }
        let isBack = cameBack(replica, before, now)
        if isBack { pulled = try [difference(passed, from: rowsBelowOutbox(before, oracle), to: start)] }
        let after = Dictionary(now.outbox.map { ($0.id, $0.decoded) }, uniquingKeysWith: { $1 })
        // A copy of the file may have sent a transaction already; until that is pulled, it is in the outbox here too. A replica
        // that resyncs from a snapshot does not see this, and rebases its whole outbox.
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

    /// The log at a replica's position, with its own entries after it.
    private func rowsBelowOutbox(_ look: Look, _ oracle: Oracle) throws(Violation) -> Rows {
        var rows = oracle.rows(at: look.position)
        for position in look.ahead { try rows.apply(oracle.entry(at: position).changes, plan.schema) }
        return rows
    }

    /// All differences to a snapshot as one entry without a known author, row by row, because it does not show which rows moved.
    private func difference(_ passed: [Oracle.Entry], from before: Rows, to after: Rows) -> Oracle.Entry {
        var entry = passed[passed.count - 1]
        entry.isSnapshot = true
        entry.changes = before.differences(to: after).compactMap { Change($0) }
        entry.journal = []
        entry.policies = passed.flatMap(\.policies)
        return entry
    }

    /// Whether external writes were recorded that left children without parents.
    private func hasSettled(_ replica: Replica, _ now: Look) -> Bool {
        now.recorded.contains { $0.origin == TransactionOrigin.external.rawValue }
            && now.recorded.contains { $0.origin == TransactionOrigin.rebase.rawValue }
    }

    /// The policies before, with those of the pulled page on top.
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
