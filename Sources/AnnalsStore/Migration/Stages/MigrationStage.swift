public import GRDB

/// The way from one version of a schema to the next.
public struct MigrationStage: Sendable {
    public typealias Handler = @Sendable (Database) throws -> Void

    /// What history calls the transaction.
    public let label: String
    public let from: SchemaVersion
    public let to: SchemaVersion
    let willMigrate: Handler?
    /// nil: what the versions' definitions say is enough.
    let migrate: Handler?
    let didMigrate: Handler?

    /// New tables, new columns that may be NULL or have a constant for a default, and other indexes, views and triggers, as the
    /// definitions say. Stages that are not given are of this kind.
    public static func lightweight(
        label: String? = nil, from: any VersionedSchema.Type, to: any VersionedSchema.Type
    ) -> MigrationStage {
        MigrationStage(label, from.versionIdentifier, to.versionIdentifier)
    }

    /// A stage with code of the app's own.
    ///
    ///     .custom(from: SchemaV1.self, to: SchemaV2.self) { db in
    ///         try db.execute(sql: "UPDATE todo SET priority = 1 WHERE title LIKE '%!'")
    ///     }
    ///
    /// - Parameters:
    ///   - label: what history calls the transaction; the versions, where it is nil.
    ///   - from: the version before.
    ///   - to: the version after. What the handlers leave must be what it defines.
    ///   - willMigrate: runs under the schema of before.
    ///   - migrate: changes the schema; nil leaves that to the definitions, as a lightweight stage does.
    ///   - didMigrate: runs under the new schema.
    public static func custom(
        label: String? = nil, from: any VersionedSchema.Type, to: any VersionedSchema.Type, willMigrate: Handler? = nil,
        migrate: Handler? = nil, didMigrate: Handler? = nil
    ) -> MigrationStage {
        MigrationStage(label, from.versionIdentifier, to.versionIdentifier, willMigrate, migrate, didMigrate)
    }

    init(
        _ label: String? = nil, _ from: SchemaVersion, _ to: SchemaVersion, _ willMigrate: Handler? = nil, _ migrate: Handler? = nil,
        _ didMigrate: Handler? = nil
    ) {
        self.label = label ?? "\(from) → \(to)"
        (self.from, self.to) = (from, to)
        (self.willMigrate, self.migrate, self.didMigrate) = (willMigrate, migrate, didMigrate)
    }
}
