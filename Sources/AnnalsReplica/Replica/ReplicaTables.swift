import AnnalsHistory
import AnnalsSchema
package import GRDB

/// The tables that only a joined store has.
package enum ReplicaTables {
    /// To be called after everything is recorded, in the same SQLite transaction, because it records the new schema version as seen.
    package static func createIfMissing(_ db: Database) throws {
        guard try !StoreSchema.isReplica(db) else { return }
        let schemas = [
            Outbox.schema, Outbox.partsSchema, Push.schema, BufferedParts.schema, HighestKeys.schema, ConflictJournal.schema,
            PolicyTable.schema, UnsettledReferences.schema, RenumberedRows.schema, AuthorChains.schema, LogDigests.schema, RecentLog.schema,
            SerializableTable.schema,
        ]
        try db.execute(sql: schemas.joined())
        try StoreSchema.noteSchemaVersion(db)
    }

    /// Copies the data that all replicas share at a position: highest keys, the space's schema, policies and references, the conflict
    /// journal, and each author's newest entry.
    package static func copyShared(from other: Database, to db: Database) throws {
        try HighestKeys.save(db, HighestKeys.load(other))
        try SpaceSchema.copy(from: other, to: db)
        try PolicyTable.forgetShared(db)
        try PolicyTable.set(db, PolicyTable.load(other).filter { !$0.isOverride }.map(\.setting), isOverride: false)
        try ReferenceTable.save(ReferenceTable.load(other), db)
        try ConflictJournal.takeIn(from: other, to: db)
        try AuthorChains.replaceAll(db, with: AuthorChains.all(other))
        try UnconfirmedAuthors.copy(from: other, to: db)
    }

    /// Removes the space from the store. Transaction numbers and tokens of history continue, and decided references stay.
    package static func drop(_ db: Database) throws {
        let tables = try TrackedTables.load(db)
        if !tables.canonicalNames.isEmpty {
            let names = tables.localNames
            try ReferenceTable.save(tables.undeclared.map { $0.renamed(names) }, db)
        }
        try TrackedTable.forgetRemovals(db)
        for table in OwnTables.replica + OwnTables.replicaOnDemand { try db.execute(sql: "DROP TABLE IF EXISTS \(table)") }
        try RenumberedRows.dropIfEmpty(db)
        let meta = Meta(db)
        let names: [Meta.Name] = [
            .replica, .replicaKey, .replicaName, .relay, .space, .lineage, .position, .logDigest, .head, .lastCounter, .lastDigest,
            .outboxed, .joined, .joinStage,
            .credentialFile, .caFile, .pins, .spaceKeyFile, .sealedUnder, .passedVoids, .spaceSchema, .spaceVersion, .unverifiedRows,
            .isCopy,
            .renames, .evidence, .unconfirmedSnapshot, .unconfirmedAuthors, .recentLogBytes,
            .syncProblem,
        ]
        for name in names { try meta.set(name, nil) }
    }
}
