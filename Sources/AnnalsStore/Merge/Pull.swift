import AnnalsCore
import AnnalsMerge
import AnnalsWire
import GRDB

/// Takes in one page of the log, in one SQLite transaction: observers see only the end.
///
/// 1. The outbox is certified against the page as the relay would. Transactions before the first that meets
///    something stay as they are; if none does, the page is applied and that is all.
/// 2. Otherwise the rest of the outbox is undone, newest first, by its old values.
/// 3. The entries are applied verbatim, noting who wrote what.
/// 4. The outbox is laid on top, oldest first; what remains of each transaction replaces it.
struct Pull {
    let db: Database
    let session: MergeSession
    var state: ReplicaState
    /// What this process calls itself in history.
    let process: String
    let layouts: LayoutNames
    let policies: MergePolicies
    /// The store's clock: it passes every time that is taken in.
    var clock: HybridClock
    let now: HybridTime

    /// What a page brought.
    struct Summary: Sendable {
        var transactions = 0
        var changes = 0
        var bytes = 0
        /// Conflicts that this replica settled while laying its outbox on top.
        var conflicts = 0
        var rebased = 0
    }

    mutating func apply(_ page: Page) throws -> Summary {
        var summary = Summary(bytes: page.frames.reduce(0) { $0 + $1.batch.count })
        let entries = try Entries(page, after: state.position)
        let suffix = try outboxToRebase(entries)
        let isRebasing = !suffix.isEmpty
        let notes = isRebasing ? LifeNotes() : nil
        let outbox = try isRebasing ? undo(suffix) : []
        try applyEntries(entries, notes, &summary)
        guard try session.checks.dangling().isEmpty else { throw try danglingError() }
        session.checks.reset()
        if let notes {
            summary.rebased = suffix.count
            summary.conflicts = try layOn(suffix, outbox, lives: notes.lives, relayTime: entries.lastReceipt)
        }
        state.head = max(page.head, state.position)
        try HighestKeys.save(db, session.highestKeys)
        try state.saveProgress(db)
        return summary
    }

    private func danglingError() throws -> MergeError {
        let first = try session.checks.dangling().first
        return .danglingReference(table: first?.child.table ?? "", key: first?.child.key ?? [], parent: "")
    }

    // MARK: Which outbox transactions meet what was pulled

    private func outboxToRebase(_ entries: Entries) throws -> [Outbox.Row] {
        let outbox = try Outbox.footprints(db)
        guard !outbox.isEmpty else { return [] }
        var index = CertificationIndex(maximumHashes: .max / 4, floor: state.position)
        for entry in entries.list where entry.replica != state.replica {
            index.record(entry.footprint, replica: entry.replica, position: entry.position)
        }
        guard let first = outbox.first(where: { index.conflict(of: $0.footprint, base: state.position, replica: state.replica) != nil })
        else { return [] }
        var rows: [Outbox.Row] = []
        try Outbox.forEach(db, from: first.sequence) { row in
            rows.append(row)
            return true
        }
        return rows
    }

    // MARK: Undo

    /// Gives the transactions that were undone, with whole rows where a policy wants them.
    private func undo(_ rows: [Outbox.Row]) throws -> [OutboxTransaction] {
        let mark = session.historyMark()
        var transactions: [OutboxTransaction] = []
        for row in rows.reversed() {
            var transaction = try OutboxTransaction(row, layouts: layouts.all)
            let whole = WholeRows(policies)
            var applier = EntryApplier(session: session, direction: .backward, position: nil)
            if transaction.changes.contains(where: { policies[$0.table].needsWholeRows }) { applier.observe = whole.note }
            try applier.apply(BodyReader(bytes: row.body), layouts: layouts.all)
            transaction.wholeRows = try whole.byChange(of: transaction, session)
            transactions.append(transaction)
        }
        session.checks.reset()
        try recordRebase(since: mark)
        return transactions.reversed()
    }

    private func recordRebase(since mark: [Int64: Int64]) throws {
        let spans = session.spans(since: mark)
        guard !spans.isEmpty else { return }
        let info = TransactionInfo(id: .random(), time: now, author: state.name, contextName: "rebase")
        _ = try Sealing.record(db, spans: spans, info: info, origin: .rebase, process: process, replica: state.replica)
    }

    // MARK: Apply

    private mutating func applyEntries(_ entries: Entries, _ notes: LifeNotes?, _ summary: inout Summary) throws {
        for frame in entries.frames {
            let batch = try Batch.open(frame.frame.batch)
            for index in frame.indices {
                guard let position = frame.frame.position(of: index) else { continue }
                guard position == state.position.next else { throw PullError.outOfOrder(position) }
                if batch.header.replica == state.replica {
                    try passOwn(batch.header.counter(of: index), at: position)
                } else {
                    let changes = try applyEntry(batch, index, frame.frame, position, notes)
                    summary.transactions += 1
                    summary.changes += changes
                }
                state.position = position
            }
        }
    }

    /// An own entry is in the rows already.
    private func passOwn(_ counter: Counter, at position: Position) throws {
        try db.execute(
            sql: "DELETE FROM annals_ahead WHERE counter = ? AND position = ?", arguments: [counter.rawValue, position.rawValue])
        guard db.changesCount == 1 else { throw PullError.foreignUseOfIdentity(position) }
    }

    private mutating func applyEntry(
        _ batch: Batch, _ index: Int, _ frame: LogFrame, _ position: Position, _ notes: LifeNotes?
    ) throws -> Int {
        var reader = try BodyReader(bytes: batch.plain, range: batch.bodyRange(index))
        let mark = session.historyMark()
        let writer = WriteMark(
            time: reader.info.time.clamped(toReceipt: frame.receivedAt), replica: batch.header.replica, position: position)
        var applier = EntryApplier(session: session, direction: .forward, position: position)
        if let notes { applier.observe = notes.note }
        let changes = try applier.apply(reader, layouts: batch.layouts)
        notes?.endEntry(by: writer)
        let journal = try reader.journalEntries()
        let spans = session.spans(since: mark)
        if !spans.isEmpty {
            _ = try Sealing.record(
                db, spans: spans, info: reader.info, origin: .imported, process: process, replica: batch.header.replica, position: position)
        }
        clock.observe(writer.time)
        try ConflictJournal.append(
            db, journal, transaction: reader.info, replica: batch.header.replica, position: position, receivedAt: frame.receivedAt)
        return changes
    }

    // MARK: Lay on

    private func layOn(_ rows: [Outbox.Row], _ transactions: [OutboxTransaction], lives: Lives, relayTime: Int64) throws -> Int {
        let mark = session.historyMark()
        var highest = try HighestKeys.load(db).merging(session.highestKeys, uniquingKeysWith: max)
        for transaction in transactions { try raise(&highest, by: transaction) }
        let layOn = LayOn(
            session: session, lives: lives, policies: policies, replica: state.replica, relayTime: relayTime, highestKeys: highest)
        var conflicts = 0
        for (row, transaction) in zip(rows, transactions) {
            let laid = try layOn.lay(transaction)
            conflicts += laid.conflicts
            let rewritten = BodyBuilder.rewritten(row, transaction.info, laid, order: session.tableOrder)
            if let rewritten { try Outbox.rewrite(db, rewritten) } else { try Outbox.delete(db, sequence: row.sequence) }
        }
        try recordRebase(since: mark)
        return conflicts
    }

    private func raise(_ highest: inout [String: Int64], by transaction: OutboxTransaction) throws {
        for change in transaction.changes {
            let table = try session.table(named: change.table)
            guard let place = table.definition.rowidAlias else { continue }
            var key: Int64?
            switch change.change {
            case .insert(let row): key = row[place].integer
            case .update(_, let columns): key = columns.first { $0.column == place }?.new.integer
            case .delete: continue
            }
            if let key { highest[table.name] = max(highest[table.name] ?? 0, key) }
        }
    }
}

/// Why a page cannot be taken in. The store stays as it was.
enum PullError: Error {
    case outOfOrder(Position)
    /// The log holds an entry of this replica's identity that it never sent: the file is a copy or a restored backup.
    case foreignUseOfIdentity(Position)
    case pushUnderWay
}
