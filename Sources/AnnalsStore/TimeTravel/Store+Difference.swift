import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
public import AnnalsRows
import AnnalsSchema
import GRDB

extension Store {
    /// Visits the rows that differ between two points of history, in either direction, parents' tables first.
    ///
    ///     let count = try await store.diff(from: yesterday, to: store.latestToken()) { change in
    ///         print(change.kind, change.table, change.key)
    ///     }
    ///
    /// It is the net difference: a row that came back to where it was is not told. Rows are compared by their keys, so one
    /// that got another key is told as one deleted and one inserted. Tables and columns are those that there are now: a
    /// column added since holds its default, and what was dropped is left out.
    ///
    /// It reads the changes between the two points, and holds one row at a time: the others lie in a temporary database on
    /// disk. This store writes nothing while `visit` runs; other programs may.
    ///
    /// - Returns: how many rows were told.
    /// - Throws: `AnnalsError` with code `tokenExpired`, `tokenUnknown` or `notTracked`, and what `visit` throws.
    @discardableResult
    public func diff(
        from: HistoryToken, to: HistoryToken, _ visit: @escaping @Sendable (HistoryChange) throws -> Void
    ) async throws -> DifferenceCount {
        try await compared { try $0.forEachChange(from: from, to: to) { change in try ClosureError.passing { try visit(change) } } }
    }

    /// The rows that differ between two points of history. Large differences are better visited.
    public func diff(from: HistoryToken, to: HistoryToken) async throws -> [HistoryChange] {
        try await compared { difference in
            var found: [HistoryChange] = []
            _ = try difference.forEachChange(from: from, to: to) { found.append($0) }
            return found
        }
    }

    /// Writes SQL that turns the tracked rows as they were at one point into what they were at another.
    ///
    ///     try await store.diffSQL(from: yesterday, to: today) { print($0, terminator: "") }
    ///
    /// Any program can run it that knows SQLite and nothing of Annals, on a file with the schema as it is now. It turns
    /// foreign keys off for the connection that runs it, and is one transaction. Nothing is written where nothing differs.
    ///
    /// - Returns: how many rows differ.
    /// - Throws: as `diff`.
    @discardableResult
    public func diffSQL(
        from: HistoryToken, to: HistoryToken, _ write: @escaping @Sendable (String) throws -> Void
    ) async throws -> DifferenceCount {
        try await compared { try $0.writeSQL(from: from, to: to) { text in try ClosureError.passing { try write(text) } } }
    }

    private func compared<T: Sendable>(_ body: @escaping @Sendable (Difference) throws -> T) async throws -> T {
        let (configuration, schema) = (configuration, schema)
        return try await translated("diff") {
            try await database.writeWithoutTransaction { db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
                return try body(Difference(db: db, environment: StoreStep(db, configuration, schema).environment))
            }
        }
    }
}
