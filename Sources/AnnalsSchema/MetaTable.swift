import AnnalsSQLite
package import Foundation
package import GRDB

/// The table of values about the store by name, `annals_meta`. `StoreSchema.Meta` and `Meta.Name` list the names.
///
/// Only this file contains SQL on the table.
package struct MetaTable {
    package static let schema = "CREATE TABLE IF NOT EXISTS main.annals_meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;"

    private let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    /// A subquery for a value. `name` is SQL.
    package static func valueSQL(named name: String) -> String { "(SELECT value FROM main.annals_meta WHERE name = \(name))" }

    package func text(_ name: String) throws -> String? { try String.fetchOne(value, arguments: [name]) }

    package func data(_ name: String) throws -> Data? { try Data.fetchOne(value, arguments: [name]) }

    package func anything(_ name: String) throws -> DatabaseValue? { try DatabaseValue.fetchOne(value, arguments: [name]) }

    private var value: Statement {
        get throws { try db.cachedStatement(sql: "SELECT value FROM main.annals_meta WHERE name = ?") }
    }

    /// A cached statement that selects the names and values of some entries.
    package func statement(for names: [String]) throws -> Statement {
        try db.cachedStatement(
            sql: "SELECT name, value FROM main.annals_meta WHERE name IN (\(names.map(SQL.literal).joined(separator: ", ")))")
    }

    /// `name` and `value` of the entries whose names are in the half-open range from `first` to `end`.
    package func rows(from first: String, to end: String) throws -> [Row] {
        try Row.fetchAll(
            db.cachedStatement(sql: "SELECT name, value FROM main.annals_meta WHERE name >= ? AND name < ?"), arguments: [first, end])
    }

    /// For every entry `name`, the `type` of its value, and `number` if the value is an integer.
    package func types() throws -> [Row] {
        try Row.fetchAll(
            db, sql: "SELECT name, typeof(value) AS type, CASE typeof(value) WHEN 'integer' THEN value END AS number FROM main.annals_meta")
    }

    /// Writes nothing if the value is stored already.
    package func set(_ name: String, _ value: (any DatabaseValueConvertible)?) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO main.annals_meta(name, value) VALUES(?, ?)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value IS NOT annals_meta.value
                """
        )
        .execute(arguments: [name, value])
    }

    package func remove(_ name: String) throws {
        try db.cachedStatement(sql: "DELETE FROM main.annals_meta WHERE name = ?").execute(arguments: [name])
    }
}
