public import AnnalsCore
public import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import GRDB

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
