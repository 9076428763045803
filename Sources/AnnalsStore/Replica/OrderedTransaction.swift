import AnnalsCore
package import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// What became of a transaction of this store when the space gave it its place in the log.
public struct OrderedTransaction: Sendable {
    /// The entries of the conflict journal that the transaction brought, without those that were purged: its conflicts with
    /// transactions before it in the log, also those that it won, and its rows that got another key.
    public var conflicts: [NamedConflict]

    /// Whether none of its values lost, and none of its rows got another key. Values that a policy such as `sum` combined, and
    /// references that follow a row to its new key, count as written.
    public var isAsWritten: Bool { conflicts.allSatisfy { $0.conflict.entry.winner == .incoming && $0.conflict.entry.kind != .renumber } }
}

/// Where a transaction of this store is.
package enum TransactionProgress: Sendable {
    /// In the outbox, or not even there.
    case waiting
    case ordered(OrderedTransaction)
    /// It was serializable, and others wrote first. Its rows were undone.
    case withdrawn

    package var ordered: OrderedTransaction? {
        if case .ordered(let transaction) = self { transaction } else { nil }
    }
}

extension Store {
    /// Where the transaction before a point of history is.
    ///
    /// - Throws: `AnnalsError` as `SyncAgent.confirm`.
    package func progress(of token: HistoryToken) async throws -> TransactionProgress {
        try await translated("sync") {
            try await database.reading { [schema] db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
                let bounds = try HistoryBounds(db)
                try bounds.checkComplete(token)
                guard let row = try TransactionTable(db).row(token.number) else {
                    throw bounds.noTransaction(token.number, operation: "sync")
                }
                guard try StoreSchema.isReplica(db), let state = try ReplicaState.load(db) else { return .waiting }
                guard try TransactionOrigin.own.map(\.rawValue).contains(row.value("origin")) else {
                    throw Self.cannotConfirm(token, "is no transaction of this store's writers")
                }
                guard try token.number > Meta(db).integer(.joined) ?? 0 else {
                    throw Self.cannotConfirm(token, "was written before the store joined \(state.space), which took the rows as a whole")
                }
                let id: DatabaseValue = try row.value("id")
                guard try SerializableTable(db).outcome(of: token.number) != .withdrawn else { return .withdrawn }
                let isMoved = try token.number <= Meta(db).integer(.outboxed) ?? 0
                guard try isMoved && !Outbox.has(id, db) else { return .waiting }
                let entries = try ConflictJournal.entries(of: id, db)
                return .ordered(OrderedTransaction(conflicts: try NamedConflict.all(entries, db, schema.tables(db))))
            }
        }
    }

    private static func cannotConfirm(_ token: HistoryToken, _ why: String) -> AnnalsError {
        AnnalsError(.usage, operation: "sync", "transaction \(token.number) cannot be confirmed: it \(why)")
    }

    /// Writes as `transaction` does. The space orders the transaction directly on the state that the closure reads, or not at all.
    ///
    /// - Returns: the number of the transaction; nil if nothing was changed.
    /// - Throws: `AnnalsError` of code `busy` if another one waits, and `notJoined`.
    package func serializableTransaction<T: Sendable>(
        author: String?, contextName: String?, _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> (value: T, number: Int64?) {
        let trace = configuration.trace
        return try await managed("write") { [schema] db, step in
            guard try StoreSchema.isReplica(db) else { throw AnnalsError.notJoined(operation: "write") }
            guard try !Outbox.hasSerializable(db) else {
                throw AnnalsError(
                    .busy, operation: "write", "another serializable write of this store waits for the relay", hint: "Try again later",
                    isRetryable: true)
            }
            let reads = StatementReads()
            let (value, number) = try Self.record(db, step, schema, author, contextName) { db in
                try reads.noting(db, trace) { try updates(db) }
            }
            guard let number, let row = try TransactionTable(db).row(number) else { return (value, nil) }
            let id: Data = try row.value("id")
            guard let id = TransactionID(bytes: id) else { throw Corruption(OwnTables.transactions) }
            try SerializableTable(db).add(number, id, reading: reads.tables(db, schema.tables(db)))
            return (value, number)
        }
    }

    /// nil while the transaction waits.
    package func outcome(ofSerializable number: Int64) async throws -> SerializableTable.Outcome? {
        try await translated("write") { try await database.reading { db in try SerializableTable(db).outcome(of: number) } }
    }

    /// Undoes a serializable transaction that waits, unless it is being sent. Returns what became of it; nil if it waits on.
    package func withdrawSerializable(_ number: Int64) async throws -> SerializableTable.Outcome? {
        let policies = configuration.mergePolicies
        return try await merging("write") { db, step in
            let table = SerializableTable(db)
            let exchange = try Self.exchangeToRebase(db, step)
            if try table.waiting()?.number == number, let sequence = try Outbox.serializable(db),
                try Push.load(db).map({ $0.lastSequence < sequence }) ?? true
            {
                try Self.pull(db, step, exchange.state, policies).withdraw()
            }
            return try table.outcome(of: number)
        }
    }
}
