import AnnalsHistory
import AnnalsSchema
package import GRDB

/// The tables that only a joined store has.
package enum ReplicaTables {
    /// Call it where everything is recorded, in the same SQLite transaction: the schema that it changes counts as looked at.
    package static func createIfMissing(_ db: Database) throws {
        guard try !StoreSchema.isReplica(db) else { return }
        let schemas = [
            Outbox.schema, Outbox.partsSchema, Push.schema, BufferedParts.schema, HighestKeys.schema, ConflictJournal.schema,
            PolicyTable.schema, UnsettledReferences.schema, RenumberedRows.schema, AuthorChains.schema, LogDigests.schema, RecentLog.schema,
        ]
        try db.execute(sql: schemas.joined())
        try StoreSchema.noteSchemaVersion(db)
    }

    /// Copies what is the same on every replica at a position: highest keys, the conflict journal, the space's
    /// policies, and each author's newest entry.
    package static func copyShared(from other: Database, to db: Database) throws {
        try HighestKeys.save(db, HighestKeys.load(other))
        try SpaceSchema.copy(from: other, to: db)
        try PolicyTable.forgetShared(db)
        try PolicyTable.set(db, PolicyTable.load(other).filter { !$0.isOverride }.map(\.setting), isOverride: false)
        try ConflictJournal.takeIn(from: other, to: db)
        try AuthorChains.replaceAll(db, with: AuthorChains.all(other))
        try UnconfirmedAuthors.copy(from: other, to: db)
    }

    /// Forgets the space. Numbers and tokens of history go on.
    package static func drop(_ db: Database) throws {
        for table in OwnTables.replica + OwnTables.replicaOnDemand { try db.execute(sql: "DROP TABLE IF EXISTS \(table)") }
        try RenumberedRows.dropIfEmpty(db)
        let meta = Meta(db)
        let names: [Meta.Name] = [
            .replica, .replicaKey, .replicaName, .relay, .space, .lineage, .position, .logDigest, .head, .lastCounter, .lastDigest,
            .outboxed,
            .joinStage,
            .credentialFile, .caFile, .pins, .spaceKeyFile, .sealedUnder, .passedVoids, .spaceSchema, .spaceVersion, .unverifiedRows,
            .isCopy,
            .renames, .evidence, .unconfirmedSnapshot, .unconfirmedAuthors, .recentLogBytes,
        ]
        for name in names { try meta.set(name, nil) }
    }
}
