import AnnalsCore
import AnnalsSQLite
package import GRDB

/// Which functions and modules a schema from elsewhere can call.
package enum SchemaReach {
    /// Whether no name in the file's schema is that of a function or module that the program added to SQLite. SQLite's own
    /// functions and modules are harmless in a schema, even with `PRAGMA trusted_schema` on. Triggers that write a full-text or
    /// R-tree index need that pragma to be on.
    package static func isWithinSQLite(_ db: Database) throws -> Bool {
        let own = try names(db)
        let plain = try DatabaseQueue()
        defer { try? plain.close() }
        let known = try plain.read { db in
            SpatialFunctions.install(db)
            return try names(db)
        }
        let added = own.subtracting(known).map(\.name.foldedIdentifier)
        guard !added.isEmpty else { return true }
        let reached = Set(added)
        return try String.fetchAll(db, sql: "SELECT sql FROM main.sqlite_master WHERE sql IS NOT NULL").allSatisfy { sql in
            !SQLToken.all(in: sql).contains { $0.name.map { reached.contains($0.foldedIdentifier) } ?? false }
        }
    }

    /// A program's function may have the same name as a built-in one.
    private struct Name: Hashable {
        var name: String
        var isBuiltIn: Bool
        var arguments: Int
    }

    private static func names(_ db: Database) throws -> Set<Name> {
        let sql = "SELECT name, builtin, narg FROM pragma_function_list UNION SELECT name, 1, 0 FROM pragma_module_list"
        return Set(try Row.fetchAll(db, sql: sql).map { Name(name: $0[0], isBuiltIn: $0[1], arguments: $0[2]) })
    }
}
