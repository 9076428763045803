package import AnnalsCore
package import AnnalsHistory
import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// What comparing a store's rows with the log brought to light.
package struct Reconciled: Sendable {
    /// Rows that differed; they are a transaction of origin external now, if there were any.
    package var changes: Int
}

extension Store {
    /// What is in doubt about the rows; nil when they are what history says.
    package func unverifiedRows() async throws -> UnverifiedRows? {
        try await translated("sync") {
            try await database.reading { db in try StoreSchema.exists(db) ? UnverifiedRows.load(db) : nil }
        }
    }

    /// Lets a replica in the making pass over entries of the log as if they were in its rows, so that it ends with the rows
    /// of a replica that has not seen them.
    package func passOver(_ positions: [Position]) async throws {
        try await managed("sync") { db, _ in
            for position in positions { try Outbox.noteAhead(db, position, nil) }
        }
    }

    /// Records what the rows hold beyond the log and the outbox as a transaction of origin external, so that everybody gets
    /// it (law 3). It is of this moment: nobody can tell when it was written.
    ///
    /// Work that waits in the outbox stays as it is where it can be applied without what was unseen. Otherwise all of it
    /// becomes part of that one transaction, and older tokens expire.
    ///
    /// - Parameters:
    ///   - doubt: what is in doubt.
    ///   - copy: a replica whose rows are those of the log where `doubt` says. It is given up afterwards.
    /// - Returns: nil when the store has moved since `doubt` was asked for, or has a push under way; nothing was changed.
    package func reconcile(_ doubt: UnverifiedRows, with copy: Store) async throws -> Reconciled? {
        try await managed("sync") { db, step in
            try step.recordExternal()
            try step.schemaComparison()
            guard try UnverifiedRows.load(db) == doubt, try !Push.isUnderWay(db) else { return nil }
            return try copy.database.writeWithoutTransaction { other in
                var work = try Reconciling(db: db, other: other, step: step)
                return Reconciled(changes: try work.run())
            }
        }
    }
}

/// Compares the rows of a store with those that the log and its outbox come to.
private struct Reconciling {
    let db: Database
    let other: Database
    let step: StoreStep
    private let tables: TrackedTables
    private let filler: OutboxFiller

    init(db: Database, other: Database, step: StoreStep) throws {
        self.db = db
        self.other = other
        self.step = step
        tables = try step.tables()
        try SchemaComparison.check(tables, of: db, with: other)
        filler = try step.filler()
    }

    mutating func run() throws -> Int {
        try filler.fill()
        let isOutboxKept = try applyOutbox()
        let (spans, changes) = try writeDifferences()
        if isOutboxKept {
            if !spans.isEmpty {
                let number = try record(spans)
                // What was recorded since may have been written on top of rows that nobody had seen change.
                try Drift.expire(tables.entries.map(\.id), before: number, db)
                try filler.fill()
            }
        } else {
            try replaceOutbox(by: spans)
        }
        try Meta(db).set(.unverifiedRows, nil)
        return changes
    }

    // MARK: What the rows should be

    /// Brings the copy to what every replica would have after the outbox; false, and the copy as it was, where the outbox
    /// needs rows that nobody else can have.
    private func applyOutbox() throws -> Bool {
        let layouts = try LayoutNames(db).all
        for entry in try PendingSchemaEntries.entries(db) { try SchemaAdoption.take(entry, other, step.environment) }
        let noTriggers = UserTriggers(temporaries: [], reached: [], tracked: [])
        return try MergeConnection.withTriggersAndForeignKeysOff(other, userTriggers: noTriggers) {
            var fits = false
            try other.inTransaction(.immediate) {
                let session = MergeSession(other, registry: try TrackedTables.load(other))
                let applier = EntryApplier(session: session, direction: .forward, position: nil)
                let unsettled = try UnsettledReferences.first(db) ?? .max
                do {
                    fits = try Outbox.rows(db).allSatisfy { row in
                        try applier.apply(Outbox.content(db, of: row, layouts: layouts))
                        // The log holds what keys declare after each of them, except where they are still to be settled.
                        guard row.sequence < unsettled else { return true }
                        defer { session.checks.reset() }
                        return try session.checks.dangling().isEmpty
                    }
                    fits = try fits && session.checks.dangling().isEmpty
                } catch is MergeError {
                    fits = false
                }
                return fits ? .commit : .rollback
            }
            return fits
        }
    }

    // MARK: What they are

    /// Writes raw changes from the copy's rows to the store's.
    private func writeDifferences() throws -> (spans: [TransactionRecorder.Span], changes: Int) {
        var spans: [TransactionRecorder.Span] = []
        let theirTables = try TrackedTables.load(other)
        for table in tables.entries {
            let definition = table.definition
            let writer = try HistoryWriter(db, definition, layoutID: table.id)
            let before = writer.lastID
            func key(_ row: [Value]) -> [Value] { definition.primaryKey.map { row[$0] } }
            let (ours, theirs) = (try RowReader(db, definition), try RowReader(other, theirTables, first: table.first))
            while let row = try theirs.next() {
                if try ours.row(key(row)) == nil { try writer.delete(row) }
            }
            while let row = try ours.next() {
                if let old = try theirs.row(key(row)) {
                    if old != row { try writer.update(old, to: row) }
                } else {
                    try writer.insert(row)
                }
            }
            if writer.lastID > before { spans.append(TransactionRecorder.Span(table: table.id, ids: (before + 1)...writer.lastID)) }
        }
        return (spans, spans.reduce(0) { $0 + $1.ids.count })
    }

    private func record(_ spans: [TransactionRecorder.Span]) throws -> Int64 {
        let info = TransactionInfo(
            id: step.environment.makeTransactionID(), time: try step.tick(), contextName: "unseen", origin: .external)
        let number = try TransactionRecorder.record(db, spans: spans, info: info, process: step.environment.processName)
        try step.environment.didRecord(db, info, number)
        return number
    }

    // MARK: Where the outbox does not fit

    /// One transaction takes the place of everything that waits. What people decided and what is in the journal goes with it.
    private func replaceOutbox(by spans: [TransactionRecorder.Span]) throws {
        var decisions = UserDecisions()
        var journal: [JournalEntry] = []
        for row in try Outbox.rows(db) {
            let rest = try Outbox.content(db, of: row, layouts: [:]).rest { entries, _ in journal += entries }
            decisions.policies += rest.policies
            decisions.resolutions += rest.resolutions
            // What things are called is told anew; what is added is found anew.
            if let schema = rest.schema { try SpaceRename.tell(schema.renames, db) }
            try UnsettledReferences.settled(db, row.id)
            try Outbox.delete(db, sequence: row.sequence)
        }
        // Also without a difference: the raw changes before do not lead to these rows, so a token must come after them.
        let number = try record(spans)
        try Drift.expire(tables.entries.map(\.id), before: number, db)
        try filler.offer(filler)
        try filler.append(number, decisions, journal)
    }
}
