import AnnalsCore
import AnnalsHistory
import AnnalsReplica
package import AnnalsSchema
import AnnalsSQLite
import GRDB

extension Store {
    /// Runs SQL statements as a migration; see `migrate(label:renames:tracking:rebuilding:_:)`.
    ///
    /// - Returns: how many statements there were, and how many conflicts were settled between what was kept until now and the store's
    ///   own writes.
    /// - Throws: `AnnalsError`; also `usage` where a statement would end the transaction. Nothing is changed then.
    @discardableResult
    package func migrate(
        label: String, renames: [Rename] = [], tracking: NewTables = .none, sql: String
    ) async throws -> (statements: Int, conflicts: Int) {
        let (statements, conflicts) = try await migrateCounting(label: label, renames: renames, tracking: tracking) { db, tables in
            try MigrationScript.run(sql, db, tables)
        }
        return (statements, conflicts)
    }
}

/// A migration as a file of statements.
private enum MigrationScript {
    /// Statements that would end the transaction, or leave it.
    private static let forbidden: Set<String> = [
        "BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH", "VACUUM",
    ]

    static func run(_ sql: String, _ db: Database, _ tables: RebuiltTables) throws -> Int {
        var count = 0
        let own = Set(try OwnObjects.all(db).map(\.name.foldedIdentifier))
        do {
            let statements = try db.allStatements(sql: sql)
            while let statement = try statements.next() {
                let word = SQLToken.all(in: statement.sql).first?.text.uppercased() ?? ""
                guard !forbidden.contains(word) else { throw misplaced(word) }
                if let name = ownName(in: statement.sql, own) {
                    throw AnnalsError(
                        .schemaRefused, operation: "migrate", "a migration has nothing to do with \(name), which is Annals' own",
                        hint: "Take it out; nothing was changed")
                }
                try tables.prepare(for: statement.sql)
                try statement.execute()
                count += 1
            }
        } catch let error as DatabaseError {
            throw AnnalsError(
                .schemaRefused, operation: "migrate", "SQLite refused statement \(count + 1): \(error.message ?? "no reason given")",
                hint: "Nothing was changed", underlying: error)
        }
        return count
    }

    /// A name of Annals' own. Text in single quotes is one only where SQLite takes it for a name.
    private static func ownName(in sql: String, _ own: Set<String>) -> String? {
        let tokens = SQLToken.all(in: sql)
        let before = ["FROM", "INTO", "UPDATE", "TABLE", "JOIN", "EXISTS", "ON", "TRIGGER", "INDEX"]
        for (index, token) in tokens.enumerated() {
            guard let name = token.name, own.contains(name.foldedIdentifier) else { continue }
            guard token.kind == .string, index > 0 else { return name }
            if tokens[index - 1].isSymbol(".") || before.contains(where: tokens[index - 1].isWord) { return name }
        }
        return nil
    }

    private static func misplaced(_ word: String) -> AnnalsError {
        AnnalsError(
            .usage, operation: "migrate", "\(word) has no place in a migration: all of it is one transaction",
            hint: "Take it out; nothing was changed")
    }
}
