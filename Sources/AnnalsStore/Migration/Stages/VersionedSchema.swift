public import GRDB

/// One version of an app's schema, whole: what an empty database gets.
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
/// A version that was shipped stays as it is: what changes is the next one.
public protocol VersionedSchema {
    static var versionIdentifier: SchemaVersion { get }
    /// Makes tables, indexes, views and triggers. Rows that it inserts are nobody's.
    static func define(_ db: Database) throws
}
