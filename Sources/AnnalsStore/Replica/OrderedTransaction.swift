import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// What became of a transaction of this store when the space gave it its place in the log.
public struct OrderedTransaction: Sendable {
    /// The entries of the conflict journal that the transaction brought, without those that were purged: its conflicts with
    /// transactions before it in the log, also those that it won, and its rows that got another key.
    public var conflicts: [NamedConflict]

    /// Whether none of its values lost, and none of its rows got another key. Values that a policy such as `sum` combined, and
    /// references that follow a row to its new key, count as written.
    public var isAsWritten: Bool { conflicts.allSatisfy { $0.conflict.entry.winner == .incoming && $0.conflict.entry.kind != .renumber } }
}

extension Store {
    /// What became of the transaction before a point of history; nil if it waits in the outbox or is not there yet.
    ///
    /// - Throws: `AnnalsError` as `SyncAgent.confirm`.
    package func ordered(_ token: HistoryToken) async throws -> OrderedTransaction? {
        try await translated("sync") {
            try await database.reading { [schema] db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
                let bounds = try HistoryBounds(db)
                try bounds.checkComplete(token)
                guard let row = try TransactionTable(db).row(token.number) else {
                    throw bounds.noTransaction(token.number, operation: "sync")
                }
                guard try StoreSchema.isReplica(db), let state = try ReplicaState.load(db) else { return nil }
                guard try TransactionOrigin.own.map(\.rawValue).contains(row.value("origin")) else {
                    throw Self.cannotConfirm(token, "is no transaction of this store's writers")
                }
                let meta = Meta(db)
                guard try token.number > meta.integer(.joined) ?? 0 else {
                    throw Self.cannotConfirm(token, "was written before the store joined \(state.space), which took the rows as a whole")
                }
                let id: DatabaseValue = try row.value("id")
                guard try token.number <= meta.integer(.outboxed) ?? 0, try !Outbox.has(id, db) else { return nil }
                return OrderedTransaction(
                    conflicts: try NamedConflict.all(ConflictJournal.entries(of: id, db), db, schema.tables(db)))
            }
        }
    }

    private static func cannotConfirm(_ token: HistoryToken, _ why: String) -> AnnalsError {
        AnnalsError(.usage, operation: "sync", "transaction \(token.number) cannot be confirmed: it \(why)")
    }
}
