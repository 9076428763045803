import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
public import GRDB

/// The versions of an app's schema and the stages between them. Stages are checked when the manager is created.
///
///     let stages = try StagedMigrationManager(
///         [SchemaV1.self, SchemaV2.self, SchemaV3.self],
///         stages: [
///             .lightweight(from: SchemaV1.self, to: SchemaV2.self, renames: [.column("title", of: "todo", to: "heading")]),
///             .custom(
///                 label: "priorities", from: SchemaV2.self, to: SchemaV3.self,
///                 didMigrate: { db in try db.execute(sql: "UPDATE todo SET priority = 1 WHERE heading LIKE '%!'") }),
///         ])
///     var configuration = Store.Configuration()
///     configuration.stages = stages
///     let store = try Store(path: path, configuration: configuration)
///
/// An empty file gets the newest version at once. Each stage is one SQLite transaction, and one transaction of history with origin
/// migration and the stage's label. If a stage fails or the process is killed, the file stays at the version before, and the next
/// opening continues from there. After each stage the tables must match the version's definition.
///
/// A file stores the number and a checksum of its version. If a file has none, because other code or `annals clone` created it, its
/// tables identify the version.
public struct StagedMigrationManager: Sendable {
    /// The progress of a migration.
    public struct Progress: Sendable, Hashable {
        /// The number of finished stages.
        public let completed: Int
        /// The number of stages of this migration.
        public let total: Int
        /// The label of the stage that begins; nil if all are finished.
        public let label: String?
    }

    /// Oldest first.
    public let versions: [SchemaVersion]
    let outlines: [SchemaOutline]
    let stages: [Stage]

    /// A planned stage.
    struct Stage: Sendable {
        var label: String
        /// nil: an empty file.
        var from: SchemaVersion?
        var to: SchemaOutline
        var renames: [Rename] = []
        /// Tables that the next version changes by more than additions. Code must create them again or drop columns.
        var rebuilt: [String] = []
        /// What runs after the renames.
        var run: MigrationStage.Handler
    }

    /// Defines every version in memory and plans every stage.
    ///
    /// - Parameters:
    ///   - schemas: all versions that files of the app may have, oldest first.
    ///   - stages: the stages with code or a label; the others are lightweight.
    /// - Throws: `AnnalsError` of code usage if there is no version, if versions do not ascend, if a stage skips a version or is
    ///   listed twice, and if a lightweight stage needs more than additions. Errors of the definitions.
    public init(_ schemas: [any VersionedSchema.Type], stages: [MigrationStage] = []) throws {
        func refused(_ what: String) -> AnnalsError { AnnalsError(.usage, operation: "migrate", what) }
        do {
            outlines = try schemas.map { try SchemaOutline($0) }
        } catch  where ClosureError.isIn(error) {
            throw ClosureError.of(error)
        } catch {
            throw StoreError.thrown(error, operation: "migrate", path: ":memory:")
        }
        versions = outlines.map(\.version)
        guard let newest = outlines.last else { throw refused("there is no version to migrate to") }
        let pairs = Array(zip(versions, versions.dropFirst()))
        if let pair = pairs.first(where: { $0 >= $1 }) { throw refused("version \(pair.1) is listed after \(pair.0), but is not higher") }
        for stage in stages {
            guard pairs.contains(where: { $0 == (stage.from, stage.to) }) else {
                throw refused("the stage \(stage.label) does not lead from one version to the next")
            }
            guard stages.filter({ $0.from == stage.from }).count == 1 else { throw refused("two stages start at \(stage.from)") }
        }
        self.stages = try zip(outlines, outlines.dropFirst()).map { from, to in
            let stage = stages.first { $0.from == from.version } ?? MigrationStage(nil, from.version, to.version)
            let renamed = try from.renamed(stage.renames)
            if stage.migrate == nil {
                let additions = try renamed.additions(
                    of: to, removing: stage.removals, requiring: stage.requirements, areAllPresent: true)
                if !additions.rebuilt.isEmpty { try renamed.check(additions.statements, leadTo: to) }
            }
            return Stage(label: stage.label, from: from.version, to: to, renames: stage.renames, rebuilt: renamed.rebuilt(in: to)) { db in
                try stage.willMigrate?(db)
                try (stage.migrate ?? { db in try Self.migrate(db, by: stage, to, at: renamed) })(db)
                try stage.didMigrate?(db)
            }
        }
        beginning = Stage(label: newest.version.description, to: newest) { [statements = newest.statements] db in
            for sql in statements { try db.execute(sql: sql) }
        }
    }

    /// Objects that a sync created already, because the space's log has them, are not created again.
    private static func migrate(_ db: Database, by stage: MigrationStage, _ next: SchemaOutline, at version: SchemaOutline) throws {
        do {
            let present = try SchemaOutline(db, of: version, and: next)
            let (statements, rebuilt) = try present.additions(of: next, removing: stage.removals, requiring: stage.requirements)
            let others = try rebuilt.flatMap { table in try TableObject.all(of: table, db) }.filter { object in
                !(version.items + next.items).contains { $0.name.isSameIdentifier(as: object.name) }
            }
            // A statement may fail before the one that turns it off.
            defer { if !rebuilt.isEmpty { SQLiteStatements.putBack(TableRebuild.end, on: db) } }
            for sql in statements + others.map(\.statement) { try db.execute(sql: sql) }
        } catch let error as AnnalsError where error.code == .usage {
            throw AnnalsError(
                .schemaRefused, operation: "migrate", "the file does not match version \(version.version): \(error.message)",
                hint: "Nothing was changed")
        }
    }

    /// Creates the newest version in an empty file.
    private let beginning: Stage

    /// A digest of a version's definition: 64 hexadecimal digits after the number of the rule that computes it; nil for an unknown
    /// version.
    public func checksum(of version: SchemaVersion) -> String? {
        outlines.first { $0.version == version }?.checksum
    }

    // MARK: The version of a file

    /// The version of a file's schema; nil if it has none of the tables.
    ///
    /// - Throws: `AnnalsError` of code schemaRefused for a version that is newer than all known ones, for a version whose
    ///   definition has changed since the file got it, and for tables that match no known version.
    public func version(of db: Database) throws -> SchemaVersion? {
        if let record = try VersionRecord.load(db) {
            guard let newest = versions.last, record.version <= newest else {
                throw refused(
                    "a newer version of this app has changed the schema to \(record.version)", "Update the app; nothing was changed")
            }
            guard let checksum = checksum(of: record.version) else {
                throw refused("this app does not know version \(record.version) of the schema", "Nothing was changed")
            }
            guard !record.checksum.hasPrefix(SchemaOutline.checksumRule) || checksum == record.checksum else {
                throw refused(
                    "version \(record.version) of the schema had another definition when this file was migrated to it",
                    "Do not change a released version; define a new one")
            }
            return record.version
        }
        let candidates = try outlines.filter { try $0.isAny(in: db) }
        guard let last = candidates.last else { return nil }
        if let found = try candidates.last(where: { try $0.difference(from: db) == nil }) { return found.version }
        let difference = try last.difference(from: db) ?? ""
        throw refused(
            "the tables match no version that this app knows; compared with \(last.version), \(difference)", "Nothing was changed")
    }

    private func refused(_ what: String, _ hint: String) -> AnnalsError {
        AnnalsError(.schemaRefused, operation: "migrate", what, hint: hint)
    }

    /// The stages that remain, in order.
    ///
    /// - Throws: errors of `version(of:)`.
    func due(in db: Database) throws -> [Stage] {
        guard let version = try version(of: db) else { return [beginning] }
        return stages.filter { ($0.from ?? version) >= version }
    }

    // MARK: One stage

    /// Runs a stage and stores its version, in the caller's transaction.
    ///
    /// - Parameter renames: the stage's renames that are not done yet.
    /// - Throws: `AnnalsError` of code schemaRefused if the resulting schema differs from the version's definition; errors of the
    ///   stage's handlers.
    func run(_ stage: Stage, _ db: Database, renaming renames: [Rename]) throws {
        for rename in renames { try db.execute(sql: rename.statement) }
        try stage.run(db)
        let difference = try stage.to.difference(from: db) ?? stage.to.missing(in: db).first.map { "there is no \($0.type) \($0.name)" }
        guard let difference else {
            try VersionRecord(version: stage.to.version, checksum: stage.to.checksum).save(db)
            return
        }
        throw refused("the stage \(stage.label) does not produce version \(stage.to.version): \(difference)", "Nothing was changed")
    }

    /// Stores the version of a file that only its tables identify, and creates its missing indexes, views and triggers, which a
    /// sync does not create.
    func adopt(_ db: Database) throws {
        guard try VersionRecord.load(db) == nil, let version = try version(of: db) else { return }
        guard let outline = outlines.first(where: { $0.version == version }) else { return }
        for item in try outline.missing(in: db) { try db.execute(sql: item.sql) }
        try VersionRecord(version: version, checksum: outline.checksum).save(db)
    }

    // MARK: Without a store

    /// The same stages as migrations of GRDB, for a database that is not a store, or for an app that has other GRDB migrations too.
    /// There is one migration for each version, with the name `schema 1.0.0`.
    public var databaseMigrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        for version in versions {
            migrator.registerMigration("schema \(version)") { db in
                for stage in try due(in: db) where stage.to.version <= version { try run(stage, db, renaming: stage.renames) }
                if version == versions.last { try adopt(db) }
            }
        }
        return migrator
    }
}
