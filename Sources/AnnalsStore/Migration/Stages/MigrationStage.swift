public import AnnalsSchema
public import GRDB

/// The change from one version of a schema to the next; see `StagedMigrationManager`.
public struct MigrationStage: Sendable {
    public typealias Handler = @Sendable (Database) throws -> Void

    /// The name of the transaction in history.
    public let label: String
    public let from: SchemaVersion
    public let to: SchemaVersion
    /// Tables and columns that only get another name.
    public let renames: [Rename]
    /// Tables, and columns as `table.column`, that a stage without code drops with their values.
    public let removals: [String]
    /// Columns, as `table.column`, that a stage without code makes required. Rows without a value get the column's default.
    public let requirements: [String]
    let willMigrate: Handler?
    /// nil if the versions' definitions are sufficient.
    let migrate: Handler?
    let didMigrate: Handler?

    /// A stage without code: new tables, new columns that may be NULL or have a constant default, and changed indexes, views and
    /// triggers, as the versions define them. Renames must be declared. Stages that are not listed are of this kind.
    ///
    ///     let stage = MigrationStage.lightweight(
    ///         from: SchemaV1.self, to: SchemaV2.self, renames: [.column("title", of: "todo", to: "heading")])
    ///
    /// What the later version does not have any more must be named, because its values are dropped with it. History keeps them.
    ///
    ///     let stage = MigrationStage.lightweight(from: SchemaV2.self, to: SchemaV3.self, removing: ["todo.color", "draft"])
    ///
    /// A column with a constant default can become required (NOT NULL) if it is named. An UPDATE gives rows with NULL the default, and
    /// the table is rebuilt. The history of this table starts again, because earlier rows may not fit into it any more.
    ///
    ///     let stage = MigrationStage.lightweight(from: SchemaV3.self, to: SchemaV4.self, requiring: ["todo.priority"])
    ///
    /// - Parameters:
    ///   - label: the name of the transaction in history; nil: the two versions.
    ///   - from: the version before.
    ///   - to: the version after.
    ///   - renames: done before everything else.
    ///   - removals: tables, and columns as `table.column`, that are dropped, under their new names.
    ///   - requirements: columns, as `table.column`, that become required, under their new names.
    public static func lightweight(
        label: String? = nil, from: any VersionedSchema.Type, to: any VersionedSchema.Type, renames: [Rename] = [],
        removing removals: [String] = [], requiring requirements: [String] = []
    ) -> MigrationStage {
        MigrationStage(label, from.versionIdentifier, to.versionIdentifier, renames, removals, requirements)
    }

    /// A stage with code of the app.
    ///
    ///     let stage = MigrationStage.custom(
    ///         label: "priorities", from: SchemaV2.self, to: SchemaV3.self,
    ///         didMigrate: { db in try db.execute(sql: "UPDATE todo SET priority = 1 WHERE heading LIKE '%!'") })
    ///
    /// - Parameters:
    ///   - label: the name of the transaction in history; nil: the two versions.
    ///   - from: the version before.
    ///   - to: the version after. The handlers must produce what it defines.
    ///   - renames: done before everything else.
    ///   - willMigrate: runs with the old schema under its new names.
    ///   - migrate: changes the schema; nil: the definitions do, as in a lightweight stage.
    ///   - didMigrate: runs with the new schema.
    public static func custom(
        label: String? = nil, from: any VersionedSchema.Type, to: any VersionedSchema.Type, renames: [Rename] = [],
        willMigrate: Handler? = nil, migrate: Handler? = nil, didMigrate: Handler? = nil
    ) -> MigrationStage {
        MigrationStage(label, from.versionIdentifier, to.versionIdentifier, renames, [], [], willMigrate, migrate, didMigrate)
    }

    init(
        _ label: String? = nil, _ from: SchemaVersion, _ to: SchemaVersion, _ renames: [Rename] = [], _ removals: [String] = [],
        _ requirements: [String] = [], _ willMigrate: Handler? = nil, _ migrate: Handler? = nil, _ didMigrate: Handler? = nil
    ) {
        self.label = label ?? "\(from) → \(to)"
        (self.from, self.to, self.renames, self.removals, self.requirements) = (from, to, renames, removals, requirements)
        (self.willMigrate, self.migrate, self.didMigrate) = (willMigrate, migrate, didMigrate)
    }
}
