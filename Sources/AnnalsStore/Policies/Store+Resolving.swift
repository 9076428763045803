public import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// What it came to that a person settled a conflict.
public enum ConflictSettlement: Sendable, Hashable {
    /// The row has what was asked for, and had it not before.
    case changed
    /// The row held that already; the conflict counts as resolved from now on.
    case agreed
    /// The same, and it was resolved before: nothing was changed at all.
    case nothingToDo
}

extension Store {
    /// Settles a line of the conflict journal otherwise, or for good: the row gets the values of one side, or others.
    ///
    ///     try await store.resolve(17, taking: .incoming)
    ///     try await store.resolve(18, setting: ["email": .text("ann@example.org")])
    ///
    /// What is asked for is compared with the row as it is now, whoever won then. What differs is a new transaction, which
    /// other replicas take in like any other, and the line counts as resolved on all of them.
    ///
    /// - Parameters:
    ///   - id: of the line, as `conflicts` gives it.
    ///   - side: whose values the row gets; the incoming ones where neither a side nor values are given.
    ///   - values: by column, over those of the side.
    ///   - author: who does it, as history tells.
    /// - Throws: `AnnalsError`: `usage` when there is no such line or column, or the line tells of something that cannot be
    ///   had, `constraint` when the row as decided breaks one, with table, key and constraint. Nothing is changed then.
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
