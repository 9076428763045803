public import AnnalsCore
public import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import GRDB

extension Store {
    /// Who wrote each column of a row as it stands, when and where; of a row that is gone who deleted it, and who wrote the
    /// values that it had last. Other programs' writes are recorded first.
    ///
    ///     let blame = try await store.blame(table: "customer", key: [.integer(7)])
    ///     for column in blame.columns { print(column.name, column.value, column.writer) }
    ///
    /// A changed key is followed back. Raw changes have no index by key, since every write would pay for it: SQLite looks
    /// backward through those of the table until it finds where the row was inserted, which took less than half a second for
    /// a million of four columns, and the transactions in which it finds the row are read whole. Memory stays flat.
    ///
    /// - Parameters:
    ///   - table: the table, as the schema names it.
    ///   - key: one value for each column of the key, in the key's order.
    /// - Throws: `AnnalsError` with code `notTracked`, or `usage` where neither the rows nor history know the key.
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
