package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
package import GRDB

/// Where the log that this replica lacks is gone: the rows of a snapshot take the place of the entries that led to them, and
/// the outbox is laid on top (merge rule 37).
extension PageApplier {
    /// What a snapshot brought.
    package struct Returned {
        /// Rows that are otherwise now.
        package var rows = 0
        package var conflicts = 0
        package var rebased = 0
    }

    /// A snapshot's place and stamp.
    package struct SnapshotMark {
        package var position: Position
        package var logDigest: Digest?
        /// The latest time in the log up to there: everything that differs counts as written then.
        package var time: HybridTime
        /// Each author's newest entry up to there.
        package var authors: [ReplicaID: AuthorChains.Link?]
        /// How far the log goes.
        package var head: Position

        package init(
            position: Position, logDigest: Digest? = nil, time: HybridTime, authors: [ReplicaID: AuthorChains.Link?], head: Position
        ) {
            self.position = position
            self.logDigest = logDigest
            self.time = time
            self.authors = authors
            self.head = head
        }
    }

    /// Everything that the snapshot has otherwise is one entry, of nobody in particular, written at the snapshot's stamp: so
    /// the merge is three-way, with the outbox's old values as its base.
    ///
    /// - Parameters:
    ///   - other: a replica with the snapshot's rows, and on top of them this one's entries that the log has after it.
    ///   - isCopy: the space may hold work of this outbox already, through another copy of the file: the same key is the same row.
    package mutating func takeSnapshot(_ other: Database, _ snapshot: SnapshotMark, isCopy: Bool, relayTime: Int64) throws -> Returned {
        var returned = Returned()
        try PendingSchemaEntries.moveFirst(db)
        let choice = try RebaseSet.all(db)
        let notes = choice.rows.isEmpty ? nil : LineageRecorder()
        try ReplicaTables.copyShared(from: other, to: db)
        // The other one may have passed over later entries.
        try AuthorChains.replaceAll(db, with: snapshot.authors)
        try UnconfirmedAuthors.begin(at: snapshot.position, db)
        try RecentLog.clear(db)
        try session.keepLacked(from: other)
        policies = try MergePolicies(PolicyTable.load(db, for: session.registry), over: policies)
        if isCopy { policies.setKeyRule(.mergeRows) }
        let outbox = try undo(choice)
        let mark = session.historyMark()
        returned.rows = try SnapshotRows(session, other, notes).take()
        notes?.endEntry(by: WriteMark(time: snapshot.time, replica: .nobody, position: snapshot.position))
        guard try session.checks.dangling().isEmpty else { throw try danglingError() }
        session.checks.reset()
        let spans = session.spans(since: mark)
        if !spans.isEmpty {
            let info = TransactionInfo(id: identities.next(), time: snapshot.time, contextName: "snapshot", origin: .local)
            _ = try TransactionRecorder.record(
                db, spans: spans, info: info, origin: .imported, process: process, replica: .nobody, position: snapshot.position)
        }
        clock.observe(snapshot.time)
        if let notes { returned.conflicts = try rebase(choice, outbox, known: [], notes, relayTime: relayTime) }
        returned.rebased = choice.rows.count
        try session.untrackedChildren.settle()
        try HighestKeys.save(db, session.highestKeys)
        try BufferedParts.clear(db)
        try Outbox.passAll(db, through: snapshot.position)
        try PassedVoids.forget(db, through: snapshot.position)
        state.position = snapshot.position
        state.logDigest = snapshot.logDigest
        while let entry = try Outbox.pass(db, state.position.next) { state.pass(entry.digest) }
        state.head = max(state.head, snapshot.head, state.position)
        try state.saveProgress(db)
        return returned
    }
}

extension ReplicaID {
    /// Whose a change is that a snapshot brought: its entry is gone, and its author with it.
    package static let nobody = ReplicaID(high: 0, low: 0)
}

/// Makes a store's rows those of another database, row by row.
private struct SnapshotRows {
    private let session: MergeSession
    private let other: Database
    private let notes: LineageRecorder?

    init(_ session: MergeSession, _ other: Database, _ notes: LineageRecorder?) {
        self.session = session
        self.other = other
        self.notes = notes
    }

    /// Rows go out before any comes in, since they may have swapped what must be unique. Returns how many differed.
    func take() throws -> Int {
        var count = 0
        let theirTables = try TrackedTables.load(other)
        // Rows that are there on both sides, by the keys that they will have.
        var changed: Set<RowReference> = []
        let tables = try session.tableOrder.sorted { $0.value < $1.value }.map { try session.table(named: $0.key) }
        for table in tables.reversed() {
            let theirs = try RowReader(other, theirTables, first: table.first, defaults: defaults(table))
            for key in try keysThatDiffer(table, theirs) {
                guard let row = try table.row(key) else { continue }
                let new = try theirs.row(key)
                try table.delete(row)
                if let new {
                    changed.insert(RowReference(table.name, table.key(of: new)))
                    try session.checks.noteChanged(table, old: row, new: new)
                } else {
                    session.checks.noteGone(table, row)
                }
                notes?.note(table, row, new, nil)
                count += 1
            }
        }
        for table in tables {
            let theirs = try RowReader(other, theirTables, first: table.first, defaults: defaults(table))
            while let row = try theirs.next() {
                guard try table.row(table.key(of: row)) == nil else { continue }
                try table.insert(row)
                session.noteHighestKey(table, row)
                guard changed.remove(RowReference(table.name, table.key(of: row))) == nil else { continue }
                try session.checks.noteNew(table, row)
                notes?.note(table, nil, row, nil)
                count += 1
            }
        }
        return count
    }

    private func defaults(_ table: RowTable) throws -> [Value] {
        try table.definition.columns.map(session.defaultValue)
    }

    private func keysThatDiffer(_ table: RowTable, _ theirs: RowReader) throws -> [[Value]] {
        var keys: [[Value]] = []
        let ours = try RowReader(session.db, table.definition)
        while let row = try ours.next() {
            let key = table.key(of: row)
            if try theirs.row(key) != row { keys.append(key) }
        }
        return keys
    }
}
