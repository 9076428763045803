import AnnalsCore
import AnnalsHistory
import AnnalsReplica
package import AnnalsSchema
import AnnalsSQLite
import GRDB

extension Store {
    /// Runs SQL statements as a migration; see `migrate(label:renames:tracking:rebuilding:_:)`.
    ///
    /// - Returns: the number of statements, and the number of conflicts that were settled between deferred cells and the store's
    ///   own writes.
    /// - Throws: `AnnalsError`; also `usage` if a statement would end the transaction. Nothing is changed then.
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
    /// Statements that would end or bypass the transaction.
    private static let forbidden: Set<String> = ["ROLLBACK", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH", "VACUUM"]

    /// The pairs of BEGIN and COMMIT in a script, as migration tools print them. The migration is one transaction, so they are
    /// not run.
    private struct Brackets {
        private var isOpen = false

        /// Returns whether the statement, which begins with this word, is one of a pair.
        mutating func skip(_ word: String) throws -> Bool {
            guard ["BEGIN", "COMMIT", "END"].contains(word) else { return false }
            guard isOpen == (word != "BEGIN") else { throw Self.unpaired(word) }
            isOpen.toggle()
            return true
        }

        func finish() throws {
            if isOpen { throw Self.unpaired("BEGIN") }
        }

        private static func unpaired(_ word: String) -> AnnalsError {
            AnnalsError(
                .usage, operation: "migrate", "the file has \(word) without its \(word == "BEGIN" ? "COMMIT" : "BEGIN")",
                hint: "A migration is one transaction: remove it, or add the other; nothing was changed")
        }
    }

    static func run(_ sql: String, _ db: Database, _ tables: RebuiltTables) throws -> Int {
        var count = 0
        var brackets = Brackets()
        let own = Set(try OwnObjects.all(db).map(\.name.foldedIdentifier))
        do {
            let statements = try db.allStatements(sql: sql)
            while let statement = try statements.next() {
                let word = SQLToken.all(in: statement.sql).first?.text.uppercased() ?? ""
                guard !forbidden.contains(word) else { throw misplaced(word) }
                if try brackets.skip(word) { continue }
                if let name = ownName(in: statement.sql, own) {
                    throw AnnalsError(
                        .schemaRefused, operation: "migrate", "a migration must not use \(name), which belongs to Annals",
                        hint: "Remove it; nothing was changed")
                }
                try tables.prepare(for: statement.sql)
                try statement.execute()
                count += 1
            }
            try brackets.finish()
        } catch let error as DatabaseError {
            throw AnnalsError(
                .schemaRefused, operation: "migrate", "SQLite refused statement \(count + 1): \(error.message ?? "no reason given")",
                hint: "Nothing was changed", underlying: error)
        }
        return count
    }

    /// A name of an object of Annals in the statement. Text in single quotes counts only where SQLite reads it as a name.
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
            .usage, operation: "migrate", "\(word) is not allowed in a migration: a migration is one transaction",
            hint: "Remove it; nothing was changed")
    }
}
