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
        let derived = try Self.derivedTables(db)
        var found: Set<Int64> = []
        // A trigger's statements are noted as comments. They are compiled with the statement that fires the trigger.
        for text in texts where !text.hasPrefix("--") {
            // For instance, a CREATE of what exists now.
            guard let statement = try? db.makeStatement(sql: text) else { return nil }
            let region = statement.databaseRegion
            func concerns(_ table: String) -> Bool { region.isModified(byEventsOfKind: .insert(tableName: table)) }
            guard !derived.contains(where: concerns) else { return nil }
            for entry in tables.entries where !found.contains(entry.id) && concerns(entry.definition.name) { found.insert(entry.id) }
        }
        return found
    }

    /// The tables with data from other tables: virtual tables, and Annals' own, without those that the triggers of capture read.
    private static func derivedTables(_ db: Database) throws -> [String] {
        let virtual = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"
        return try OwnTables.all.subtracting([OwnTables.contextMarks]) + String.fetchAll(db, sql: virtual)
    }
}
