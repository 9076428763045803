package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
package import GRDB

/// Resync after a purge of the log: the rows of a snapshot replace the missing entries, and the outbox is rebased on them
/// (merge rule 37).
extension PageApplier {
    /// The result of a resync.
    package struct Returned {
        /// The number of rows that changed.
        package var rows = 0
        package var rebased = 0
    }

    /// The position of a snapshot in the log, with its times and authors.
    package struct SnapshotMark {
        package var position: Position
        package var logDigest: Digest?
        /// The latest time in the log up to the position. All differences count as written at this time.
        package var time: HybridTime
        /// Each author's newest entry up to the position.
        package var authors: [ReplicaID: AuthorChains.Link?]
        /// The newest position of the log.
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

    /// All differences to the snapshot count as one entry of no replica in particular, written at the snapshot's time. So the
    /// merge is three-way, with the outbox's old values as its base.
    ///
    /// - Parameters:
    ///   - other: A replica with the snapshot's rows, and with the own entries that the log has after the snapshot.
    ///   - isCopy: Whether another copy of the file may have pushed transactions of this outbox. Then one key means one row.
    package mutating func takeSnapshot(_ other: Database, _ snapshot: SnapshotMark, isCopy: Bool, relayTime: Int64) throws -> Returned {
        var returned = Returned()
        try PendingSchemaEntries.moveFirst(db)
        let choice = try RebaseSet.all(db)
        let notes = choice.rows.isEmpty ? nil : RowIdentityRecorder()
        // The rows here may violate constraints that the snapshot has, and the other way round.
        try loosen()
        try ReplicaTables.copyShared(from: other, to: db)
        // The other replica may have passed later entries.
        try AuthorChains.replaceAll(db, with: snapshot.authors)
        try UnconfirmedAuthors.begin(at: snapshot.position, db)
        try RecentLog.clear(db)
        try session.keepMissingValues(from: other)
        policies = try MergePolicies(PolicyTable.load(db, for: session.registry), over: policies)
        try session.takeReferences()
        if isCopy { policies.setKeyRule(.mergeRows) }
        try loosen(onlyRemoves: true)
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
        if let notes {
            try rebase(choice, outbox, known: [], notes, relayTime: relayTime)
        } else {
            try endLooseStates()
        }
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
    /// The author of changes from a snapshot. Their entries and the authors of these are not known any more.
    package static let nobody = ReplicaID(high: 0, low: 0)
}

/// Replaces the rows of a store with those of another database, row by row.
private struct SnapshotRows {
    private let session: MergeSession
    private let other: Database
    private let notes: RowIdentityRecorder?

    init(_ session: MergeSession, _ other: Database, _ notes: RowIdentityRecorder?) {
        self.session = session
        self.other = other
        self.notes = notes
    }

    /// Removes rows before it inserts any, since rows may have swapped unique values. Returns the number of rows that differed.
    func take() throws -> Int {
        var count = 0
        let theirTables = try TrackedTables.load(other)
        // Rows that exist on both sides, by their new keys, with the values of columns that the space has removed.
        var changed: [RowReference: [Int: Value]] = [:]
        let tables = try session.tableOrder.sorted { $0.value < $1.value }.map { try session.table(named: $0.key) }
        for table in tables.reversed() {
            let theirs = try RowReader(other, theirTables, first: table.first, defaults: defaults(table))
            for key in try keysThatDiffer(table, theirs) {
                guard let row = try table.row(key) else { continue }
                let leftover = try session.leftover(in: table)
                let new = try theirs.row(key).map { $0.with(leftover, of: row) }
                try table.delete(row)
                if let new {
                    changed[RowReference(table.name, table.key(of: new))] = leftover.reduce(into: [:]) { $0[$1] = row[$1] }
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
            while var row = try theirs.next() {
                guard try table.row(table.key(of: row)) == nil else { continue }
                let known = changed.removeValue(forKey: RowReference(table.name, table.key(of: row)))
                for (columnIndex, value) in known ?? [:] { row[columnIndex] = value }
                try table.insert(row)
                session.noteHighestKey(table, row)
                guard known == nil else { continue }
                try session.checks.noteNew(table, row)
                notes?.note(table, nil, row, nil)
                count += 1
            }
        }
        return count
    }

    /// The values of columns that the snapshot does not have. They are those of rows that are older than the column, because the other
    /// replicas give them to these rows too. SQLite converts a default differently for new rows.
    private func defaults(_ table: RowTable) throws -> [Value] {
        try table.definition.columns.indices.map { try session.addedValue(of: $0, in: table) }
    }

    private func keysThatDiffer(_ table: RowTable, _ theirs: RowReader) throws -> [[Value]] {
        var keys: [[Value]] = []
        let ours = try RowReader(session.db, table.definition)
        let leftover = try session.leftover(in: table)
        while let row = try ours.next() {
            let key = table.key(of: row)
            if try theirs.row(key).map({ $0.with(leftover, of: row) }) != row { keys.append(key) }
        }
        return keys
    }
}
