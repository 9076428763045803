public import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
public import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
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
    /// - Parameters:
    ///   - from: the first point.
    ///   - to: the second point, which may be older.
    ///   - filter: the only tables, row or columns.
    ///   - visit: called with each row.
    /// - Returns: the number of visited rows.
    /// - Throws: `AnnalsError` with code `tokenExpired`, `tokenUnknown`, `notTracked`, or `usage` if the filter does not fit the tables,
    ///   and errors of `visit`.
    @discardableResult
    public func diff(
        from: HistoryPoint, to: HistoryPoint, only filter: DifferenceFilter = DifferenceFilter(),
        _ visit: @escaping @Sendable (HistoryChange) throws -> Void
    ) async throws -> DifferenceCount {
        try await compared {
            try $0.forEachChange(from: from, to: to, only: filter) { change in try ClosureError.passing { try visit(change) } }
        }
    }

    /// The rows that differ between two points of history. For large differences use the form with `visit`.
    public func diff(
        from: HistoryPoint, to: HistoryPoint, only filter: DifferenceFilter = DifferenceFilter()
    ) async throws -> [HistoryChange] {
        try await compared { difference in
            var found: [HistoryChange] = []
            _ = try difference.forEachChange(from: from, to: to, only: filter) { found.append($0) }
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
    /// - Parameters:
    ///   - from: the point whose rows the SQL expects.
    ///   - to: the point whose rows it makes.
    ///   - filter: the only tables, or the only row. It has no columns, because an inserted row has all of them.
    ///   - write: called with each piece of the text.
    /// - Returns: the number of rows that differ.
    /// - Throws: as `diff`.
    @discardableResult
    public func diffSQL(
        from: HistoryPoint, to: HistoryPoint, only filter: DifferenceFilter = DifferenceFilter(),
        _ write: @escaping @Sendable (String) throws -> Void
    ) async throws -> DifferenceCount {
        try await compared { try $0.writeSQL(from: from, to: to, only: filter) { text in try ClosureError.passing { try write(text) } } }
    }

    /// Visits the rows that differ between the ends of two transactions.
    @discardableResult
    public func diff(
        from: HistoryToken, to: HistoryToken, only filter: DifferenceFilter = DifferenceFilter(),
        _ visit: @escaping @Sendable (HistoryChange) throws -> Void
    ) async throws -> DifferenceCount {
        try await diff(from: HistoryPoint(from), to: HistoryPoint(to), only: filter, visit)
    }

    /// The rows that differ between the ends of two transactions.
    public func diff(
        from: HistoryToken, to: HistoryToken, only filter: DifferenceFilter = DifferenceFilter()
    ) async throws -> [HistoryChange] {
        try await diff(from: HistoryPoint(from), to: HistoryPoint(to), only: filter)
    }

    /// Writes SQL that changes the tracked rows from their state at the end of one transaction to that of another.
    @discardableResult
    public func diffSQL(
        from: HistoryToken, to: HistoryToken, only filter: DifferenceFilter = DifferenceFilter(),
        _ write: @escaping @Sendable (String) throws -> Void
    ) async throws -> DifferenceCount {
        try await diffSQL(from: HistoryPoint(from), to: HistoryPoint(to), only: filter, write)
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

extension Store {
    /// Says for each column of a row who wrote its current value, when and where. For a deleted row, says who deleted it, and who
    /// wrote its last values. Records writes of other programs first.
    ///
    ///     let blame = try await store.blame(table: "customer", key: [.integer(7)])
    ///     for column in blame.columns { print(column.name, column.value, column.writer) }
    ///
    /// The search follows changed keys back. Raw changes have no index by key, because every write would have to maintain it.
    /// SQLite searches backward through the table's raw changes to the insert of the row. That took less than half a second for a
    /// million raw changes of four columns. The transactions in which it finds the row are read completely. Memory does not grow
    /// with the history.
    ///
    /// - Parameters:
    ///   - table: the table's name in the schema.
    ///   - key: one value for each column of the key, in the key's order.
    /// - Throws: `AnnalsError` with code `notTracked`, or `usage` if the key is neither in the rows nor in history.
    public func blame(table: String, key: [Value]) async throws -> Blame {
        try await recordExternalChanges()
        return try await translated("blame") {
            try await database.reading { db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
                var walk = try BlameWalk(db, table: table, key: key)
                return try walk.run()
            }
        }
    }
}
