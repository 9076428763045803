import AnnalsSQLite
package import GRDB

/// How far a schema that came from elsewhere reaches.
package enum SchemaReach {
    /// Whether nothing in the file's schema names a function or a module that the program has put into SQLite. What SQLite itself brings
    /// can do no harm from within a schema, whatever `PRAGMA trusted_schema` says, and writing a full-text or R-tree index by triggers
    /// needs that pragma to be on.
    package static func isWithinSQLite(_ db: Database) throws -> Bool {
        let own = try names(db)
        let plain = try DatabaseQueue()
        defer { try? plain.close() }
        let foreign = try own.subtracting(plain.read(names)).map(\.name.foldedIdentifier)
        guard !foreign.isEmpty else { return true }
        let reached = Set(foreign)
        return try String.fetchAll(db, sql: "SELECT sql FROM main.sqlite_master WHERE sql IS NOT NULL").allSatisfy { sql in
            !SQLToken.all(in: sql).contains { $0.name.map { reached.contains($0.foldedIdentifier) } ?? false }
        }
    }

    /// A program's own function may have the name of one of SQLite's.
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
