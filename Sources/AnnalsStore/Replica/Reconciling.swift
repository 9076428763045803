package import AnnalsCore
package import AnnalsHistory
import AnnalsMerge
import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// The result of comparing a store's rows with the log.
package struct Reconciled: Sendable {
    /// The number of rows that differed. If there were any, they are now a transaction of origin external.
    package var changes: Int
}

extension Store {
    /// The state in which the rows are unverified; nil if they match history.
    package func unverifiedRows() async throws -> UnverifiedRows? {
        try await translated("sync") {
            try await database.reading { db in try StoreSchema.exists(db) ? UnverifiedRows.load(db) : nil }
        }
    }

    /// Makes a new replica skip entries of the log as if its rows had them already. So it ends with the rows of a replica that has
    /// not applied them.
    package func passOver(_ positions: [Position]) async throws {
        try await managed("sync") { db, _ in
            for position in positions { try Outbox.noteAhead(db, position, nil) }
        }
    }

    /// Records the differences between the rows and the log with the outbox as a transaction of origin external, so that all
    /// replicas get them (law 3). Its time is now, because the time of the writes is unknown.
    ///
    /// The outbox stays as it is if it can be applied without the missed writes, and if its values are those of the columns' types.
    /// Otherwise all of it becomes part of that one transaction, and older tokens expire.
    ///
    /// - Parameters:
    ///   - doubt: the unverified state.
    ///   - copy: a replica that has the rows of the log at the position in `doubt`. It is discarded afterwards.
    /// - Returns: nil if the store has changed since `doubt` was read, or if a push is under way; nothing was changed.
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

/// Compares the rows of a store with the rows that result from the log and its outbox.
private struct Reconciling {
    let db: Database
    let other: Database
    let step: StoreStep
    private let tables: TrackedTables
    private let filler: OutboxFiller
    private static let noTriggers = UserTriggers(temporaries: [], reached: [], tracked: [])

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
        try leaveOutDeferredCells()
        let isRetyped = try filler.areOffersOutdated()
        if isRetyped { try filler.replaceOffers() }
        for entry in try PendingSchemaEntries.entries(db) { try SchemaAdoption.take(entry, other, step.environment) }
        let isOutboxKept = try !isRetyped && hasValuesOfItsTypes() && applyOutbox()
        let (spans, changes) = try writeDifferences()
        if isOutboxKept {
            if !spans.isEmpty {
                let number = try record(spans)
                // Transactions recorded since may be based on rows that had changed without capture.
                try Drift.expire(spans.map(\.table), before: number, db)
                try filler.fill()
            }
        } else {
            try replaceOutbox(by: spans)
        }
        try Meta(db).set(.unverifiedRows, nil)
        return changes
    }

    // MARK: The expected rows

    /// The value that rows have here in a column that this store has got since, if nobody wrote it.
    ///
    /// A tool may have filled the column when it was NOT NULL, and then have rebuilt the table with a column that may be NULL. Then most
    /// rows have the value of the space.
    private func ownValue(of columnIndex: Int, in table: RowTable, _ session: MergeSession, mayBeNull: Bool) throws -> Value {
        let own = table.definition.columns[columnIndex]
        guard own.addedSQL == nil else { return try AddedColumn.value(of: own) }
        let value = try session.addedValue(of: columnIndex, in: table)
        guard !own.isNotNull, mayBeNull else { return value }
        let name = SQL.quote(own.name)
        let statement = try PreparedStatement(
            db, "SELECT sum(\(name) IS ?1 COLLATE BINARY) > sum(\(name) IS NULL) FROM main.\(SQL.quote(table.definition.name))")
        statement.bind(1, value)
        defer { statement.reset() }
        return try statement.step() && statement.value(0).integer == 1 ? value : .null
    }

    /// Tables and columns that this store has got since, and that still lack the log's values: the copy gets the values that these rows
    /// have here. The log's values come later; see `PageApplier.applyKeptEntries`.
    private func leaveOutDeferredCells() throws {
        let missingSchema = try MissingSchema.load(db)
        let (session, theirs) = (MergeSession(db, registry: tables), try TrackedTables.load(other))
        var statements: [(sql: String, value: Value?)] = []
        for entry in tables.entries where missingSchema.touches(entry.first.name) {
            guard let copy = theirs.table(first: entry.first.name) else { continue }
            let name = "main.\(SQL.quote(copy.definition.name))"
            guard !missingSchema.has(table: entry.first.name) else {
                statements.append(("DELETE FROM \(name)", nil))
                continue
            }
            for (columnIndex, column) in entry.first.columns.enumerated() where missingSchema.has(column.name, of: entry.first.name) {
                guard let their = copy.first.columnIndex(of: column.name) else { continue }
                let column = copy.definition.columns[their]
                let table = try session.table(named: entry.definition.name)
                let value = try ownValue(of: columnIndex, in: table, session, mayBeNull: !column.isNotNull)
                statements.append(("UPDATE \(name) SET \(SQL.quote(column.name)) = ?1", value))
            }
        }
        guard !statements.isEmpty else { return }
        try MergeConnection.withTriggersAndForeignKeysOff(other, userTriggers: Self.noTriggers) {
            try other.inTransaction(.immediate) {
                for (sql, value) in statements {
                    let statement = try PreparedStatement(other, sql)
                    if let value { statement.bind(1, value) }
                    try statement.run()
                }
                return .commit
            }
        }
    }

    /// Whether the outbox has only values that the columns would store as they are. A column that was declared again with another type
    /// stores other values.
    private func hasValuesOfItsTypes() throws -> Bool {
        let (layouts, session) = (try LayoutNames(db).all, MergeSession(db, registry: tables))
        return try Outbox.rows(db).allSatisfy { row in
            let changes: [TableChange]
            do {
                changes = try OutboxTransaction(row, Outbox.content(db, of: row, layouts: layouts), session).changes
            } catch is MergeError {
                // It names a table or column that is gone.
                return false
            }
            return try changes.allSatisfy { change in
                let columns = try session.table(named: change.table).definition.columns
                func fits(_ value: Value, _ columnIndex: Int) throws -> Bool {
                    try session.asStored(value, in: columns[columnIndex]) == value
                }
                switch change.change {
                case .insert(let row), .delete(let row): return try row.indices.allSatisfy { try fits(row[$0], $0) }
                case .update(_, let changed): return try changed.allSatisfy { try fits($0.new, $0.column) && fits($0.old, $0.column) }
                }
            }
        }
    }

    /// Applies the outbox to the copy. Returns false, with the copy unchanged, if the outbox needs rows that no other replica can
    /// have.
    private func applyOutbox() throws -> Bool {
        let layouts = try LayoutNames(db).all
        return try MergeConnection.withTriggersAndForeignKeysOff(other, userTriggers: Self.noTriggers) {
            var fits = false
            try other.inTransaction(.immediate) {
                let session = MergeSession(other, registry: try TrackedTables.load(other))
                let applier = EntryApplier(session: session, direction: .forward, position: nil)
                let unsettled = try UnsettledReferences.first(db) ?? .max
                do {
                    fits = try Outbox.rows(db).allSatisfy { row in
                        try applier.apply(Outbox.content(db, of: row, layouts: layouts))
                        // The log satisfies the foreign keys after each of its transactions, except where references are still to
                        // be settled.
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

    // MARK: The actual rows

    /// Writes raw changes that lead from the copy's rows to the store's rows.
    private func writeDifferences() throws -> (spans: [TransactionRecorder.Span], changes: Int) {
        var spans: [TransactionRecorder.Span] = []
        let session = MergeSession(db, registry: tables)
        let theirTables = try TrackedTables.load(other)
        for table in tables.entries {
            let definition = table.definition
            let writer = try HistoryWriter(db, definition, layoutID: table.id)
            let before = writer.lastID
            func key(_ row: [Value]) -> [Value] { definition.primaryKey.map { row[$0] } }
            // The copy does not have columns that the space has removed, so nothing says which of their values were missed.
            let leftover = try session.leftover(in: session.table(named: definition.name))
            let defaults =
                try leftover.isEmpty
                ? nil
                : definition.columns.indices.map { try session.addedValue(of: $0, in: session.table(named: definition.name)) }
            let (ours, theirs) = (try RowReader(db, definition), try RowReader(other, theirTables, first: table.first, defaults: defaults))
            while let row = try theirs.next() {
                if try ours.row(key(row)) == nil { try writer.delete(row) }
            }
            while let row = try ours.next() {
                if let old = try theirs.row(key(row))?.with(leftover, of: row) {
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

    // MARK: If the outbox does not fit

    /// Replaces the whole outbox by one transaction, which contains the outbox's user decisions and journal entries.
    private func replaceOutbox(by spans: [TransactionRecorder.Span]) throws {
        var decisions = UserDecisions()
        var journal: [JournalEntry] = []
        for row in try Outbox.rows(db) {
            let rest = try Outbox.content(db, of: row, layouts: [:]).rest { entries, _ in journal += entries }
            decisions.policies += rest.policies
            decisions.resolutions += rest.resolutions
            decisions.references += rest.references
            // Renames are stored to be sent again. Additions are found again by the comparison.
            if let schema = rest.schema { try SpaceRename.add(schema.renames, db) }
            try UnsettledReferences.settled(db, row.id)
            try Outbox.delete(db, sequence: row.sequence)
        }
        try SerializableTable(db).settle(.merged)
        // This is done even without a difference: the earlier raw changes do not lead to these rows, so a token must follow them.
        let number = try record(spans)
        try Drift.expire(tables.entries.map(\.id), before: number, db)
        try filler.offer(filler)
        try filler.append(number, decisions, journal)
    }
}
