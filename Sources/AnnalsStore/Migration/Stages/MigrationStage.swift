public import AnnalsSchema
public import GRDB

/// The way from one version of a schema to the next; see `StagedMigrationManager`.
public struct MigrationStage: Sendable {
    public typealias Handler = @Sendable (Database) throws -> Void

    /// What history calls the transaction.
    public let label: String
    public let from: SchemaVersion
    public let to: SchemaVersion
    /// Tables and columns that are the same under another name.
    public let renames: [Rename]
    let willMigrate: Handler?
    /// nil: what the versions' definitions say is enough.
    let migrate: Handler?
    let didMigrate: Handler?

    /// New tables, new columns that may be NULL or have a constant for a default, and other indexes, views and triggers, as the
    /// definitions say; other names where they are given. Stages that are not given are of this kind.
    ///
    ///     let stage = MigrationStage.lightweight(
    ///         from: SchemaV1.self, to: SchemaV2.self, renames: [.column("title", of: "todo", to: "heading")])
    public static func lightweight(
        label: String? = nil, from: any VersionedSchema.Type, to: any VersionedSchema.Type, renames: [Rename] = []
    ) -> MigrationStage {
        MigrationStage(label, from.versionIdentifier, to.versionIdentifier, renames)
    }

    /// A stage with code of the app's own.
    ///
    ///     let stage = MigrationStage.custom(
    ///         label: "priorities", from: SchemaV2.self, to: SchemaV3.self,
    ///         didMigrate: { db in try db.execute(sql: "UPDATE todo SET priority = 1 WHERE heading LIKE '%!'") })
    ///
    /// - Parameters:
    ///   - label: what history calls the transaction; the versions, where it is nil.
    ///   - from: the version before.
    ///   - to: the version after. What the handlers leave must be what it defines.
    ///   - renames: made before everything else.
    ///   - willMigrate: runs under the schema of before, with its new names.
    ///   - migrate: changes the schema; nil leaves that to the definitions, as a lightweight stage does.
    ///   - didMigrate: runs under the new schema.
    public static func custom(
        label: String? = nil, from: any VersionedSchema.Type, to: any VersionedSchema.Type, renames: [Rename] = [],
        willMigrate: Handler? = nil, migrate: Handler? = nil, didMigrate: Handler? = nil
    ) -> MigrationStage {
        MigrationStage(label, from.versionIdentifier, to.versionIdentifier, renames, willMigrate, migrate, didMigrate)
    }

    init(
        _ label: String? = nil, _ from: SchemaVersion, _ to: SchemaVersion, _ renames: [Rename] = [], _ willMigrate: Handler? = nil,
        _ migrate: Handler? = nil, _ didMigrate: Handler? = nil
    ) {
        self.label = label ?? "\(from) → \(to)"
        (self.from, self.to, self.renames) = (from, to, renames)
        (self.willMigrate, self.migrate, self.didMigrate) = (willMigrate, migrate, didMigrate)
    }
}
