import AnnalsCore
import AnnalsHistory
import AnnalsReplica
public import AnnalsRows
import AnnalsSchema
import GRDB

/// What a revert came to.
public struct RevertOutcome: Hashable, Sendable {
    /// The new transaction; nil where nothing had to be changed, and of a trial.
    public var number: Int64?
    /// The rows that were inserted, updated and deleted.
    public var rows: DifferenceCount
    /// Rows whose later work was overwritten, or that could not be reached, because of `force`.
    public var forced: Int
}

extension Store {
    /// Does the inverse of a transaction as a new one of origin local, whose context has the token of what was reverted.
    ///
    ///     let outcome = try await store.revert(transaction: transaction.number)
    ///
    /// Rows that later work touched in other columns keep that work. On a joined store the new transaction is sent like any
    /// other. Triggers of the user's that write tracked tables stay silent, since their effects are in the transaction; those
    /// that keep untracked tables run. The rows of the transaction whose key or unique values it changed are held in memory.
    ///
    /// - Parameters:
    ///   - number: a transaction of any origin.
    ///   - author: who does it, as history tells.
    ///   - force: overwrites later work on the same columns and rows. A row that is gone since stays so.
    ///   - isTrial: everything is tried and nothing is kept.
    /// - Throws: `AnnalsError`; nothing is changed then. `rowsDiffer` where later work would be lost, naming rows and
    ///   columns; `constraint` where the rows would break one, whether forced or not; `tokenExpired` or `tokenUnknown` where
    ///   history does not hold the transaction.
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
    /// The token after a transaction; unlike its number it means something on other replicas too.
    ///
    /// - Throws: `AnnalsError` with code `tokenExpired` or `tokenUnknown` when history does not hold the transaction.
    func tokenOfHeld(_ number: Int64) throws -> HistoryToken {
        guard number > oldest.number, number <= latest.number else {
            throw AnnalsError(
                number > 0 && number <= oldest.number ? .tokenExpired : .tokenUnknown, operation: "history",
                "history holds no transaction \(number)", hint: "It reaches from \(oldest) to \(latest)")
        }
        return HistoryToken(number: number, store: storeID)
    }
}
