import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// The tables that the statements of a closure read or write.
///
/// SQLite's trace gives the text of each statement that runs, also of those that the closure runs through the C interface. SQLite
/// names the tables when the texts are compiled once more.
final class StatementReads {
    private var texts: Set<String> = []

    /// Runs a closure, and then traces the connection's statements as before.
    ///
    /// - Parameter trace: what traces the connection's statements.
    func noting<T>(_ db: Database, _ trace: StatementTrace?, _ body: () throws -> T) throws -> T {
        db.trace(options: trace == nil ? .statement : [.statement, .profile]) { [self] event in
            if case .statement(let statement) = event { texts.insert(statement.sql) }
            trace?.log(event)
        }
        defer { if let trace { trace.install(db) } else { db.trace(options: []) } }
        let value = try body()
        // The last of all statements. If the closure set another trace, it is not noted.
        try db.execute(sql: Self.last)
        return value
    }

    private static let last = "SELECT 'annals: last statement'"

    /// The ids of the tracked tables that the statements read or write; nil if they may depend on anything in the file.
    func tables(_ db: Database, _ tables: TrackedTables) throws -> Set<Int64>? {
        guard texts.contains(Self.last) else { return nil }
        let others = try Self.untracked(db, tables)
        var found: Set<Int64> = []
        for text in texts {
            // A trigger's statements are noted as comments. They are compiled with the statement that fires the trigger.
            guard let first = SQLToken.all(in: text).first else { continue }
            if first.isWord("PRAGMA") {
                guard Self.isHarmlessPragma(text) else { return nil }
                continue
            }
            // For instance, a CREATE of what exists now.
            guard let statement = try? db.makeStatement(sql: text) else { return nil }
            let region = statement.databaseRegion
            func concerns(_ table: String) -> Bool { region.isModified(byEventsOfKind: .insert(tableName: table)) }
            guard !others.contains(where: { ($0.isDerived || statement.isReadonly) && concerns($0.name) }) else { return nil }
            for entry in tables.entries where !found.contains(entry.id) && concerns(entry.definition.name) { found.insert(entry.id) }
        }
        return found
    }

    /// A pragma that takes effect when it is compiled is not compiled again.
    private static func isHarmlessPragma(_ text: String) -> Bool {
        // PRAGMA name, or PRAGMA schema.name.
        var tokens = SQLToken.all(in: text).dropFirst()
        if tokens.dropFirst().first?.isSymbol(".") ?? false { tokens = tokens.dropFirst(2) }
        return tokens.first?.name.map { harmlessPragmas.contains($0.foldedIdentifier) } ?? false
    }

    /// Those that read the schema, and `query_only`, which GRDB sets and resets.
    private static let harmlessPragmas: Set<String> = [
        "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list", "database_list",
        "collation_list", "function_list", "query_only", "data_version", "schema_version",
    ]

    /// The tables without history, which also change with the entries of other replicas: triggers, foreign keys, indexes of texts and
    /// Annals itself write to them. `isDerived` is false for those that the triggers of capture read.
    private static func untracked(_ db: Database, _ tables: TrackedTables) throws -> [(name: String, isDerived: Bool)] {
        let sql = "SELECT name FROM main.sqlite_schema WHERE type = 'table' UNION SELECT name FROM temp.sqlite_schema WHERE type = 'table'"
        let tracked = Set(tables.entries.map(\.definition.name.foldedIdentifier))
        return try String.fetchAll(db, sql: sql).filter { !tracked.contains($0.foldedIdentifier) }.map { name in
            let isOfCapture = ["annals_changes_", "annals_notes_w", OwnTables.contextMarks].contains(where: name.hasPrefix)
            return (name, !isOfCapture)
        }
    }
}
