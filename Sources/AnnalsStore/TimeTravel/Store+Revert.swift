import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
public import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// The result of a revert.
public struct RevertOutcome: Hashable, Sendable {
    /// The new transaction; nil if nothing had to be changed, and for a trial.
    public var number: Int64?
    /// The numbers of inserted, updated and deleted rows.
    public var rows: DifferenceCount
    /// The number of rows with later changes that were kept or overwritten, as `LaterChanges` says.
    public var forced: Int
    /// The number of reverted transactions.
    public var transactions = 1
    /// The number of inserted and deleted rows that stay as they are, because only columns were to be reverted.
    public var leftOut = 0
}

/// The result of a restore.
public struct RestoreOutcome: Hashable, Sendable {
    /// The restored point of history.
    public var token: HistoryToken
    /// The new transaction; nil if nothing had to be changed, and for a trial.
    public var number: Int64?
    /// The numbers of inserted, updated and deleted rows.
    public var rows: DifferenceCount
    /// Differences between the store and the point, as sentences for a person. Example: a table was dropped since.
    public var notes: [String]
}

extension Store {
    /// Undoes a transaction, or a part of it, by a new transaction of origin local. Its context has the token of the reverted
    /// transaction.
    ///
    ///     let outcome = try await store.revert(transaction: transaction.number)
    ///
    /// If later transactions changed other columns of a row, those changes stay. In a joined store the new transaction is synced
    /// like any other. The user's triggers that write to tracked tables do not run, because their effects are in the transaction.
    /// Triggers that write to untracked tables run.
    ///
    /// - Parameters:
    ///   - number: a transaction of any origin.
    ///   - part: the table, row or columns to undo; nil for the whole transaction.
    ///   - moments: undoes only what the transaction wrote between them, if it holds several commits of other programs.
    ///   - author: the author in history.
    ///   - later: what happens to rows that were changed since.
    ///   - isTrial: performs everything, and then rolls it back.
    ///   - visit: called with each row that the revert changes, before and after, also in a trial. No program can write while it
    ///     runs. An error that it throws ends the revert, and nothing is changed.
    /// - Throws: `AnnalsError`; nothing is changed then. `rowsDiffer` if later changes would be lost, with a `RevertRefusal` that
    ///   names the rows and the later transactions; `constraint` if the rows would violate one, also if later changes are overwritten;
    ///   `rowNotFound` if the transaction did not change the part; `notTracked` or `usage` if the part does not fit the tables or the moments the
    ///   transaction; `tokenExpired` or `tokenUnknown` if history does not have the transaction.
    @discardableResult
    public func revert(
        transaction number: Int64, part: RevertPart? = nil, moments: RevertMoments? = nil, author: String? = nil,
        later: LaterChanges = .refuse, isTrial: Bool = false, visit: (@Sendable (HistoryChange) throws -> Void)? = nil
    ) async throws -> RevertOutcome {
        try await reverting(RevertRun(author: author, isTrial: isTrial, visit: visit)) { db, tables in
            let token = try HistoryBounds(db).tokenOfHeld(number)
            try UnknownRows.checkRevert(of: number, db)
            let reverting = try Reverting(db, tables: tables, transaction: number, part: part, moments: moments, later: later)
            let isPart = part != nil || moments != nil
            return (
                reverting, "\(isPart ? Self.partialRevertContext : Self.revertContext)\(token)", "transaction \(number) cannot be reverted"
            )
        }
    }

    /// Undoes everything that an author's transactions did between two points of history, by one new transaction of origin local.
    ///
    ///     let outcome = try await store.revert(by: "till 3", after: yesterday)
    ///     print(outcome.transactions, outcome.rows.total)
    ///
    /// Transactions that other replicas made under the author's name count too, and those without an author if the name is that of
    /// their replica. Their effects are undone together: a row that the
    /// author inserted and deleted again is left as it is. What others wrote after the author is protected as in
    /// `revert(transaction:part:moments:author:later:isTrial:visit:)`. If others changed a column between two changes of the author, the
    /// column is in the way, too. The changes are gathered in a temporary database on disk.
    ///
    /// - Parameters:
    ///   - name: the author of the transactions to undo.
    ///   - start: the point after which they begin, which is excluded; nil for the oldest point.
    ///   - end: the point before which they end, which is excluded; nil for the latest transaction and those before.
    ///   - part: the table, row or columns to undo; nil for everything.
    ///   - author: the author of the new transaction.
    ///   - later: what happens to rows that others changed.
    ///   - isTrial: performs everything, and then rolls it back.
    ///   - visit: called with each row that the revert changes, before and after.
    /// - Throws: `AnnalsError`; nothing is changed then. `rowNotFound` if the author has no transaction there; otherwise as for one
    ///   transaction.
    @discardableResult
    public func revert(
        by name: String, after start: HistoryToken? = nil, before end: HistoryToken? = nil, part: RevertPart? = nil,
        author: String? = nil, later: LaterChanges = .refuse, isTrial: Bool = false,
        visit: (@Sendable (HistoryChange) throws -> Void)? = nil
    ) async throws -> RevertOutcome {
        let request = HistoryRequest(after: start).before(end)
        return try await revert(request, by: name, part: part, author: author, later: later, isTrial: isTrial, visit: visit)
    }

    /// - Parameter request: the range of the transactions.
    package func revert(
        _ request: HistoryRequest, by name: String, part: RevertPart? = nil, author: String? = nil, later: LaterChanges = .refuse,
        isTrial: Bool = false, visit: (@Sendable (HistoryChange) throws -> Void)? = nil
    ) async throws -> RevertOutcome {
        try await reverting(RevertRun(author: author, isTrial: isTrial, visit: visit)) { db, tables in
            let writer = try KnownReplicas(db).writer(named: name)
            let reverting = try Reverting(db, tables: tables, author: writer, request, part: part, later: later)
            return (reverting, "revert of the work of \(name)", "the work of \(name) cannot be reverted")
        }
    }

    /// What the context of a reverting transaction begins with.
    static let revertContext = "revert of "
    /// The same for a part of a transaction, the rest of which counts as not undone.
    private static let partialRevertContext = "revert of a part of "

    private func reverting(
        _ run: RevertRun, _ make: @escaping @Sendable (Database, TrackedTables) throws -> (Reverting, context: String, cannot: String)
    ) async throws -> RevertOutcome {
        try await merging("revert", commits: !run.isTrial) { db, step in
            guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
            try step.recordExternal()
            let (reverting, context, cannot) = try make(db, step.tables())
            let made = try run.write(reverting, context: context, cannot: cannot, "revert", db, step)
            return RevertOutcome(
                number: made, rows: reverting.count, forced: reverting.forced, transactions: reverting.transactions,
                leftOut: reverting.leftOut)
        }
    }

    /// Gives the tracked tables the rows that they had at a point of history, in place, by one new transaction of origin local.
    ///
    ///     let outcome = try await store.restore(to: yesterday, tables: ["customer", "invoice"])
    ///     print(outcome.rows.total, outcome.notes)
    ///
    /// Other tables stay as they are. Tables and columns are the current ones: a column that was added since keeps its values, and has
    /// its default in rows that come back. The user's triggers run as for a revert. In a joined store the new transaction is synced
    /// like any other. The difference is gathered in a temporary database on disk, so memory does not grow with it.
    ///
    /// - Parameters:
    ///   - point: the point of history.
    ///   - names: the names of the tables; empty for all tracked tables.
    ///   - author: the author in history.
    ///   - isTrial: performs everything, and then rolls it back.
    ///   - visit: called with each row that the restore changes, before and after, also in a trial. No program can write while it
    ///     runs. An error that it throws ends the restore, and nothing is changed.
    /// - Throws: `AnnalsError`; nothing is changed then. `constraint` if a reference or another constraint would break, for instance
    ///   because rows of a table that is not named refer to the named ones; `rowsDiffer` if a row with NULL in its key was changed;
    ///   `diverged` if the rows differ from history; `notTracked`, `tokenExpired` or `tokenUnknown`.
    @discardableResult
    public func restore(
        to point: HistoryPoint, tables names: [String] = [], author: String? = nil, isTrial: Bool = false,
        visit: (@Sendable (HistoryChange) throws -> Void)? = nil
    ) async throws -> RestoreOutcome {
        let run = RevertRun(author: author, isTrial: isTrial, visit: visit)
        return try await merging("restore", commits: !isTrial) { db, step in
            guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
            try step.recordExternal()
            try HistoryBounds(db).check(point.token)
            let restoring = try Reverting(db, tables: step.tables(), to: point, of: names)
            let made = try run.write(
                restoring, context: "restore to \(point)", cannot: "the rows of \(point) cannot be restored", "restore", db, step)
            let notes =
                (point.note.map { [$0] } ?? [])
                + restoring.left.map { "the table \($0) is not tracked any more, and was left as it is" }
                + restoring.emptied.map { "the table \($0) is empty now: it had no rows at that point, or did not exist" }
            return RestoreOutcome(token: point.token, number: made, rows: restoring.count, notes: notes)
        }
    }

    /// Gives the tracked tables the rows that they had at the end of a transaction, in place.
    @discardableResult
    public func restore(
        to token: HistoryToken, tables names: [String] = [], author: String? = nil, isTrial: Bool = false,
        visit: (@Sendable (HistoryChange) throws -> Void)? = nil
    ) async throws -> RestoreOutcome {
        try await restore(to: HistoryPoint(token), tables: names, author: author, isTrial: isTrial, visit: visit)
    }
}

/// What reverts and restores have in common.
private struct RevertRun: Sendable {
    var author: String?
    var isTrial: Bool
    var visit: (@Sendable (HistoryChange) throws -> Void)?

    /// Returns the number of the new transaction; nil if nothing had to be changed, and for a trial.
    func write(
        _ reverting: Reverting, context: String, cannot: String, _ operation: String, _ db: Database, _ step: StoreStep
    ) throws -> Int64? {
        let (_, made) = try TransactionRecorder.managedWrite(
            db, author: author, contextName: context, origin: .undo, step.environment
        ) { _ in
            try reverting.run()
            guard let left = try reverting.session.untrackedChildren.firstLeft() else { return }
            throw AnnalsError(
                .constraint, operation: operation, "\(cannot): rows of \(left) would have no parent",
                hint: "Nothing was changed; change the rows that prevent it first")
        }
        if let visit, let made {
            let reader = try HistoryReader(db, tables: step.tables())
            if let transaction = try reader.transaction(made) {
                try reader.forEachChange(in: transaction) { change in try ClosureError.passing { try visit(change) } }
            }
        }
        return isTrial ? nil : made
    }
}

extension HistoryBounds {
    /// The token after a transaction. Unlike the transaction's number, it is meaningful on other replicas too.
    ///
    /// - Throws: `AnnalsError` with code `tokenExpired` or `tokenUnknown` if history does not have the transaction.
    func tokenOfHeld(_ number: Int64) throws -> HistoryToken {
        guard number > oldest.number, number <= latest.number else {
            throw noTransaction(number, operation: "history")
        }
        return HistoryToken(number: number, store: storeID)
    }
}
