import AnnalsCore
import AnnalsSchema
import AnnalsStore
import GRDB

/// One save, within its SQLite transaction.
///
/// First, every edited or deleted row is compared with the stored row, and the policy settles what others changed. Then the rows
/// are written: deletes, inserts, updates. A row that a constraint refuses is tried again after the others, because they may free
/// the value. When a round writes nothing, the policy decides, or the save fails.
struct Saving {
    let session: SaveSession
    let policy: MergePolicy
    var edits: EditSet
    var waiting: [PlannedRow] = []
    var result: EditSet.Saved
    /// Current identifiers of this save's rows: the real keys of new rows, and for dropped rows the stored rows that replace
    /// them.
    var names: [PersistentIdentifier: PersistentIdentifier] = [:]
    /// Rows that this save wrote, with the indexes of the changed columns; all columns for new rows.
    var written: [PersistentIdentifier: Set<Int>] = [:]
    /// A resolver's answers so far, for rows with taken values.
    var answers: [PersistentIdentifier: Set<Answer>] = [:]
    /// Stored rows that this save deleted because they had a unique value that another row needs.
    var displaced: [PlannedRow] = []
    /// Rows that this save inserted, by their current identifiers.
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

    /// The result of a save.
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

    /// Reads known rows that the save's own cascades and triggers wrote, so that they do not count as changes by others.
    ///
    /// - Parameters:
    ///   - known: the rows that the context has now.
    ///   - touched: the rows of some tables that the save's transaction wrote.
    static func noteEffects(
        _ session: SaveSession, _ outcome: inout Outcome, known: EditSet, _ touched: ([String]) throws -> Set<PersistentIdentifier>
    ) throws {
        let saved = outcome.rows
        let written = Set(saved.rows.values.map(\.identifier)).union(saved.rows.keys)
        guard known.rows.count > saved.rows.count || !saved.rows.keys.allSatisfy({ known.rows[$0] != nil }) else { return }
        // A context may know very many rows, mostly of the same table one after another.
        var tables: Set<String> = []
        var last: String?
        for identifier in known.rows.keys where identifier.table != last {
            tables.insert(identifier.table)
            last = identifier.table
        }
        // The context may know a renumbered row by its old key.
        func isKnown(_ identifier: PersistentIdentifier) -> Bool { known.rows[identifier] != nil || !saved.renumbered.isEmpty }
        for identifier in try touched(tables.sorted()) where isKnown(identifier) && !written.contains(identifier) {
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

    /// Reads the rows of the save as they are stored now. They are the base of the next edits.
    private mutating func noteOutcomes() throws {
        for (followed, row) in edits.rows where row.hasEdits {
            let identifier = names[followed] ?? followed
            guard var saved = try Self.row(identifier, session) else { continue }
            saved.isNew = made.contains(identifier)
            result.rows[followed] = saved
        }
    }
}

/// A row that is to be written.
struct PlannedRow {
    enum Action {
        case insert
        /// With the row as it is stored.
        case update(from: [Value])
        case delete(stored: [Value])
    }

    var identifier: PersistentIdentifier
    var row: EditedRow
    var action: Action
    /// The values to write. A column of a new row is nil if its default applies.
    var values: [Value?]
    var refusal: Refused?

    var table: DeclaredTable { row.table }

    /// Indexes of the columns whose values differ from the stored row; all columns for inserts and deletes.
    var changed: Set<Int> {
        guard case .update(let stored) = action else { return Set(values.indices) }
        return Set(stored.indices.filter { values[$0] != stored[$0] })
    }

    /// The stored key of an updated row. A row with that key is the row itself, so it is not a conflict.
    var ownKey: [Value]? {
        if case .update = action { identifier.key } else { nil }
    }

    /// Parents that the stored row refers to with ON DELETE CASCADE, and that the updated row no longer refers to.
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
    /// The point of history right after the save; nil if nothing was changed, or if the store has no history.
    public var token: HistoryToken?
    /// New identifiers by the former ones: new rows with the key that SQLite assigned, and rows for which the policy took a
    /// stored row.
    public var identifiers: [PersistentIdentifier: PersistentIdentifier] = [:]
    /// Conflicts that the policy settled.
    public var mergeConflicts: [MergeConflict] = []
    /// Taken unique values that the policy settled.
    public var constraintConflicts: [ConstraintConflict] = []
}

extension Store {
    /// Creates a context for edits in memory.
    ///
    ///     let context = try await store.editContext(author: "till 3")
    ///
    /// - Parameters:
    ///   - author: the author that history records.
    ///   - contextName: the context name that history records.
    ///   - mergePolicy: what a save does if others changed the same rows; nil: `Store.Configuration.mergePolicy`.
    /// - Throws: `AnnalsError` if SQLite cannot read the schema.
    public func editContext(
        author: String? = nil, contextName: String? = nil, mergePolicy: MergePolicy? = nil
    ) async throws -> EditContext {
        EditContext(self, try await emptyEdits(), author: author, contextName: contextName, mergePolicy ?? configuration.mergePolicy)
    }

    /// Writes records that were read before. If others changed their rows since, the merge policy decides.
    ///
    ///     try await store.write(author: "till 3", mergePolicy: .mergeByPropertyObjectTrump) { edits in
    ///         try edits.update(paid, from: invoice)
    ///         try edits.insert(Payment(invoiceID: invoice.id, amount: 120))
    ///     }
    ///
    /// The call is an `EditContext` for one save. The plain `write` needs no policy, because its closure reads and writes in one
    /// transaction.
    ///
    /// - Throws: `AnnalsError`, see `AnnalsError.saveError`; errors of `makeEdits`. In both cases nothing is changed.
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
            // An app may use negative keys itself.
            let keys = try catalog.all.filter { $0.kind == .table }.compactMap { table in
                try table.rowidAlias.flatMap { columnIndex in
                    try Int64.fetchOne(
                        db.cachedStatement(
                            sql: """
                                SELECT min(\(table.columns[columnIndex].name.quotedDatabaseIdentifier)) FROM \(table.name.quotedDatabaseIdentifier)
                                """))
                }
            }
            return EditSet(catalog, newest: newest, lowestKey: keys.min() ?? 0)
        }
    }
}
