import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// What becomes of a store's rows that differ from the space's when the store joins it. Rows that are equal in key and
/// bytes are the same rows in any case.
public enum ExistingRows: String, Sendable, CaseIterable {
    /// The same key means the same row: columns that differ take the space's value, and ours is in the conflict journal.
    case sameKey = "same-key"
    /// An integer key means another row: ours gets the next number, and what refers to it follows. Other keys join rows.
    case separate
    /// The space's rows stand, and ours go; history still has them.
    case theirs
}

/// What a join with `ExistingRows` did.
package struct ExistingSummary: Sendable {
    /// Rows of this store that the space had not, or had otherwise.
    package var differing = 0
    /// Rows of the space that came in.
    package var takenIn = 0
    /// Lines of the conflict journal that tell what lost.
    package var conflicts = 0
}

extension Store {
    /// Makes this store the replica that `clone` is, though their rows differ: one SQLite transaction in which the space's
    /// rows come in and ours are laid on top, as if the space's had been written unseen, and had been written later
    /// (merge rule 40). What is left of ours waits in the outbox as one transaction.
    ///
    /// - Parameters:
    ///   - clone: a replica of the space at its head. It is given up afterwards.
    ///   - existing: what becomes of rows that differ.
    ///   - schema: what may be declared otherwise.
    package func adopt(_ clone: Store, existing: ExistingRows, schema: JoinedSchema = .equal) async throws -> ExistingSummary {
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

/// Brings the rows of two replicas together.
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
    private var summary = ExistingSummary()
    /// Rows of ours that become a transaction; those in `gone` leave their places to the space's.
    private var ours: [(table: RowTable, row: [Value])] = []
    private var gone: [(table: RowTable, row: [Value])] = []
    private var names: Set<CandidateKey> = []

    init(db: Database, other: Database, step: StoreStep, existing: ExistingRows, _ schema: JoinedSchema) throws {
        guard let state = try ReplicaState.load(other) else { throw AnnalsError(.defect, operation: "join", "the clone is no replica") }
        try JoiningNames(db, other).save(step.tables())
        step.forgetComparison()
        let registry = try step.tables()
        theirTables = try TrackedTables.load(other)
        comparison = try .joining(registry, other, schema)
        self.db = db
        self.other = other
        self.step = step
        self.existing = existing
        self.state = state
        let session = MergeSession(db, registry: registry)
        self.session = session
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
        try session.keepLacked(from: other)
        step.forgetComparison()
        try step.filler().offer(comparison.ahead) {
            TransactionInfo(id: step.environment.makeTransactionID(), time: try step.tick(), origin: .migration)
        }
        summary.differing = gone.count
        // Of a table that only this store has the space has no rows that could stand.
        if existing == .theirs { ours.removeAll { theirTables.table(first: $0.table.first.name) != nil } }
        if !ours.isEmpty { try rebase(base) }
        guard try session.checks.dangling().isEmpty else {
            throw AnnalsError(
                .rowsDiffer, operation: "join", "rows of this store would be left without what they refer to", hint: "Nothing was changed")
        }
        try session.untrackedChildren.settle()
        try Meta(db).set(.outboxed, try step.newestTransaction())
        return summary
    }

    // MARK: Which rows are ours

    private mutating func findOurs(_ table: RowTable) throws {
        let rows = try RowReader(db, table.definition)
        let theirs = try theirRows(table)
        while let row = try rows.next() {
            if try theirs.row(table.key(of: row)) == row { continue }
            gone.append((table, row))
            note(table, row)
        }
    }

    /// None of a table that only this store has.
    private func theirRows(_ table: RowTable) throws -> RowReader {
        try RowReader(other, theirTables, first: table.first, defaults: table.definition.columns.map { _ in .null })
    }

    private mutating func note(_ table: RowTable, _ row: [Value]) {
        ours.append((table, row))
        names.formUnion(table.names(of: row))
    }

    /// A row that is equal in bytes, but refers to a row that gets a number of its own, is not the space's row.
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
        let info = TransactionInfo(id: step.environment.makeTransactionID(), time: try step.tick(), author: state.name, contextName: "join")
        let number = try TransactionRecorder.record(
            db, spans: spans, info: info, origin: .rebase, process: step.environment.processName, replica: state.replica)
        try RenumberedRows.note(db, renamed, in: number)
        try session.untrackedChildren.follow(renamed)
    }

    // MARK: Ours on top

    private mutating func rebase(_ base: MergePolicies) throws {
        let mark = session.historyMark()
        var policies = try MergePolicies(PolicyTable.load(db, for: session.registry), over: base)
        policies.setKeyRule(existing == .separate ? .renumber : .mergeRows)
        let notes = LineageRecorder()
        for (table, row) in ours {
            if let stored = try table.row(table.key(of: row)) { notes.note(table, nil, stored, nil) }
        }
        notes.endEntry(by: WriteMark(time: try step.clock().last, replica: state.replica, position: state.position))
        // As if it had been written first: where both hold a value, the space's stands.
        var transaction = OutboxTransaction(
            info: TransactionInfo(
                id: step.environment.makeTransactionID(), time: .zero, author: state.name, contextName: "join", origin: .local),
            changes: ours.map { TableChange(table: $0.table.name, change: .insert($0.row)) })
        var highest = try HighestKeys.load(db)
        for (table, row) in ours {
            guard let place = table.definition.rowidAlias, let key = row[place].integer else { continue }
            highest[table.first.name] = max(highest[table.first.name] ?? 0, key)
        }
        let rebase = Rebase(
            session: session, lineage: notes.lineage, policies: policies, replica: state.replica, relayTime: step.environment.now(),
            highestKeys: highest)
        let rebased = try rebase.rebase(transaction)
        summary.conflicts = rebased.conflicts
        transaction.info.time = try step.tick()
        let parts = Outbox.PartWriter(db, limits: step.outboxLimits)
        let draft = try BodyBuilder.rewritten(
            transaction, rebased, order: session.tableOrder, key: try step.cipher()?.footprintKey ?? .none, parts: parts)
        if let draft { try Outbox.append(db, draft) }
        try HighestKeys.save(db, session.highestKeys)
        try record(since: mark, rebased.renamed)
    }
}
