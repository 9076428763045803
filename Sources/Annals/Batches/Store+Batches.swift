public import AnnalsStore
import GRDB

extension Store {
    /// Inserts many records in one transaction.
    ///
    /// - Throws: `AnnalsError` with code `constraint` if a record breaks one; errors of the request's source. In both cases
    ///   nothing is inserted.
    @discardableResult
    public func execute<Record>(
        _ request: BatchInsertRequest<Record>, author: String? = nil, contextName: String? = nil
    ) async throws -> BatchResult {
        try await batch(author, contextName) { try request.run($0) }
    }

    /// Updates rows in one transaction.
    ///
    /// - Throws: `AnnalsError` with code `constraint` if a row would break one. Then nothing is changed.
    @discardableResult
    public func execute<Record>(
        _ request: BatchUpdateRequest<Record>, author: String? = nil, contextName: String? = nil
    ) async throws -> BatchResult {
        try await batch(author, contextName) { try request.run($0) }
    }

    /// Deletes rows in one transaction.
    ///
    /// - Throws: `AnnalsError` with code `constraint` if other rows need one of them. Then nothing is deleted.
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
