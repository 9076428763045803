public import GRDB

/// One complete version of an app's schema, for an empty database.
///
///     enum SchemaV1: VersionedSchema {
///         static let versionIdentifier = SchemaVersion(1)
///
///         static func define(_ db: Database) throws {
///             try db.create(table: "todo") { table in
///                 table.primaryKey("id", .text)
///                 table.column("title", .text).notNull().defaults(to: "")
///             }
///         }
///     }
///
/// Never change a version that was shipped; make a new version instead.
public protocol VersionedSchema {
    static var versionIdentifier: SchemaVersion { get }
    /// Creates tables, indexes, views and triggers. Rows that it inserts are ignored.
    static func define(_ db: Database) throws
}
