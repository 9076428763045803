import AnnalsCore

/// What a caller's own closure threw, on its way out through the store unchanged.
struct VisitorFailure: Error {
    let error: any Error

    static func marking<T>(_ body: () throws -> T) throws -> T {
        do { return try body() } catch { throw VisitorFailure(error: error) }
    }

    /// Runs an operation of the store and hands on what the closure threw, as it threw it.
    static func handingOn<T>(_ operation: () async throws -> T) async throws -> T {
        do {
            return try await operation()
        } catch let error as AnnalsError {
            throw (error.underlying as? VisitorFailure)?.error ?? error
        }
    }
}
