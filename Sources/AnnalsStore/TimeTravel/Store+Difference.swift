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
    /// It is the net difference: a row that changed and changed back is left out. Rows are compared by their keys, so a row that
    /// got another key appears as one deleted row and one inserted row. Tables and columns are the current ones: a column added
    /// since has its default, and dropped ones are left out.
    ///
    /// It reads the changes between the two points, and has one row in memory at a time; the others are in a temporary database on
    /// disk. This store cannot write while `visit` runs; other programs can.
    ///
    /// - Returns: the number of visited rows.
    /// - Throws: `AnnalsError` with code `tokenExpired`, `tokenUnknown` or `notTracked`, and errors of `visit`.
    @discardableResult
    public func diff(
        from: HistoryToken, to: HistoryToken, _ visit: @escaping @Sendable (HistoryChange) throws -> Void
    ) async throws -> DifferenceCount {
        try await compared { try $0.forEachChange(from: from, to: to) { change in try ClosureError.passing { try visit(change) } } }
    }

    /// The rows that differ between two points of history. For large differences use the form with `visit`.
    public func diff(from: HistoryToken, to: HistoryToken) async throws -> [HistoryChange] {
        try await compared { difference in
            var found: [HistoryChange] = []
            _ = try difference.forEachChange(from: from, to: to) { found.append($0) }
            return found
        }
    }

    /// Writes SQL that changes the tracked rows from their state at one point to their state at another.
    ///
    ///     try await store.diffSQL(from: yesterday, to: today) { print($0, terminator: "") }
    ///
    /// Any program with SQLite can run it, without Annals, on a file with the current schema. It turns foreign keys off for its
    /// connection, and is one transaction. Nothing is written if nothing differs.
    ///
    /// - Returns: the number of rows that differ.
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
