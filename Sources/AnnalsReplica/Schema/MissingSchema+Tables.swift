import AnnalsRows
import AnnalsSchema
import GRDB

extension MissingSchema {
    /// Makes the tables that only a replica among newer or older ones needs.
    ///
    /// Call it where everything is recorded, in the same SQLite transaction.
    static func createTables(_ db: Database) throws {
        guard try !db.tableExists("annals_lacking") else { return }
        try db.execute(sql: schema + DeferredCells.schema + PendingSchemaEntries.schema)
        try StoreSchema.noteSchemaVersion(db)
    }
}
