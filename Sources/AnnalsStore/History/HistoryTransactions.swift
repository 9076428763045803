import AnnalsCore
public import AnnalsHistory
import AnnalsSQLite
import GRDB

/// Transactions of history, oldest first, fetched page by page: memory stays flat however long history is, and nobody
/// waits for whoever reads slowly.
///
///     for try await transaction in store.history(HistoryRequest(after: token).tables("invoice")) {
///         print(transaction.number, try await store.changes(in: transaction).count)
///     }
///
/// Other programs' writes are recorded when it begins. It ends with what was committed by the time its last page was fetched;
/// `remoteChanges` tells of more.
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

        /// - Throws: `AnnalsError`: `tokenExpired` also where the pages to come were purged meanwhile.
        public mutating func next() async throws -> HistoryTransaction? {
            if page.isEmpty { try await fetch() }
            return page.popFirst()
        }

        private mutating func fetch() async throws {
            guard left > 0 else { return }
            if !isRecorded { try await store.recordExternalChanges() }
            isRecorded = true
            let count = Swift.min(left, pageSize)
            let query = request.limit(count)
            let found = try await store.translated("history") {
                try await store.database.reading { db in try HistoryReader(db).transactions(query) }
            }
            left = found.count < count ? 0 : left - count
            if let last = found.last { request = request.continuing(after: last.token) }
            page = found[...]
        }
    }
}

extension Store {
    /// The transactions of a request, in pages of so many.
    public func history(_ request: HistoryRequest = HistoryRequest(), pageSize: Int = 256) -> HistoryTransactions {
        precondition(pageSize > 0, "a page has a transaction at least")
        return HistoryTransactions(store: self, request: request, pageSize: pageSize)
    }

    /// How many transactions a request finds, other programs' writes recorded first.
    ///
    /// - Throws: `AnnalsError` with code `tokenExpired`, `tokenUnknown` or `notTracked`.
    public func historyCount(_ request: HistoryRequest = HistoryRequest()) async throws -> Int {
        try await recordExternalChanges()
        return try await read { db in try HistoryReader(db).count(request) }
    }

    /// What a transaction did to each row, parents' tables first; with a request, only what that asks for. Large
    /// transactions are better visited, with `forEachChange`.
    public func changes(in transaction: HistoryTransaction, _ request: HistoryRequest = HistoryRequest()) async throws -> [HistoryChange] {
        try await read { db in try HistoryReader(db).changes(in: transaction, request) }
    }

    /// Visits every change of a request's transactions, other programs' writes recorded first. One change is held at a time,
    /// and all of them are of one moment; in a file without WAL other programs cannot commit meanwhile.
    ///
    /// - Throws: `AnnalsError` as `historyCount`, and what `visit` throws.
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

    /// The rows that a request's transactions touched, each once, in the order in which they were touched first; a row that got
    /// another key under both.
    ///
    /// - Throws: `AnnalsError` as `historyCount`.
    public func touchedRows(_ request: HistoryRequest = HistoryRequest()) async throws -> [PersistentIdentifier] {
        try await recordExternalChanges()
        return try await read { db in try HistoryReader(db).touchedRows(request) }
    }
}
