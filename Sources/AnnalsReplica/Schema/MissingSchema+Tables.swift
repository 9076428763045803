import AnnalsRows
import AnnalsSchema
import GRDB

extension MissingSchema {
    /// The tables and columns that the space has and the store lacks. A table or column whose removal waits in the outbox is not missing:
    /// as missing, it would seem never to have been here, and the removal would not be sent.
    static func current(_ db: Database, _ space: SpaceSchema, _ tables: TrackedTables) throws -> MissingSchema {
        var missingSchema = between(space, tables)
        for removal in try PendingSchemaEntries.entries(db).flatMap(\.removals) {
            missingSchema.remove(removal)
        }
        return missingSchema
    }

    /// Creates the tables that a replica needs only if other replicas have a newer or an older schema.
    ///
    /// To be called after everything is recorded, in the same SQLite transaction.
    static func createTables(_ db: Database) throws {
        guard try !db.tableExists(OwnTables.missingSchema) else { return }
        try db.execute(sql: schema + DeferredCells.schema + PendingSchemaEntries.schema)
        try StoreSchema.noteSchemaVersion(db)
    }
}
