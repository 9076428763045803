import AnnalsCore
import AnnalsHistory
import AnnalsReplica
public import AnnalsRows
import AnnalsSchema
import GRDB

/// The result of a revert.
public struct RevertOutcome: Hashable, Sendable {
    /// The new transaction; nil if nothing had to be changed, and for a trial.
    public var number: Int64?
    /// The numbers of inserted, updated and deleted rows.
    public var rows: DifferenceCount
    /// The number of rows for which `force` overwrote later changes, or that could not be restored.
    public var forced: Int
}

extension Store {
    /// Undoes a transaction by a new transaction of origin local. Its context has the token of the reverted transaction.
    ///
    ///     let outcome = try await store.revert(transaction: transaction.number)
    ///
    /// If later transactions changed other columns of a row, those changes stay. In a joined store the new transaction is synced
    /// like any other. The user's triggers that write to tracked tables do not run, because their effects are in the transaction.
    /// Triggers that write to untracked tables run. Rows of the transaction whose key or unique values it changed are held in
    /// memory.
    ///
    /// - Parameters:
    ///   - number: a transaction of any origin.
    ///   - author: the author in history.
    ///   - force: overwrites later changes of the same columns and rows. A row that was deleted since stays deleted.
    ///   - isTrial: performs everything, and then rolls it back.
    /// - Throws: `AnnalsError`; nothing is changed then. `rowsDiffer` if later changes would be lost, with the rows and columns;
    ///   `constraint` if the rows would violate one, with or without `force`; `tokenExpired` or `tokenUnknown` if history does not
    ///   have the transaction.
    @discardableResult
    public func revert(
        transaction number: Int64, author: String? = nil, force: Bool = false, isTrial: Bool = false
    ) async throws -> RevertOutcome {
        try await merging("revert", commits: !isTrial) { db, step in
            guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
            try step.recordExternal()
            let token = try HistoryBounds(db).tokenOfHeld(number)
            let tables = try step.tables()
            let reverting = try Reverting(db, tables: tables, transaction: number, isForced: force)
            let (_, made) = try TransactionRecorder.managedWrite(db, author: author, contextName: "revert of \(token)", step.environment) {
                _ in
                try reverting.run()
                guard let left = try reverting.session.untrackedChildren.firstLeft() else { return }
                throw AnnalsError(
                    .constraint, operation: "revert", "transaction \(number) cannot be reverted: rows of \(left) would have no parent",
                    hint: "Nothing was changed; change what is in the way first")
            }
            return RevertOutcome(number: isTrial ? nil : made, rows: reverting.count, forced: force ? reverting.forced : 0)
        }
    }
}

extension HistoryBounds {
    /// The token after a transaction. Unlike the transaction's number, it is meaningful on other replicas too.
    ///
    /// - Throws: `AnnalsError` with code `tokenExpired` or `tokenUnknown` if history does not have the transaction.
    func tokenOfHeld(_ number: Int64) throws -> HistoryToken {
        guard number > oldest.number, number <= latest.number else {
            throw AnnalsError(
                number > 0 && number <= oldest.number ? .tokenExpired : .tokenUnknown, operation: "history",
                "history holds no transaction \(number)", hint: "It reaches from \(oldest) to \(latest)")
        }
        return HistoryToken(number: number, store: storeID)
    }
}
