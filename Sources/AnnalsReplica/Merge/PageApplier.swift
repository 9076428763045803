package import AnnalsCore
import AnnalsHistory
package import AnnalsMerge
package import AnnalsRows
package import AnnalsSchema
package import AnnalsWire
package import GRDB

/// Applies one page of the log, in one SQLite transaction. Observers see only the result.
///
/// 1. The outbox is certified against the page, as the relay does it. If nothing conflicts, the page is applied, and that is all.
/// 2. Otherwise conflicting transactions, and those that build on them, are undone by their old values, newest first (`RebaseSet`).
/// 3. The entries are applied verbatim, with write marks.
/// 4. The undone transactions are repeated, oldest first. The result of each replaces it in the outbox. A serializable one is withdrawn.
///
/// A transaction in parts is applied with the page that holds its last part. Until then its parts are buffered.
package struct PageApplier {
    package let db: Database
    package let session: MergeSession
    package var state: ReplicaState
    /// The name of this process in history.
    package let process: String
    package let identities: NewIdentities
    package let layouts: LayoutNames
    package let limits: OutboxLimits
    /// Opens pulled batches and keys footprints; nil if the space is not encrypted.
    package let cipher: SpaceCipher?
    /// The program's policies. Before a rebase they are replaced by the policies in force.
    package var policies: MergePolicies
    /// The store's clock. It is moved past the time of each applied entry.
    package var clock: HybridClock
    /// The last replica whose name was stored, with that name.
    var named: (replica: ReplicaID, name: String?)?
    package let now: HybridTime
    /// A rebase repeats the whole outbox, from the first transaction that conflicts.
    package var rebasesAll = false
    /// The results of an earlier attempt to apply the page.
    package var attempt = PageAttempt()
    /// The names of tables here with constraints that the space does not have yet.
    package let stricter: [String]
    let loose: LooseTables
    /// The page was applied only up to an entry that made the rows unverified.
    private(set) var isCutShort = false
    private var delays = Delays()

    package init(
        db: Database, session: MergeSession, state: ReplicaState, process: String, identities: NewIdentities, layouts: LayoutNames,
        limits: OutboxLimits, cipher: SpaceCipher?, policies: MergePolicies, clock: HybridClock, now: HybridTime, rebasesAll: Bool = false,
        attempt: PageAttempt = PageAttempt(), stricter: [String] = []
    ) {
        self.db = db
        self.session = session
        self.state = state
        self.process = process
        self.identities = identities
        self.layouts = layouts
        self.limits = limits
        self.cipher = cipher
        self.policies = policies
        self.clock = clock
        self.now = now
        self.rebasesAll = rebasesAll
        self.attempt = attempt
        self.stricter = stricter
        loose = LooseTables(db)
    }

    /// The result of applying a page.
    package struct Summary: Sendable {
        package var transactions = 0
        package var changes = 0
        package var bytes = 0
        /// Conflicts that this replica settled when it got tables and columns for deferred cells.
        package var conflicts = 0
        package var journal = JournalGrowth()
        package var rebased = 0
        /// From the time of each transaction of another replica until now, by the clocks of both.
        package var delays = Delays()
    }

    package mutating func apply(_ page: Page) throws -> Summary {
        var summary = Summary(bytes: page.frames.reduce(0) { $0 + $1.batch.count })
        let ahead = try Outbox.ahead(db)
        let kept = try BufferedParts.last(db, inLogUpTo: page.head)
        let digests = try Outbox.digestsAhead(db)
        let entries = try naming(page) {
            try Entries($0, after: state.position, kept: kept, ahead: ahead, digests: digests, state, AuthorChains(db))
        }
        if entries.authors.contains(where: { $0.replica == state.replica && !ahead.contains($0.position) }) {
            try takeNewIdentity()
        }
        try PendingSchemaEntries.moveFirst(db)
        let choice = try naming(entries) { pull in try pull.outboxToRebase(entries, ahead) }
        if choice.leavesSome {
            try db.inSavepoint {
                try take(entries, ahead, choice, relayTime: page.relayTime, &summary)
                return .commit
            }
        } else {
            try take(entries, ahead, choice, relayTime: page.relayTime, &summary)
        }
        if !isCutShort { try keepUnfinished(entries) }
        while let entry = try Outbox.pass(db, state.position.next) { state.pass(entry.digest) }
        // A page that is not the last one may come from a cache, with an old head.
        state.head = max(page.head, state.position, page.isLast ? .zero : state.head)
        // The whole log was searched for transactions of another copy of the file.
        if page.isLast, state.position == state.head { try Meta(db).set(.isCopy, nil) }
        try session.untrackedChildren.settle()
        try HighestKeys.save(db, session.highestKeys)
        try entries.saveAuthors(db, through: state.position, own: state.replica)
        try state.saveProgress(db)
        summary.delays = delays
        return summary
    }

    /// Undoes, applies and repeats.
    private mutating func take(
        _ entries: Entries, _ ahead: Set<Position>, _ choice: RebaseSet, relayTime: Int64?, _ summary: inout Summary
    ) throws {
        let notes = choice.rows.isEmpty ? nil : RowIdentityRecorder()
        if notes != nil || attempt.undoesOutbox { try loosen() }
        let outbox = try undo(choice)
        notes?.duplicates = DuplicateTransactions(outbox)
        let schema = try SpaceSchema.version(db)
        let known = try naming(entries) { pull in
            let known = try pull.applyEntries(entries, ahead, notes, &summary)
            guard try pull.session.checks.dangling().isEmpty else { throw try pull.danglingError() }
            return known
        }
        session.checks.position = nil
        session.checks.reset()
        if choice.leavesSome, try isCutShort || SpaceSchema.version(db) != schema { throw ApplyError.partialRebaseInvalid }
        guard let notes else { return try endLooseStates() }
        summary.rebased = choice.rows.count
        try rebase(choice, outbox, known: known, notes, relayTime: max(entries.lastReceipt, relayTime ?? 0))
        summary.journal += JournalGrowth(replaced: notes.replaced.count)
    }

    // MARK: Conflicts of the outbox with the page

    /// If there is something to rebase, policies and references are those in force after the page from here on.
    private mutating func outboxToRebase(_ entries: Entries, _ ahead: Set<Position>) throws -> RebaseSet {
        let outbox = try Outbox.footprints(db)
        guard !outbox.isEmpty else { return .none }
        var index = CertificationIndex(maximumHashes: .max / 4, floor: state.position)
        for entry in entries.list where !ahead.contains(entry.position) {
            index.record(entry.footprint, replica: entry.replica, position: entry.position)
        }
        func isConflicting(_ footprint: Footprint) -> Bool {
            index.conflict(of: footprint, base: state.position, replica: state.replica) != nil
        }
        if attempt.undoesOutbox, let first = outbox.first {
            try takeRules(after: entries)
            return try .all(db, from: first.sequence)
        }
        let (conflicting, unsettled) = (outbox.first { isConflicting($0.footprint) }?.sequence, try UnsettledReferences.first(db))
        guard let first = [conflicting, unsettled].compactMap({ $0 }).min() else { return .none }
        try takeRules(after: entries)
        guard try unsettled == nil && mayLeaveSome(entries) else { return try .all(db, from: first) }
        // What a serializable transaction read is not the same any more if one before it is repeated.
        if let serializable = try Outbox.serializable(db), serializable >= first { return try .all(db, from: first) }
        return try .needed(db, from: first, isConflicting: isConflicting)
    }

    /// Whether footprints show all conflicts, so that some transactions can stay. They do not if a policy settles whole rows, if
    /// the schema or this replica's identity may have changed, or if entries were voided.
    private func mayLeaveSome(_ entries: Entries) throws -> Bool {
        guard !rebasesAll, stricter.isEmpty, session.kept == nil else { return false }
        guard try SpaceSchema.version(db) <= 1, try Meta(db).integer(.isCopy) == nil else { return false }
        guard !entries.list.contains(where: { $0.footprint.everything }) else { return false }
        let isVoided = entries.sources.contains { if case .voided = $0 { true } else { false } }
        return !isVoided && session.registry.entries.allSatisfy { policies[$0.definition.name].row == nil }
    }

    /// The policies and references after the page is applied. They settle everything while the page is applied.
    ///
    /// The rebase must know before it applies anything whether it needs whole rows, and which rows refer to which. So those in the page
    /// are read first. The footprint of their transaction conflicts with everything.
    private mutating func takeRules(after entries: Entries) throws {
        let positions = Set(entries.list.filter { $0.footprint.everything }.map(\.position))
        for source in entries.sources {
            switch source {
            case .batch(let frame, let indices):
                let indices = indices.filter { frame.position(of: $0).map(positions.contains) ?? false }
                guard !indices.isEmpty else { continue }
                let batch = try SealedEntry.open(frame.batch, at: frame.firstPosition, state, cipher)
                for index in indices {
                    var reader = try batch.body(index)
                    try UserDecisions(reader.rest()).applyRules(db)
                }
            case .parts(let parts) where positions.contains(parts.last):
                try UserDecisions(PulledParts(db, parts, state, cipher).content.rest { _, _ in }).applyRules(db)
            case .parts, .ownPart, .voided: break
            }
        }
        policies = try MergePolicies(PolicyTable.load(db, for: session.registry), over: policies)
        try session.takeReferences()
    }

    // MARK: Undo

    /// Returns the undone transactions, with whole rows if a policy needs them.
    package func undo(_ choice: RebaseSet) throws -> [OutboxTransaction] {
        let mark = session.historyMark()
        var transactions: [OutboxTransaction] = []
        for row in choice.rows.reversed() {
            let content = try Outbox.content(db, of: row, layouts: layouts.all)
            var transaction = try OutboxTransaction(row, content, session)
            for change in transaction.changes {
                if let name = policies.missingResolver(of: change.table) { throw ApplyError.missingResolver(name, table: change.table) }
            }
            let whole = WholeRows(policies)
            var applier = EntryApplier(session: session, direction: .backward, position: nil)
            if transaction.changes.contains(where: { policies[$0.table].needsWholeRows }) { applier.observe = whole.note }
            try applier.apply(content)
            transaction.wholeRows = try whole.byChange(of: transaction, session)
            transactions.append(transaction)
        }
        // An undone transaction had removed a row. A transaction that stays later removed the parent of that row.
        if choice.leavesSome, try !session.checks.dangling().isEmpty { throw ApplyError.partialRebaseInvalid }
        session.checks.reset()
        try recordRebase(since: mark)
        return transactions.reversed()
    }

    private func recordRebase(since mark: [Int64: Int64], _ renamed: [RenumberedRows.Renaming] = [], author: String? = nil) throws {
        let spans = session.spans(since: mark)
        guard !spans.isEmpty else { return }
        let info = TransactionInfo(id: identities.next(), time: now, author: author, contextName: "rebase")
        let number = try TransactionRecorder.record(db, spans: spans, info: info, origin: .rebase, process: process, replica: state.replica)
        try RenumberedRows.note(db, renamed, in: number)
        session.untrackedChildren.follow(renamed)
    }

    // MARK: Apply

    /// Returns the ids of the applied transactions. If one of them is also in the outbox, another copy of this file pushed it. Its
    /// footprint holds the id, so the outbox was undone from there on (merge rule 39).
    private mutating func applyEntries(
        _ entries: Entries, _ ahead: Set<Position>, _ notes: RowIdentityRecorder?, _ summary: inout Summary
    ) throws -> Set<TransactionID> {
        var applied: Set<TransactionID> = []
        var isDoubtful = false
        func take(
            _ content: TransactionParts, _ header: BatchHeader, _ footprint: Footprint, _ frame: LogFrame, _ position: Position
        ) throws {
            if header.keyID != 0 { state.sealedUnder = header.keyID }
            if header.replica == .relay { isDoubtful = try !explainVoids(content) }
            let bringsSchema = try takeSchema(of: content, footprint, at: position)
            let (changes, journal, id) = try applyEntry(
                content, header.replica, footprint, receivedAt: frame.receivedAt, position, notes, bringsSchema: bringsSchema)
            summary.transactions += 1
            summary.changes += changes
            summary.journal += journal
            if notes != nil { applied.insert(id) }
        }
        for source in entries.sources {
            switch source {
            case .ownPart(let position, let digest):
                try expect(position)
                try passOwn(position, digest)
            case .voided(let frame, let indices, let first, let digests):
                try RecentLog(db, limits).keep(frame, indices, after: state.logDigest)
                for (offset, digest) in digests.enumerated() {
                    let position = first.advanced(by: offset)
                    try expect(position)
                    try passVoided(VoidedEntry(position: position, digest: digest), isOwn: ahead.contains(position))
                }
            case .parts(let parts):
                guard let frame = parts.frames.last else { continue }
                try expect(parts.first)
                let pulled = PulledParts(db, parts, state, cipher)
                let header = try BatchHeader.parse(frame.batch)
                try compareSeen(header, frame)
                try keep(parts)
                try take(pulled.content, header, header.certificates[0].footprint, frame, parts.last)
                try BufferedParts.clear(db)
                for digest in pulled.digests { state.pass(digest) }
            case .batch(let frame, let indices):
                let batch = try SealedEntry.open(frame.batch, at: frame.firstPosition, state, cipher)
                try compareSeen(batch.header, frame)
                if let first = frame.position(of: indices.lowerBound), !ahead.contains(first) {
                    try RecentLog(db, limits).keep(frame, indices, after: state.logDigest)
                }
                for index in indices {
                    guard let position = frame.position(of: index) else { continue }
                    try expect(position)
                    let (digest, footprint) = (batch.header.certificates[index].digest, batch.header.certificates[index].footprint)
                    if ahead.contains(position) {
                        try passOwn(position, digest)
                    } else {
                        let content = TransactionParts(try batch.body(index), layouts: batch.layouts)
                        try take(content, batch.header, footprint, frame, position)
                        state.pass(digest)
                    }
                }
            }
            // The next entries may not fit, because the rows hold a voided entry. The rows must be compared with the log first.
            if isDoubtful {
                try UnverifiedRows.note(db)
                isCutShort = true
                break
            }
        }
        return applied
    }

    private func keep(_ parts: Entries.Parts) throws {
        guard let frame = parts.frames.first else { return }
        try RecentLog(db, limits).keepParts(before: frame.firstPosition, after: state.logDigest)
        for frame in parts.frames {
            try RecentLog(db, limits).keep(frame, 0..<1, after: frame.firstPosition == parts.first ? state.logDigest : nil)
        }
    }

    /// Passes an own entry. The rows hold it already.
    private mutating func passOwn(_ position: Position, _ digest: Digest) throws {
        try Outbox.pass(db, position)
        state.pass(digest)
    }

    /// Passes a voided entry. Its author has it in the rows until the relay's own entry voids it.
    private mutating func passVoided(_ entry: VoidedEntry, isOwn: Bool) throws {
        if isOwn { return try passOwn(entry.position, entry.digest) }
        try PassedVoids.note(db, entry)
        state.pass(entry.digest)
    }

    /// Whether the rows hold none of the entries that the relay voided.
    private func explainVoids(_ content: TransactionParts) throws -> Bool {
        try PassedVoids.explain(db, content.rest { _, _ in }.voids)
    }

    private func expect(_ position: Position) throws {
        guard position == state.position.next else { throw ApplyError.outOfOrder(position) }
    }

    private func keepUnfinished(_ entries: Entries) throws {
        guard let parts = entries.unfinished else { return }
        guard parts.first == state.position.next else { throw ApplyError.outOfOrder(parts.first) }
        for frame in parts.frames { try BufferedParts.keep(db, frame) }
    }

    /// The log has entries under this replica's identity that are not in these rows. So the file is a copy of a replica, or a
    /// restored backup. It becomes a new replica, and those entries belong to another replica.
    private mutating func takeNewIdentity() throws {
        state.take(newIdentity: try identities.key())
        try state.save(db)
        try Meta(db).set(.isCopy, 1)
    }

    private mutating func applyEntry(
        _ content: TransactionParts, _ replica: ReplicaID, _ footprint: Footprint, receivedAt: Int64, _ position: Position,
        _ notes: RowIdentityRecorder?, bringsSchema: Bool
    ) throws -> (changes: Int, journal: JournalGrowth, id: TransactionID) {
        let info = try content.info()
        let mark = session.historyMark()
        let time = info.time.clamped(toReceipt: receivedAt)
        let writer = WriteMark(time: time, replica: replica, position: position, isUndo: info.origin == .undo)
        var applier = EntryApplier(session: session, direction: .forward, position: position)
        session.checks.position = position
        applier.time = time
        if let notes { applier.observe = notes.note }
        let key = cipher?.footprintKey ?? .none
        let claim = replica == .relay ? nil : ClaimedFootprint(footprint, of: info.id, key: key)
        if let claim {
            applier.certify = { [session] table, old, new in
                claim.note(try table.hasher(key) { try session.requiredUniques(of: table) }, old, new)
            }
        }
        func check() throws {
            guard claim?.holds ?? true else { throw WireError.badValue("footprint") }
        }
        let changes: Int
        do {
            changes = try applier.apply(content)
        } catch {
            // A wrong footprint may be the reason why the entry does not fit the rows. It is reported first.
            try check()
            throw error
        }
        try check()
        notes?.endEntry(by: writer)
        let spans = session.spans(since: mark)
        if !spans.isEmpty {
            _ = try TransactionRecorder.record(
                db, spans: spans, info: info, origin: .imported, process: process, replica: replica, position: position)
        }
        if replica != .relay {
            try observe(info, writer)
            delays.add(milliseconds: now.milliseconds - info.time.milliseconds)
        }
        var growth = JournalGrowth()
        var journal: [JournalEntry] = []
        let isKnown = notes?.duplicates.contains(info.id) ?? false
        let rest = try content.rest { entries, first in
            if isKnown { journal += entries }
            growth += try ConflictJournal.append(
                db, entries, from: first, transaction: info, replica: replica, position: position, receivedAt: receivedAt,
                own: state.replica)
        }
        guard rest.voids.isEmpty || replica == .relay else { throw WireError.badValue("void") }
        // They are read ahead only from entries that conflict with everything.
        guard !UserDecisions(rest).concernEverything || footprint.everything else { throw WireError.badValue("footprint") }
        guard rest.schema == nil || bringsSchema else { throw WireError.badValue("schema") }
        for resolution in rest.resolutions { claim?.note(resolution) }
        try check()
        if isKnown { try notes?.noteKnownWork(info.id, journal: journal, session) }
        let replaced = try ConflictJournal.replaced(db, by: rest.resolutions)
        try UserDecisions(rest).apply(db)
        if let notes { notes.note(rest.resolutions, replaced) } else { growth.replaced += replaced.count }
        return (changes, growth, info.id)
    }

    // MARK: Repeat

    /// Returns the number of settled conflicts. `known` are transactions that the space holds already; they are dropped.
    @discardableResult
    package func rebase(
        _ choice: RebaseSet, _ transactions: [OutboxTransaction], known: Set<TransactionID>, _ notes: RowIdentityRecorder, relayTime: Int64
    ) throws -> Int {
        let mark = session.historyMark()
        var highest = try HighestKeys.load(db).merging(session.highestKeys, uniquingKeysWith: max)
        for transaction in transactions { try raise(&highest, by: transaction) }
        let rebase = Rebase(
            session: session, rowIdentities: notes.identities, policies: policies, replica: state.replica, relayTime: relayTime,
            highestKeys: highest
        )
        var own = try PendingSchemaEntries.own(db)
        try tighten(before: nil)
        var conflicts = 0
        var renamed: [RenumberedRows.Renaming] = []
        var authors: Set<String?> = []
        let serializable = try SerializableTable(db).waiting()?.id
        for (row, transaction) in zip(choice.rows, transactions) {
            guard !known.contains(row.id) else {
                notes.duplicates.call(row.id, in: &rebase.context.rowIdentities)
                try Outbox.delete(db, sequence: row.sequence)
                if row.id == serializable { try SerializableTable(db).settle(.merged) }
                continue
            }
            guard row.id != serializable else {
                try Outbox.withdraw(db, row)
                continue
            }
            var transaction = transaction
            if let entry = transaction.schema { try tighten(before: entry) }
            guard try isStillNews(&transaction, rebase, own: &own) else {
                try Outbox.delete(db, sequence: row.sequence)
                try PendingSchemaEntries.forget(db, row.id)
                continue
            }
            let rebased = try rebase.rebase(transaction)
            try transaction.decisions.yield(to: notes, unlessIn: rebased.rows, db)
            try transaction.decisions.apply(db)
            try UnsettledReferences.settled(db, row.id)
            conflicts += rebased.conflicts
            renamed += rebased.renamed
            let parts = try Outbox.PartWriter(db, inPlaceOf: row, limits: limits)
            let rewritten = try BodyBuilder.rewritten(
                transaction, rebased, order: session.tableOrder, key: cipher?.footprintKey ?? .none, parts: parts)
            if choice.leavesSome {
                let staysWithin = rewritten?.footprint.isWithin(row.footprint) ?? true
                guard try staysWithin && transaction.takesAway(allOf: rebased, session) else { throw ApplyError.partialRebaseInvalid }
            }
            if let rewritten {
                authors.insert(transaction.info.author)
                try Outbox.rewrite(db, sequence: row.sequence, rewritten)
            } else {
                try Outbox.delete(db, sequence: row.sequence)
            }
        }
        try recordRebase(since: mark, renamed, author: authors.count == 1 ? authors.removeFirst() : nil)
        try endLooseStates()
        return conflicts
    }

    private func raise(_ highest: inout [String: Int64], by transaction: OutboxTransaction) throws {
        for change in transaction.changes {
            let table = try session.table(named: change.table)
            guard let columnIndex = table.definition.rowidAlias else { continue }
            var key: Int64?
            switch change.change {
            case .insert(let row): key = row[columnIndex].integer
            case .update(_, let columns): key = columns.first { $0.column == columnIndex }?.new.integer
            case .delete: continue
            }
            if let key { highest[table.first.name] = max(highest[table.first.name] ?? 0, key) }
        }
    }
}
