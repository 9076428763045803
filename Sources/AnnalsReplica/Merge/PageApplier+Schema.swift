package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsRows
package import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// Schema entries of the log and of the outbox.
extension PageApplier {
    // MARK: Schema entries of the log

    /// Adds a schema entry to the space's schema, before the rows of its transaction are applied.
    ///
    /// - Throws: `AnnalsError` with code `waitingForMigration` if rows under the new schema cannot be deferred, or with code
    ///   `schemaRefused` if this store declares the same table or column differently.
    ///
    /// - Returns: Whether the transaction carries a schema entry.
    func takeSchema(of content: TransactionParts, _ footprint: Footprint, at position: Position) throws -> Bool {
        guard Self.mayBringSchema(footprint, cipher), let entry = try content.rest({ _, _ in }).schema else { return false }
        // The first schema entry created the space.
        guard entry.version > 1 else { return true }
        guard let tried = attempt.tried else { throw ApplyError.untriedSchema }
        try RecentLog.noteSchema(db, before: position)
        let space = try SpaceSchema.load(db) ?? SpaceSchema(session.registry)
        let additions = try SpaceSchema.take(entry, db, session, tried: tried)
        guard !entry.isBreaking || space.tables.contains(where: { entry.redeclares($0.name) }) else { throw Self.breaking(entry) }
        // Otherwise entries with rows that violate the constraints could follow.
        guard additions.tightened.isEmpty || footprint.everything else { throw WireError.badValue("footprint") }
        try fill(additions.columns)
        return true
    }

    /// Two replicas may have filled a new column of a rebuilt table with different values. Then the value of the entry counts, because all
    /// other replicas have it. At this moment all of the outbox is undone: the rows have the value of this store.
    private func fill(_ additions: [SchemaAdditions.Columns]) throws {
        let mark = session.historyMark()
        for change in additions {
            guard let own = session.registry.table(first: change.table) else { continue }
            for column in change.columns where try AddedColumn.value(of: column).isNull {
                guard let index = own.first.columnIndex(of: column.name), own.first.columns[index].isNotNull else { continue }
                let name = own.definition.columns[index].name
                throw SchemaAgreement.refused(
                    "sync",
                    "the column \(name) of \(own.definition.name) is NOT NULL, and the space has no value for it in older rows",
                    "Remove NOT NULL, and sync. Add it again after older rows have a value")
            }
            try FilledRows(session).settle(change.columns.map(\.name), of: session.table(named: own.definition.name))
        }
        try recordSchema(since: mark)
    }

    /// Records changes of rows that a schema entry caused.
    private func recordSchema(since mark: [Int64: Int64]) throws {
        let spans = session.spans(since: mark)
        guard !spans.isEmpty else { return }
        let info = TransactionInfo(id: identities.next(), time: now, contextName: "schema", origin: .local)
        _ = try TransactionRecorder.record(
            db, spans: spans, info: info, origin: .imported, process: process, replica: .nobody, position: state.position)
    }

    /// The schema entries of a page with the first positions of their frames, up to the first that cannot be read, and whether they conflict
    /// with everything. Nothing is applied.
    package func schemas(of page: Page) throws -> [(entry: SchemaEntry, frame: Position, isWhole: Bool)] {
        let ahead = try Outbox.ahead(db)
        let kept = try BufferedParts.last(db, inLogUpTo: page.head)
        let entries = try Entries(page, after: state.position, kept: kept, ahead: ahead, digests: [:], state, AuthorChains(db))
        var schemas: [(SchemaEntry, Position, Bool)] = []
        func note(_ content: TransactionParts, _ footprint: Footprint, _ frame: LogFrame) throws {
            guard Self.mayBringSchema(footprint, cipher), let entry = try content.rest({ _, _ in }).schema else { return }
            schemas.append((entry, frame.firstPosition, footprint.everything))
        }
        do {
            for source in entries.sources {
                switch source {
                case .ownPart, .voided: break
                case .parts(let parts):
                    guard let frame = parts.frames.last else { break }
                    let footprint = try BatchHeader.parse(frame.batch).certificates[0].footprint
                    try note(PulledParts(db, parts, state, cipher).content, footprint, frame)
                case .batch(let frame, let indices):
                    let batch = try SealedEntry.open(frame.batch, at: frame.firstPosition, state, cipher)
                    for index in indices {
                        let footprint = batch.header.certificates[index].footprint
                        try note(TransactionParts(try batch.body(index), layouts: batch.layouts), footprint, frame)
                    }
                }
            }
        } catch is WireError {
            // Applying the page fails at the same entry, and names it.
        }
        return schemas
    }

    /// The part of a page before the first frame with a schema entry for which the store must change first. If this is the first frame, the
    /// whole page, with the tracked tables that it removes. They must be released before the page is applied.
    ///
    /// Transactions after the removal may delete parents of the table's rows, because their authors do not have the table. So the table
    /// must not be tracked when they are applied. Until then its rows get the changes of the log.
    ///
    /// - Parameter makesAdditions: Whether the store makes the additions of the log. Then the part ends with the first frame that adds a
    ///   table or column, so that later entries find it. Their values are recorded with their authors.
    /// - Throws: `RedeclaredTables` as the underlying error if the first frame removes constraints that this store still has, or adds some
    ///   that it lacks.
    package func beforeSchemaChange(_ page: Page, makesAdditions: Bool) throws -> (page: Page, removed: [String]) {
        guard let tried = attempt.tried, var space = try SpaceSchema.load(db) else { return (page, []) }
        var removed: [String] = []
        for (entry, frame, isWhole) in try schemas(of: page) where entry.version > 1 {
            // It will be refused; see `takeSchema`.
            guard !entry.isBreaking || isWhole else { break }
            guard let additions = try? SchemaAdditions(entry, to: space, tried: tried) else { break }
            let redeclared = RedeclaredTables(session.registry, additions, before: space)
            space.add(additions)
            let tables = additions.removals.filter { $0.column == nil && session.registry.table(first: $0.table) != nil }.map(\.table)
            if makesAdditions, tables.isEmpty, redeclared == nil, !additions.tables.isEmpty || !additions.columns.isEmpty {
                var part = page
                part.frames = page.frames.filter { $0.firstPosition <= frame }
                return (part, removed)
            }
            guard !tables.isEmpty || redeclared != nil else { continue }
            guard frame == page.frames.first?.firstPosition else {
                var part = page
                part.frames = page.frames.filter { $0.firstPosition < frame }
                return (part, removed)
            }
            if let redeclared { throw redeclared.error }
            removed += tables
        }
        return (page, removed)
    }

    /// Whether a transaction may carry a schema entry. Schema entries have a special hash in the footprint, so that they conflict.
    static func mayBringSchema(_ footprint: Footprint, _ cipher: SpaceCipher?) -> Bool {
        if footprint.everything { return true }
        let group = FootprintHash(key: cipher?.footprintKey ?? .none).schemaHash
        return footprint.groups.contains { $0.table == group } || footprint.keyID != cipher?.footprintKey.id ?? 0
    }

    private static func breaking(_ entry: SchemaEntry) -> AnnalsError {
        AnnalsError(
            .waitingForMigration, operation: "sync",
            "the space's schema has version \(entry.version), and its rows do not fit the tables of this store",
            hint: "Bring the schema up to date, then sync again; nothing was changed")
    }

    // MARK: Schema entries of the outbox

    /// Whether a rebase keeps an outbox transaction. Additions that the space got from others meanwhile are removed from a schema
    /// entry. If nothing of the entry is left, its transaction is dropped. The rows of the migration that made these additions are
    /// dropped too, because the space has them already, except for values that rows of this store lack.
    ///
    /// - Parameter own: The ids of transactions that are not sent.
    func isStillNews(_ transaction: inout OutboxTransaction, _ rebase: Rebase, own: inout Set<TransactionID>) throws -> Bool {
        guard !own.contains(transaction.info.id) else {
            try call(transaction, in: rebase)
            transaction.changes = try fills(of: transaction)
            transaction.wholeRows = [:]
            guard !transaction.changes.isEmpty else { return false }
            // From now on it is work like any other.
            try PendingSchemaEntries.forget(db, transaction.info.id)
            return true
        }
        guard let entry = transaction.schema else { return true }
        guard let space = try SpaceSchema.load(db) else { return true }
        let additions = try SchemaComparison(session.registry, space, missingSchema: MissingSchema.load(db)).additions
        var rest = additions.named(in: entry)
        // If two replicas rename the same thing, the later rename wins.
        rest.renames = space.news(entry.renames)
        if !rest.areRows { try own.formUnion(PendingSchemaEntries.rows(db, of: transaction.info.id)) }
        guard !rest.isEmpty else { return false }
        transaction.schema = try rest.entry(version: max(space.version + 1, entry.version), db, in: session.registry)
        return true
    }

    /// What the migration wrote instead of NULL into columns that it made required, as far as it is missing now. Rows that only this
    /// store has would violate the constraint without it.
    private func fills(of transaction: OutboxTransaction) throws -> [TableChange] {
        guard !stricter.isEmpty else { return [] }
        return try transaction.changes.compactMap { change in
            guard case .update(let key, let columns) = change.change, stricter.contains(where: { $0.isSameIdentifier(as: change.table) })
            else { return nil }
            let table = try session.table(named: change.table)
            guard let row = try table.row(key) else { return nil }
            let filled = columns.filter { table.definition.columns[$0.column].isNotNull && $0.old.isNull && row[$0.column].isNull }
            return filled.isEmpty ? nil : TableChange(table: change.table, change: .update(key: key, columns: filled), age: change.age)
        }
    }

    /// Later transactions refer to the rows of a dropped transaction, and mean the space's rows with the same keys.
    private func call(_ transaction: OutboxTransaction, in rebase: Rebase) throws {
        for change in transaction.changes {
            guard case .insert(let row) = change.change else { continue }
            let table = try session.table(named: change.table)
            guard case .row(let rowID) = rebase.context.rowIdentities.occupant(of: table.keyName(table.key(of: row))) else { continue }
            rebase.context.rowIdentities.call(rowID, by: table.names(of: row))
        }
    }

    // MARK: Deferred cells

    /// To be called after the store got missing tables or columns. Undoes the outbox, writes the deferred cells to the rows, and
    /// repeats the outbox. The deferred values count as written last, because no local author can have seen them.
    package func applyKeptEntries() throws -> Summary {
        var summary = Summary()
        let before = try MissingSchema.load(db)
        guard let space = try SpaceSchema.load(db) else { return summary }
        var pull = self
        pull.policies = try MergePolicies(PolicyTable.load(db, for: session.registry), over: policies)
        try PendingSchemaEntries.moveFirst(db)
        let choice = try RebaseSet.all(db)
        let notes = RowIdentityRecorder()
        try loosen()
        let outbox = try pull.undo(choice)
        let mark = session.historyMark()
        let changes = try KeptIntoRows(db, session, notes).run(space, before)
        notes.endEntry(by: WriteMark(time: max(now, clock.last), replica: .nobody, position: state.position))
        guard try session.checks.dangling().isEmpty else { throw try danglingError() }
        session.checks.reset()
        try recordSchema(since: mark)
        let missingSchema = try MissingSchema.current(db, space, session.registry)
        try missingSchema.save(db)
        session.kept = try DeferredCells.load(db)
        summary.changes = changes
        summary.conflicts = try pull.rebase(choice, outbox, known: [], notes, relayTime: now.milliseconds)
        summary.rebased = choice.rows.count
        try session.untrackedChildren.settle()
        try HighestKeys.save(db, session.highestKeys)
        return summary
    }

}

extension MergeSession {
    /// Defers the cells that a copy of the space has and this store lacks. They replace all earlier deferred cells.
    package func keepMissingValues(from other: Database) throws {
        guard var space = try SpaceSchema.load(db) else { return }
        let theirs = try TrackedTables.load(other)
        let missingSchema = try MissingSchema.current(db, space, registry)
        for table in space.tables where missingSchema.has(table: table.name) {
            space.statements[table.name] = try CanonicalStatements(other, theirs).statements(of: table.name)
        }
        try space.save(db)
        forgetSpace()
        let hasMissingSchema = try db.tableExists(OwnTables.missingSchema)
        guard hasMissingSchema || !missingSchema.isEmpty else { return }
        try MissingSchema.createTables(db)
        try missingSchema.save(db)
        try DeferredCells.clear(db)
        kept = try DeferredCells.load(db)
        guard let kept else { return }
        for entry in theirs.entries where missingSchema.touches(entry.first.name) {
            let definition = entry.first
            let reader = try RowReader(other, entry.definition)
            while let row = try reader.next() {
                let cells = zip(definition.columns, row).filter { missingSchema.has($0.0.name, of: definition.name) }
                try kept.put(cells.map { ($0.0.name, $0.1) }, table: definition.name, key: definition.primaryKey.map { row[$0] })
            }
        }
    }
}

extension SpaceSchema {
    /// Adds a schema entry, pulled or own, to the space's schema, and records which of it the store lacks.
    ///
    /// - Returns: What the entry adds.
    @discardableResult
    package static func take(
        _ entry: SchemaEntry, _ db: Database, _ session: MergeSession, tried: SchemaTrialResults = SchemaTrialResults()
    ) throws -> SchemaAdditions {
        var space = try load(db) ?? SpaceSchema(session.registry)
        let before = try MissingSchema.load(db)
        let additions = try SchemaAdditions(entry, to: space, tried: tried)
        space.add(additions)
        try space.save(db)
        session.forgetSpace()
        try SpaceRename.remove(additions.renames, db)
        var missingSchema = try MissingSchema.current(db, space, session.registry)
        // The deferred cells of tables and columns that the store got meanwhile are not in its rows yet.
        missingSchema.keep(before)
        for removal in additions.removals where removal.column == nil {
            try ConflictJournal.settle(db, removedTable: removal.table)
        }
        for removal in missingSchema.drop(notIn: space) {
            try DeferredCells.forget(db, removal.table, columns: removal.column.map { [$0] })
        }
        if missingSchema != before {
            try MissingSchema.createTables(db)
            try missingSchema.save(db)
            session.kept = try DeferredCells.load(db)
        }
        _ = try SchemaComparison(session.registry, space, missingSchema: missingSchema)
        return additions
    }
}

/// Rows whose values in new columns are those with which this store filled its rebuilt table, although the space has other values there.
private struct FilledRows {
    let session: MergeSession

    init(_ session: MergeSession) {
        self.session = session
    }

    /// Gives the rows the space's values.
    ///
    /// - Parameter names: canonical names of columns.
    func settle(_ names: [String], of table: RowTable) throws {
        var values: [(columnIndex: Int, value: Value)] = []
        for columnIndex in names.compactMap(table.first.columnIndex(of:)) {
            let value = try session.addedValue(of: columnIndex, in: table)
            if try AddedColumn.value(of: table.definition.columns[columnIndex]) != value { values.append((columnIndex, value)) }
        }
        guard !values.isEmpty else { return }
        let rows = try RowReader(session.db, table.definition)
        var keys: [[Value]] = []
        while let row = try rows.next() { keys.append(table.key(of: row)) }
        for key in keys {
            guard let old = try table.row(key) else { continue }
            var new = old
            for (columnIndex, value) in values { new[columnIndex] = value }
            guard new != old else { continue }
            try table.update(old, to: new)
            try session.checks.noteChanged(table, old: old, new: new)
        }
    }
}

/// Writes deferred cells to tables and columns that the store has now.
private struct KeptIntoRows {
    let db: Database
    let session: MergeSession
    let notes: RowIdentityRecorder

    init(_ db: Database, _ session: MergeSession, _ notes: RowIdentityRecorder) {
        self.db = db
        self.session = session
        self.notes = notes
    }

    /// Returns the number of rows that were inserted or changed.
    func run(_ space: SpaceSchema, _ missingSchema: MissingSchema) throws -> Int {
        var count = 0
        for (own, _) in session.tableOrder.sorted(by: { $0.value < $1.value }) {
            let table = try session.table(named: own)
            let name = table.first.name
            guard missingSchema.touches(name) else { continue }
            let columns = table.first.columns.map(\.name).filter { missingSchema.has($0, of: name) }
            let defaults =
                try missingSchema.has(table: name) ? table.first.columns.indices.map { try session.addedValue(of: $0, in: table) } : []
            if !missingSchema.has(table: name) { try FilledRows(session).settle(columns, of: table) }
            try DeferredCells.forEachRow(db, of: name) { key, cells in
                if try missingSchema.has(table: name) ? insert(table, cells, defaults) : update(table, key, cells, columns) { count += 1 }
            }
            try DeferredCells.forget(db, name, columns: columns)
        }
        return count
    }

    private func insert(_ table: RowTable, _ cells: [String: Value], _ defaults: [Value]) throws -> Bool {
        let row = zip(table.first.columns, defaults).map { column, value in cells[column.name.foldedIdentifier] ?? value }
        try table.insert(row)
        notes.note(table, nil, row, nil)
        try session.checks.noteNew(table, row)
        session.noteHighestKey(table, row)
        return true
    }

    private func update(_ table: RowTable, _ key: [Value], _ cells: [String: Value], _ columns: [String]) throws -> Bool {
        guard let old = try table.row(key) else {
            throw MergeError.diverged(Divergence(table: table.name, key: key, position: nil, kind: .missingRow))
        }
        var new = old
        for name in columns {
            if let value = cells[name.foldedIdentifier], let columnIndex = table.first.columnIndex(of: name) { new[columnIndex] = value }
        }
        guard new != old else { return false }
        try table.update(old, to: new)
        notes.note(table, old, new, nil)
        try session.checks.noteChanged(table, old: old, new: new)
        return true
    }
}
