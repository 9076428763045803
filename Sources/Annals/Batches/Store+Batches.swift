public import AnnalsStore
import GRDB

extension Store {
    /// Inserts many records in one transaction.
    ///
    /// - Throws: `AnnalsError` with code `constraint` when a record breaks one; what the request's source throws. Nothing is
    ///   inserted then.
    @discardableResult
    public func execute<Record>(
        _ request: BatchInsertRequest<Record>, author: String? = nil, contextName: String? = nil
    ) async throws -> BatchResult {
        try await batch(author, contextName) { try request.run($0) }
    }

    /// Updates rows in one transaction.
    ///
    /// - Throws: `AnnalsError` with code `constraint` when a row would break one. Nothing is changed then.
    @discardableResult
    public func execute<Record>(
        _ request: BatchUpdateRequest<Record>, author: String? = nil, contextName: String? = nil
    ) async throws -> BatchResult {
        try await batch(author, contextName) { try request.run($0) }
    }

    /// Deletes rows in one transaction.
    ///
    /// - Throws: `AnnalsError` with code `constraint` when other rows need one of them. Nothing is deleted then.
    @discardableResult
    public func execute(
        _ request: BatchDeleteRequest, author: String? = nil, contextName: String? = nil
    ) async throws -> BatchResult {
        try await batch(author, contextName) { try request.run($0) }
    }

    private func batch(
        _ author: String?, _ contextName: String?, _ body: @escaping @Sendable (Database) throws -> BatchResult
    ) async throws -> BatchResult {
        let done = try await transaction(author: author, contextName: contextName, body)
        var result = done.value
        result.token = done.token
        return result
    }
}
