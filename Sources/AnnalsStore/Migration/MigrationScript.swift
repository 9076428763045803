import AnnalsCore
import GRDB

extension Store {
    /// Runs SQL statements as a migration; see `migrate(label:renames:tracking:_:)`.
    ///
    /// - Returns: how many statements there were.
    /// - Throws: `AnnalsError`; also `usage` where a statement would end the transaction. Nothing is changed then.
    @discardableResult
    package func migrate(label: String, renames: [Rename] = [], tracking: NewTables = .none, sql: String) async throws -> Int {
        try await migrate(label: label, renames: renames, tracking: tracking) { db, tables in try MigrationScript.run(sql, db, tables) }
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
        do {
            let statements = try db.allStatements(sql: sql)
            while let statement = try statements.next() {
                let word = SQLText(statement.sql).tokens.first?.text.uppercased() ?? ""
                guard !forbidden.contains(word) else { throw misplaced(word) }
                if let name = ownName(in: statement.sql) {
                    throw AnnalsError(
                        .schemaRefused, operation: "migrate", "a migration has nothing to do with \(name), which is Annals' own",
                        hint: "Take it out; nothing was changed")
                }
                if let table = RebuiltTables.table(in: statement.sql) { try tables.putAside(table) }
                try statement.execute()
                try tables.takeUp()
                count += 1
            }
        } catch let error as DatabaseError {
            throw AnnalsError(
                .schemaRefused, operation: "migrate", "SQLite refused statement \(count + 1): \(error.message ?? "no reason given")",
                hint: "Nothing was changed", underlying: error)
        }
        return count
    }

    /// A name with Annals' prefix; text in single quotes is none.
    private static func ownName(in sql: String) -> String? {
        let source = Array(sql.utf8)
        return SQLToken.all(in: source).first { token in
            token.isName && source[token.range.lowerBound] != UInt8(ascii: "'") && StoreSchema.isOwnName(token.text)
        }?.text
    }

    private static func misplaced(_ word: String) -> AnnalsError {
        AnnalsError(
            .usage, operation: "migrate", "\(word) has no place in a migration: all of it is one transaction",
            hint: "Take it out; nothing was changed")
    }
}
