import AnnalsCore
import AnnalsSchema
import AnnalsStore
import GRDB

/// One save, within its SQLite transaction.
///
/// First every row that was edited or deleted is compared with what is stored, and the policy settles what others changed. What is
/// left is written: rows that go, new rows, then changed ones. A row that a constraint refuses waits for the others, since they may
/// make room for it; when nothing moves any more the policy decides, or the save fails.
struct Saving {
    let session: SaveSession
    let policy: MergePolicy
    var edits: EditSet
    var waiting: [PlannedRow] = []
    var result: EditSet.Saved
    /// What rows of this save are called now: new ones by their real keys, dropped ones by the rows in their place.
    var names: [PersistentIdentifier: PersistentIdentifier] = [:]
    /// Rows that this save wrote, with the places that it gave other values; of new rows all.
    var written: [PersistentIdentifier: Set<Int>] = [:]
    /// What a resolver answered for rows whose values are taken.
    var answers: [PersistentIdentifier: Set<Answer>] = [:]
    /// Rows that were deleted since they held what another was to have.
    var displaced: [PlannedRow] = []
    /// Rows that this save made, as they are called now.
    var made: Set<PersistentIdentifier> = []
    var settledConflicts: [MergeConflict] = []
    var settledConstraints: [ConstraintConflict] = []

    var db: Database { session.db }

    init(_ session: SaveSession, _ edits: EditSet, _ policy: MergePolicy) {
        self.session = session
        self.policy = policy
        self.edits = edits
        result = EditSet.Saved(start: edits, newest: edits.newest)
    }

    /// What a save did.
    struct Outcome {
        var rows: EditSet.Saved
        var conflicts: [MergeConflict]
        var constraints: [ConstraintConflict]
        var identifiers: [PersistentIdentifier: PersistentIdentifier]

        func summary(_ token: HistoryToken?) -> SavedEdits {
            SavedEdits(token: token, identifiers: identifiers, mergeConflicts: conflicts, constraintConflicts: constraints)
        }
    }

    mutating func run() throws -> Outcome {
        edits.move(to: session.catalog)
        let newest = try session.newestTransaction()
        result.renumbered = try Store.renumberedRows(db, after: edits.oldest)
        let renumbered = edits.follow(result.renumbered, upTo: newest)
        result.start = edits
        result.newest = newest
        try plan()
        try write()
        if session.hasBrokenForeignKeys { throw AnnalsError.refused(try brokenForeignKeys()) }
        try noteOutcomes()
        result.names = names
        let before = Dictionary(renumbered.map { ($1, $0) }, uniquingKeysWith: { $1 })
        var renamed: [PersistentIdentifier: PersistentIdentifier] = [:]
        for (followed, row) in result.rows where (before[followed] ?? followed) != row.identifier {
            renamed[before[followed] ?? followed] = row.identifier
        }
        return Outcome(rows: result, conflicts: settledConflicts, constraints: settledConstraints, identifiers: renamed)
    }

    /// Takes note of known rows that the save's own cascades and triggers wrote, as its transaction tells: nobody else did.
    static func noteEffects(
        _ session: SaveSession, _ outcome: inout Outcome, _ touched: ([String]) throws -> Set<PersistentIdentifier>
    ) throws {
        let saved = outcome.rows
        let written = Set(saved.rows.values.map(\.identifier)).union(saved.rows.keys)
        let others = saved.start.rows.keys.lazy.filter { !written.contains($0) }
        let tables = Set(others.map(\.table))
        guard !tables.isEmpty else { return }
        for identifier in try touched(tables.sorted()) where saved.start.rows[identifier] != nil && !written.contains(identifier) {
            outcome.rows.effects[identifier] = try row(identifier, session)
        }
    }

    private static func row(_ identifier: PersistentIdentifier, _ session: SaveSession) throws -> EditSet.Saved.Row? {
        guard let table = session.catalog[identifier.table] else { return nil }
        var saved = EditSet.Saved.Row(identifier: identifier, stored: try session.row(identifier.key, of: table), generated: [:])
        if saved.stored != nil, !table.generatedColumns.isEmpty, let row = try identifier.fetch(session.db) {
            for column in table.generatedColumns { saved.generated[column.name] = row[column.name] }
        }
        return saved
    }

    /// What the rows of the save hold now: the next edits begin with that.
    private mutating func noteOutcomes() throws {
        for (followed, row) in edits.rows where row.hasEdits {
            let identifier = names[followed] ?? followed
            guard var saved = try Self.row(identifier, session) else { continue }
            saved.isNew = made.contains(identifier)
            result.rows[followed] = saved
        }
    }
}

/// One row that is to be written.
struct PlannedRow {
    enum Action {
        case insert
        /// The row as it is stored.
        case update(from: [Value])
        case delete(stored: [Value])
    }

    var identifier: PersistentIdentifier
    var row: EditedRow
    var action: Action
    /// As it is to be. A column is nil where a new row leaves it to its default.
    var values: [Value?]
    var refusal: Refused?

    var table: DeclaredTable { row.table }

    /// Places that get other values than are stored; of rows that come or go all.
    var changed: Set<Int> {
        guard case .update(let stored) = action else { return Set(values.indices) }
        return Set(stored.indices.filter { values[$0] != stored[$0] })
    }

    /// The key of a row that is stored, under which it is in nobody's way.
    var ownKey: [Value]? {
        if case .update = action { identifier.key } else { nil }
    }

    /// Parents whose end would be the row's, as it is stored, and not any more as it is to be.
    var leftParents: [PersistentIdentifier] {
        guard case .update(let stored) = action, row.table.foreignKeys.contains(where: { $0.onDelete == .cascade }) else { return [] }
        let kept = Set(row.references(in: values).map(\.parent))
        return row.references(in: stored).filter { $0.onDelete == .cascade && !kept.contains($0.parent) }.map(\.parent)
    }

    var mine: RowSnapshot? {
        if case .delete = action { return nil }
        return RowSnapshot(table, values)
    }
}

/// What a save did.
public struct SavedEdits: Sendable {
    /// The point of history right after it; nil where nothing was changed, or the store has no history.
    public var token: HistoryToken?
    /// What rows are called that were called otherwise before: new ones whose key SQLite made, and those in whose place a policy
    /// put a stored row.
    public var identifiers: [PersistentIdentifier: PersistentIdentifier] = [:]
    /// Conflicts that the policy settled.
    public var mergeConflicts: [MergeConflict] = []
    /// Unique values that were taken, as the policy settled it.
    public var constraintConflicts: [ConstraintConflict] = []
}

extension Store {
    /// A context for edits in memory.
    ///
    ///     let context = try await store.editContext(author: "till 3")
    ///
    /// - Parameters:
    ///   - author: who history says has written.
    ///   - contextName: what it is part of, as history tells.
    ///   - mergePolicy: what a save does where others changed the same rows.
    /// - Throws: `AnnalsError` when SQLite refuses to tell the tables.
    public func editContext(
        author: String? = nil, contextName: String? = nil, mergePolicy: MergePolicy = .error
    ) async throws -> EditContext {
        EditContext(self, try await emptyEdits(), author: author, contextName: contextName, mergePolicy)
    }

    /// Writes records that were read before, if others did not change their rows since, or as a policy says.
    ///
    ///     try await store.write(author: "till 3", mergePolicy: .mergeByPropertyObjectTrump) { edits in
    ///         try edits.update(paid, from: invoice)
    ///         try edits.insert(Payment(invoiceID: invoice.id, amount: 120))
    ///     }
    ///
    /// It is an `EditContext` for one save. The plain `write` needs no policy: what its closure reads is what it writes over.
    ///
    /// - Throws: `AnnalsError`, see `AnnalsError.saveError`; what `makeEdits` throws. Nothing is changed then.
    @discardableResult
    public func write(
        author: String? = nil, contextName: String? = nil, mergePolicy: MergePolicy, _ makeEdits: (inout EditSet) throws -> Void
    ) async throws -> SavedEdits {
        var edits = try await emptyEdits()
        try makeEdits(&edits)
        guard edits.hasChanges else { return SavedEdits() }
        let all = edits
        let saved = try await save(author: author, contextName: contextName) {
            all
        } write: { session, edits in
            var saving = Saving(session, edits, mergePolicy)
            return try saving.run()
        } done: { saved, token in
            saved.summary(token)
        }
        return saved ?? SavedEdits()
    }

    private func emptyEdits() async throws -> EditSet {
        try await readForEditing { db, catalog, newest in
            // An app may use negative keys of its own.
            let keys = try catalog.all.filter { $0.kind == .table }.compactMap { table in
                try table.rowidAlias.flatMap { place in
                    try Int64.fetchOne(
                        db.cachedStatement(
                            sql: """
                                SELECT min(\(table.columns[place].name.quotedDatabaseIdentifier)) FROM \(table.name.quotedDatabaseIdentifier)
                                """))
                }
            }
            return EditSet(catalog, newest: newest, lowestKey: keys.min() ?? 0)
        }
    }
}
