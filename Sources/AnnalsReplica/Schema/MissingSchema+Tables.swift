import AnnalsRows
import AnnalsSchema
import GRDB

extension MissingSchema {
    /// Creates the tables that a replica needs only if other replicas have a newer or an older schema.
    ///
    /// To be called after everything is recorded, in the same SQLite transaction.
    static func createTables(_ db: Database) throws {
        guard try !db.tableExists(OwnTables.missingSchema) else { return }
        try db.execute(sql: schema + DeferredCells.schema + PendingSchemaEntries.schema)
        try StoreSchema.noteSchemaVersion(db)
    }
}
