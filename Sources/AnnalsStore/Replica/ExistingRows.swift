import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// What happens to a store's rows that differ from the space's rows when the store joins the space. Rows with the same key and the
/// same bytes are always the same rows.
///
/// If the store has left a space, its unsent work of that time, and rows that it inserted or changed since, are not such rows. With
/// `sameKey` and `separate` they are merged like unsent work of a replica: new rows get free numbers, and changes and deletes have their
/// old values. Rows that were deleted after leaving come back.
public enum ExistingRows: String, Sendable, CaseIterable {
    /// The same key means the same row. Columns that differ get the space's value, and the store's value goes to the conflict
    /// journal.
    case sameKey = "same-key"
    /// The same integer key means different rows. The store's row gets the next number, and references to it follow. With other
    /// keys, rows are merged.
    case separate
    /// The space's rows win, and the store's rows are removed. They remain in history.
    case theirs
}

/// The result of a join with `ExistingRows`.
package struct ExistingSummary: Sendable {
    /// Rows of this store that the space did not have or that differed.
    package var differing = 0
    /// Rows of the space that were inserted.
    package var takenIn = 0
    /// Entries of the conflict journal with the losing values.
    package var conflicts = 0
}

extension Store {
    /// Makes this store the replica that `clone` is, although their rows differ. In one SQLite transaction the space's rows are
    /// applied and the store's differing rows are rebased onto them, as if the space's rows were concurrent and later writes (merge
    /// rule 40). The rest of the store's rows waits in the outbox as one transaction.
    ///
    /// - Parameters:
    ///   - clone: a replica of the space at its head. It is discarded afterwards.
    ///   - existing: what happens to rows that differ; nil if the store has no rows that differ. Rows that are written meanwhile are
    ///     then merged by key.
    ///   - schema: how the declared tables may differ.
    package func adopt(_ clone: Store, existing: ExistingRows?, schema: JoinedSchema = .equal) async throws -> ExistingSummary {
        let policies = configuration.mergePolicies
        return try await merging("join") { db, step in
            guard try ReplicaState.load(db) == nil else { throw Self.joinedElsewhere }
            try step.recordExternal()
            return try clone.database.reading { other in
                var joining = try JoiningRows(db: db, other: other, step: step, existing: existing, schema)
                return try joining.run(policies)
            }
        }
    }
}

/// Merges the rows of two replicas.
private struct JoiningRows {
    let db: Database
    let other: Database
    let step: StoreStep
    let existing: ExistingRows
    let state: ReplicaState
    let session: MergeSession
    private let tables: [RowTable]
    private let theirTables: TrackedTables
    private let comparison: SchemaComparison
    private let references: JoiningReferences
    private var summary = ExistingSummary()
    /// This store's rows that become a transaction. Those in `gone` are removed first, so that the space's rows can be inserted.
    private var ours: [(table: RowTable, row: [Value])] = []
    private var gone: [(table: RowTable, row: [Value])] = []
    /// What only this store did since it left a space; they become a transaction of their own.
    private var unsent: [TableChange] = []
    private let unsentRows: UnsentRows?
    /// Rows as they were before the unsent work, where the space has other values.
    private var before: [(table: RowTable, row: [Value])] = []
    private var names: Set<CandidateKey> = []

    init(db: Database, other: Database, step: StoreStep, existing: ExistingRows?, _ schema: JoinedSchema) throws {
        guard let state = try ReplicaState.load(other) else { throw AnnalsError(.defect, operation: "join", "the clone is not a replica") }
        try JoiningNames(db, other).save(step.tables())
        step.forgetComparison()
        references = try JoiningReferences(db, other, step.tables())
        // Rows of both sides follow the references of both.
        try references.take()
        let registry = try step.tables()
        theirTables = try TrackedTables.load(other)
        comparison = try .joining(registry, other, schema, untracked: Array(TrackingRule.untracked(db).keys))
        self.db = db
        self.other = other
        self.step = step
        self.existing = existing ?? .sameKey
        self.state = state
        let session = MergeSession(db, registry: registry)
        self.session = session
        // A store without rows that joins without an option gets the space's rows, also those that it has deleted.
        unsentRows = existing == nil || existing == .theirs ? nil : try UnsentRows.load(db, registry)
        let order = registry.order
        tables = try registry.entries.map(\.definition.name).sorted { order[$0] ?? 0 < order[$1] ?? 0 }.map(session.table(named:))
    }

    mutating func run(_ base: MergePolicies) throws -> ExistingSummary {
        for table in tables { try findOurs(table) }
        if existing == .separate { try findThoseOfSeparateParents() }
        let mark = session.historyMark()
        for (table, row) in gone.reversed() { try table.delete(row) }
        for table in tables { try takeIn(table) }
        try record(since: mark)
        try ReplicaTables.createIfMissing(db)
        try state.save(db)
        try ReplicaTables.copyShared(from: other, to: db)
        try HighestKeys.noteRows(db, step.tables())
        try session.keepMissingValues(from: other)
        step.forgetComparison()
        try step.filler().offer(comparison.additions) {
            TransactionInfo(id: step.environment.makeTransactionID(), time: try step.tick(), origin: .migration)
        }
        try references.offer(step)
        summary.differing = gone.count
        // The space has no rows of a table that only this store has, so this store's rows stay.
        if existing == .theirs { ours.removeAll { theirTables.table(first: $0.table.first.name) != nil } }
        if !ours.isEmpty || !unsent.isEmpty { try rebase(base) }
        guard try session.checks.dangling().isEmpty else {
            throw AnnalsError(
                .rowsDiffer, operation: "join", "rows of this store would have no parent", hint: "Nothing was changed")
        }
        try session.untrackedChildren.settle()
        let newest = try step.newestTransaction()
        try Meta(db).set(.outboxed, newest)
        try Meta(db).set(.joined, newest)
        try UnsentRows.end(db)
        return summary
    }

    // MARK: This store's rows

    private mutating func findOurs(_ table: RowTable) throws {
        let rows = try RowReader(db, table.definition)
        let theirs = try theirRows(table)
        try findDeleted(table, theirs)
        while let row = try rows.next() {
            if try theirs.row(table.key(of: row)) == row { continue }
            gone.append((table, row))
            switch try unsentRows?.present(table.definition, table.key(of: row)) {
            case nil: note(table, row)
            case .inserted: unsent.append(TableChange(table: table.name, change: .insert(row)))
            case .changed(let cells): try note(table, row, before: cells, theirs)
            }
        }
    }

    private mutating func findDeleted(_ table: RowTable, _ theirs: RowReader) throws {
        try unsentRows?.forEachDeleted(table.definition) { key, cells in
            guard let stored = try theirs.row(key), try noteBefore(table, table.row(stored, with: cells), stored) else { return }
            unsent.append(TableChange(table: table.name, change: .delete(table.row(stored, with: cells))))
        }
    }

    /// A row with unsent changes. If the space has no such row, it is a row like others.
    private mutating func note(_ table: RowTable, _ row: [Value], before cells: [String: Value], _ theirs: RowReader) throws {
        let old = table.row(row, with: cells)
        guard let stored = try theirs.row(table.key(of: old)), try noteBefore(table, old, stored),
            let change = RowChange(old: old, new: row, key: table.definition.primaryKey)
        else { return note(table, row) }
        unsent.append(TableChange(table: table.name, change: change))
    }

    /// Returns false if the space's row is another row.
    private mutating func noteBefore(_ table: RowTable, _ old: [Value], _ stored: [Value]) throws -> Bool {
        guard old != stored else { return true }
        guard existing == .sameKey else { return false }
        before.append((table, old))
        return true
    }

    /// No rows for a table that only this store has.
    private func theirRows(_ table: RowTable) throws -> RowReader {
        try RowReader(other, theirTables, first: table.first, defaults: table.definition.columns.map { _ in .null })
    }

    private mutating func note(_ table: RowTable, _ row: [Value]) {
        ours.append((table, row))
        names.formUnion(table.names(of: row))
    }

    /// A row with equal bytes that refers to a row with a new number is not the same row as the space's.
    private mutating func findThoseOfSeparateParents() throws {
        var known = Set(ours.map { RowReference($0.table.name, $0.table.key(of: $0.row)) })
        var isComplete = names.isEmpty
        while !isComplete {
            isComplete = true
            for table in tables where table.hasReferences && table.definition.rowidAlias != nil {
                let rows = try RowReader(db, table.definition)
                while let row = try rows.next() {
                    let refersToOurs = table.references.indices.contains { table.parentName($0, in: row).map(names.contains) ?? false }
                    guard refersToOurs, known.insert(RowReference(table.name, table.key(of: row))).inserted else { continue }
                    note(table, row)
                    isComplete = false
                }
            }
        }
    }

    // MARK: The space's rows

    private mutating func takeIn(_ table: RowTable) throws {
        let theirs = try theirRows(table)
        while let row = try theirs.next() {
            guard try table.row(table.key(of: row)) == nil else { continue }
            try table.insert(row)
            try session.checks.noteNew(table, row)
            summary.takenIn += 1
        }
        for (_, row) in gone.filter({ $0.table === table }) { session.checks.noteGone(table, row) }
    }

    private func record(since mark: [Int64: Int64], _ renamed: [RenumberedRows.Renaming] = []) throws {
        let spans = session.spans(since: mark)
        guard !spans.isEmpty else { return }
        let info = TransactionInfo(id: step.environment.makeTransactionID(), time: try step.tick(), contextName: "join")
        let number = try TransactionRecorder.record(
            db, spans: spans, info: info, origin: .rebase, process: step.environment.processName, replica: state.replica)
        try RenumberedRows.note(db, renamed, in: number)
        session.untrackedChildren.follow(renamed)
    }

    // MARK: Rebasing this store's rows

    /// Two transactions: the rows that the space may know under their keys, and then what it cannot know.
    private mutating func rebase(_ base: MergePolicies) throws {
        let mark = session.historyMark()
        let policies = try MergePolicies(PolicyTable.load(db, for: session.registry), over: base)
        var joining = policies
        joining.setKeyRule(existing == .separate ? .renumber : .mergeRows)
        let rebase = Rebase(
            session: session, rowIdentities: try storedRows(), policies: joining, replica: state.replica,
            relayTime: step.environment.now(), highestKeys: try highestKeys())
        let rows = ours.map { TableChange(table: $0.table.name, change: .insert($0.row)) }
        var renamed: [RenumberedRows.Renaming] = []
        if !rows.isEmpty { renamed += try append(rows, rebase) }
        rebase.context.use(policies)
        if !unsent.isEmpty { renamed += try append(unsent, rebase) }
        try HighestKeys.save(db, session.highestKeys)
        try record(since: mark, renamed)
    }

    /// The space's rows under the keys of this store's rows. They count as inserted by others, except where it is known which values of
    /// them this store had.
    private func storedRows() throws -> RowIdentities {
        let notes = RowIdentityRecorder()
        func note(_ table: RowTable, _ key: [Value], _ old: [Value]? = nil) throws {
            if let stored = try table.row(key) { notes.note(table, old, stored, nil) }
        }
        for (table, row) in before { try note(table, table.key(of: row), row) }
        for (table, row) in ours { try note(table, table.key(of: row)) }
        for change in unsent {
            guard case .insert(let row) = change.change else { continue }
            let table = try session.table(named: change.table)
            try note(table, table.key(of: row))
        }
        notes.endEntry(by: WriteMark(time: try step.clock().last, replica: state.replica, position: state.position))
        return notes.identities
    }

    private func highestKeys() throws -> [String: Int64] {
        var highest = try HighestKeys.load(db)
        for (table, row) in gone + ours {
            guard let columnIndex = table.definition.rowidAlias, let key = row[columnIndex].integer else { continue }
            highest[table.first.name] = max(highest[table.first.name] ?? 0, key)
        }
        return highest
    }

    /// Rebases changes as one transaction, and adds it to the outbox. It counts as the earlier write: if both sides have a value, the
    /// space's value wins.
    private mutating func append(_ changes: [TableChange], _ rebase: Rebase) throws -> [RenumberedRows.Renaming] {
        var transaction = OutboxTransaction(
            info: TransactionInfo(
                id: step.environment.makeTransactionID(), time: .zero, replicaName: state.name, contextName: "join"),
            changes: changes)
        let rebased = try rebase.rebase(transaction)
        summary.conflicts += rebased.conflicts
        transaction.info.time = try step.tick()
        let parts = Outbox.PartWriter(db, limits: step.outboxLimits)
        let draft = try BodyBuilder.rewritten(
            transaction, rebased, order: session.tableOrder, key: try step.cipher()?.footprintKey ?? .none, parts: parts)
        if let draft { try Outbox.append(db, draft) }
        return rebased.renamed
    }
}

extension RowTable {
    /// A row with other values in some columns, by folded name.
    fileprivate func row(_ row: [Value], with cells: [String: Value]) -> [Value] {
        zip(definition.columns, row).map { column, value in cells[column.name.foldedIdentifier] ?? value }
    }
}
