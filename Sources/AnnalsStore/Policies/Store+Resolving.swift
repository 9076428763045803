public import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// The result of resolving a conflict.
public enum ConflictSettlement: Sendable, Hashable {
    /// The row was changed to the requested values.
    case changed
    /// The row had the requested values already. The conflict now counts as resolved.
    case agreed
    /// The row had the requested values already, and the conflict was resolved before. Nothing was changed.
    case nothingToDo
}

extension Store {
    /// Resolves an entry of the conflict journal: the row gets the values of one side, or other values.
    ///
    ///     try await store.resolve(17, taking: .incoming)
    ///     try await store.resolve(18, setting: ["email": .text("ann@example.org")])
    ///
    /// The requested values are compared with the current row, whichever side won before. Differences become a new transaction,
    /// which other replicas apply like any other. The journal entry counts as resolved on all replicas.
    ///
    /// - Parameters:
    ///   - id: the id of the journal entry, from `conflicts`.
    ///   - side: the side that gives the row's values; the incoming side if neither a side nor values are given.
    ///   - values: values by column, which replace those of the side.
    ///   - author: the author in history.
    /// - Throws: `AnnalsError`: `usage` if there is no such journal entry or column, or if the entry's values cannot be restored;
    ///   `constraint` if the new row violates one, with table, key and constraint. Nothing is changed then.
    @discardableResult
    public func resolve(
        _ id: Int64, taking side: JournalEntry.Side? = nil, setting values: [String: Value] = [:], author: String? = nil
    ) async throws -> ConflictSettlement {
        try await managed("resolve") { db, step in
            let found = try StoreSchema.isReplica(db) ? ConflictJournal.find(db, id, step.tables()) : nil
            guard let conflict = found else {
                throw AnnalsError(.usage, operation: "resolve", "there is no conflict \(id)", hint: "annals conflicts lists them")
            }
            try step.recordExternal()
            let tables = try step.tables()
            guard let table = tables.entries.first(where: { $0.definition.name.isSameIdentifier(as: conflict.entry.table) }) else {
                throw AnnalsError(.notTracked, operation: "resolve", "the table \(conflict.entry.table) is not tracked any more")
            }
            try step.schemaComparison()
            let filler = try step.filler()
            try filler.fill()
            let side = side ?? (values.isEmpty ? .incoming : nil)
            let (_, number) = try TransactionRecorder.managedWrite(
                db, author: author, contextName: "resolve", step.environment
            ) { db in
                try Resolving(
                    row: ManualEdit(db: db, table: table.definition, tables: tables), conflict: conflict,
                    renumbered: RenumberedKeys(db, with: conflict, tables.ownNames)
                ).write(side, values)
            }
            if let number { try UndetectedChanges.tell(db, after: number - 1) }
            if number == nil, conflict.isResolved { return .nothingToDo }
            let choice: ConflictResolution.Choice = !values.isEmpty ? .values : side == .stored ? .stored : .incoming
            let decisions = UserDecisions(resolutions: [ConflictResolution(conflict: conflict.name, choice: choice)])
            try filler.append(decisions, with: number, as: step.identities.next(), time: step.tick(), author: author)
            try decisions.apply(db)
            return number == nil ? .agreed : .changed
        }
    }
}
