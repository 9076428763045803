import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
public import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import GRDB

extension Store {
    /// Undoes the transaction after which a point of history is, such as that of a save, by one new transaction of origin local.
    ///
    ///     let saved = try await context.save()
    ///     if let token = saved.token { try await store.revert(token) }
    ///
    /// - Throws: as `revert(transaction:part:moments:author:later:isTrial:visit:)`; `tokenUnknown` for a token of another store, and
    ///   for the start of history.
    @discardableResult
    public func revert(_ token: HistoryToken, author: String? = nil, later: LaterChanges = .refuse) async throws -> RevertOutcome {
        try await translated("revert") {
            try await database.reading { db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
                try HistoryBounds(db).check(token)
            }
        }
        return try await revert(transaction: token.number, author: author, later: later)
    }

    /// Undoes the newest transaction of an author in this store that was not undone yet, by one new transaction of the same author.
    /// Repeat it to undo more of them; `redo` takes an undo back.
    ///
    ///     try await store.undo(by: "ann")
    ///     try await store.redo(by: "ann")
    ///
    /// Transactions of other replicas do not count, and what others wrote since is protected as in `revert`. A schema change is not
    /// undone: it ends what can be undone.
    ///
    /// - Parameter author: the author; nil for transactions without one.
    /// - Returns: nil if there is nothing to undo.
    /// - Throws: `AnnalsError` as `revert`; nothing is changed then. `rowsDiffer` if others changed the same rows since.
    @discardableResult
    public func undo(by author: String?) async throws -> RevertOutcome? {
        try await revertNewest(by: author) { try await self.lastWork(of: author, passing: $0).undoable }
    }

    /// Takes the newest undo of an author back, if the author has written nothing since; see `undo(by:)`.
    ///
    /// - Returns: nil if there is nothing to redo.
    /// - Throws: `AnnalsError` as `revert`; nothing is changed then.
    @discardableResult
    public func redo(by author: String?) async throws -> RevertOutcome? {
        try await revertNewest(by: author) { try await self.lastWork(of: author, passing: $0).redoable }
    }

    /// Reverts the newest transaction whose revert changes something: others may have set its rows back already.
    private func revertNewest(by author: String?, _ find: (Set<Int64>) async throws -> Int64?) async throws -> RevertOutcome? {
        var passed: Set<Int64> = []
        while let number = try await find(passed) {
            let outcome = try await revert(transaction: number, author: author)
            guard outcome.number == nil else { return outcome }
            passed.insert(number)
        }
        return nil
    }

    private func lastWork(of author: String?, passing passed: Set<Int64>) async throws -> LastWork {
        try await recordExternalChanges()
        return try await translated("revert") {
            try await database.reading { db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
                return try LastWork(of: author, passing: passed, db)
            }
        }
    }
}

/// What an author can undo and redo.
private struct LastWork: Sendable {
    /// The newest transaction that is not undone.
    private(set) var undoable: Int64?
    /// The newest undo that was not taken back; nil if a transaction of the author is newer.
    private(set) var redoable: Int64?

    /// - Parameter passed: transactions that count as undone.
    init(of author: String?, passing passed: Set<Int64>, _ db: Database) throws {
        let table = TransactionTable(db)
        let oldest = try HistoryBounds(db).oldest.number
        let rows = try table.rowsFromNewest(after: oldest)
        // A revert, of any author, names a transaction before it, so it is seen first.
        var undone = try passed.union(SerializableTable(db).withdrawn())
        while let row = try rows.next() {
            guard let origin = try TransactionOrigin(rawValue: row.value("origin")), TransactionOrigin.own.contains(origin) else {
                continue
            }
            guard origin != .migration else { return }
            let number: Int64 = try row.value("number")
            let isOwn = try row.value("author") == author
            guard !undone.contains(number) else { continue }
            if origin == .undo, let target = try Self.target(row.value("context")) {
                undone.insert(target)
                // An undo of an undo is a redo, and no redo is taken back.
                if isOwn, redoable == nil, try table.row(target).flatMap({ try Self.target($0.value("context")) }) == nil {
                    redoable = number
                }
            } else if isOwn {
                undoable = number
                return
            }
        }
    }

    /// The transaction that was reverted, by the context of the revert.
    private static func target(_ context: String?) -> Int64? {
        guard let context, context.hasPrefix(Store.revertContext) else { return nil }
        return HistoryToken(String(context.dropFirst(Store.revertContext.count)))?.number
    }
}
