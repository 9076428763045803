import AnnalsSQLite
package import Foundation
package import GRDB

/// The table of facts by name, `annals_meta`: `StoreSchema` and `Meta` say which facts there are.
///
/// No other file names it in SQL.
package struct MetaTable {
    package static let name = "annals_meta"

    package static let schema = "CREATE TABLE IF NOT EXISTS main.annals_meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;"

    private let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    /// A fact inside another statement. `name` is SQL.
    package static func valueSQL(named name: String) -> String { "(SELECT value FROM main.annals_meta WHERE name = \(name))" }

    package func text(_ name: String) throws -> String? { try String.fetchOne(value, arguments: [name]) }

    package func data(_ name: String) throws -> Data? { try Data.fetchOne(value, arguments: [name]) }

    package func anything(_ name: String) throws -> DatabaseValue? { try DatabaseValue.fetchOne(value, arguments: [name]) }

    private var value: Statement {
        get throws { try db.cachedStatement(sql: "SELECT value FROM main.annals_meta WHERE name = ?") }
    }

    /// A kept statement over the name and the value of some facts.
    package func statement(for names: [String]) throws -> Statement {
        try db.cachedStatement(
            sql: "SELECT name, value FROM main.annals_meta WHERE name IN (\(names.map(SQL.literal).joined(separator: ", ")))")
    }

    /// The facts whose names begin so, with `name` and `value`.
    package func rows(from first: String, to end: String) throws -> [Row] {
        try Row.fetchAll(
            db.cachedStatement(sql: "SELECT name, value FROM main.annals_meta WHERE name >= ? AND name < ?"), arguments: [first, end])
    }

    /// Of every fact `name`, the `type` of its value, and `number` where that is an integer.
    package func types() throws -> [Row] {
        try Row.fetchAll(
            db, sql: "SELECT name, typeof(value) AS type, CASE typeof(value) WHEN 'integer' THEN value END AS number FROM main.annals_meta")
    }

    /// Writes nothing where the value is there already.
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
