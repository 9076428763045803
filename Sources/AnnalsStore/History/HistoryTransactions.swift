import AnnalsCore
public import AnnalsHistory
import AnnalsSQLite
import GRDB

/// Transactions of history, oldest first, fetched in pages. Memory does not grow with the history, and a slow reader blocks no
/// writer.
///
///     for try await transaction in store.history(HistoryRequest(after: token).tables("invoice")) {
///         print(transaction.number, try await store.changes(in: transaction).count)
///     }
///
/// Writes of other programs are recorded when the iteration begins. It ends with the transactions that were committed when the last
/// page was fetched; `remoteChanges` reports later ones.
public struct HistoryTransactions: AsyncSequence, Sendable {
    public typealias Failure = any Error

    let store: Store
    let request: HistoryRequest
    let pageSize: Int

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(store: store, request: request, pageSize: pageSize, left: request.maximum ?? .max)
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let store: Store
        fileprivate var request: HistoryRequest
        fileprivate let pageSize: Int
        fileprivate var left: Int
        private var page: ArraySlice<HistoryTransaction> = []
        private var isRecorded = false

        fileprivate init(store: Store, request: HistoryRequest, pageSize: Int, left: Int) {
            (self.store, self.request, self.pageSize, self.left) = (store, request, pageSize, left)
        }

        /// - Throws: `AnnalsError`; `tokenExpired` also if the next pages were purged meanwhile; `usage` for a page size below 1.
        public mutating func next() async throws -> HistoryTransaction? {
            if page.isEmpty { try await fetch() }
            return page.popFirst()
        }

        private mutating func fetch() async throws {
            guard left > 0 else { return }
            guard pageSize > 0 else {
                throw AnnalsError(.usage, operation: "history", "the page size must be at least 1, and is \(pageSize)")
            }
            if !isRecorded { try await store.recordExternalChanges() }
            isRecorded = true
            let count = Swift.min(left, pageSize)
            let query = request.limit(count)
            let (found, bounds) = try await store.translated("history") {
                try await store.database.reading { db in
                    let reader = try HistoryReader(db)
                    return (try reader.transactions(query), reader.bounds)
                }
            }
            left = found.count < count ? 0 : left - count
            if let last = found.last { request = request.begun(bounds).continuing(after: last.token) }
            page = found[...]
        }
    }
}

extension Store {
    /// The transactions of a request, in pages of this size, which must be at least 1.
    public func history(_ request: HistoryRequest = HistoryRequest(), pageSize: Int = 256) -> HistoryTransactions {
        HistoryTransactions(store: self, request: request, pageSize: pageSize)
    }

    /// The number of transactions that a request finds. Records writes of other programs first.
    ///
    /// - Throws: `AnnalsError` with code `tokenExpired`, `tokenUnknown` or `notTracked`.
    public func historyCount(_ request: HistoryRequest = HistoryRequest()) async throws -> Int {
        try await recordExternalChanges()
        return try await read { db in try HistoryReader(db).count(request) }
    }

    /// The net change of each row in a transaction, parents' tables first. With a request, only the changes that match it. For
    /// large transactions use `forEachChange`.
    public func changes(in transaction: HistoryTransaction, _ request: HistoryRequest = HistoryRequest()) async throws -> [HistoryChange] {
        try await read { db in try HistoryReader(db).changes(in: transaction, request) }
    }

    /// Visits every change of a request's transactions. Records writes of other programs first. Only one change is in memory at a
    /// time, and all are from one read transaction. In a file without WAL other programs cannot commit meanwhile.
    ///
    /// - Throws: `AnnalsError` as `historyCount`, and errors of `visit`.
    public func forEachChange(
        _ request: HistoryRequest = HistoryRequest(), _ visit: @escaping @Sendable (HistoryTransaction, HistoryChange) throws -> Void
    ) async throws {
        try await recordExternalChanges()
        try await read { db in
            let reader = try HistoryReader(db)
            try reader.forEachTransaction(request) { transaction in
                try reader.forEachChange(in: transaction, request) { try visit(transaction, $0) }
                return true
            }
        }
    }

    /// The rows that a request's transactions changed, each once, in the order of their first change. A row that got another key is
    /// in the list under both keys.
    ///
    /// - Throws: `AnnalsError` as `historyCount`.
    public func touchedRows(_ request: HistoryRequest = HistoryRequest()) async throws -> [PersistentIdentifier] {
        try await recordExternalChanges()
        return try await read { db in try HistoryReader(db).touchedRows(request) }
    }
}
