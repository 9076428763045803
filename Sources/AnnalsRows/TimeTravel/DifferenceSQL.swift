import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Writes a difference as SQL for the `sqlite3` shell, or any program that runs statements one after another.
///
/// The script turns foreign keys and CHECKs off, because it holds all rows of the resulting state. The user's triggers that
/// write tracked tables are dropped first and created again at the end, because the rows hold their effects. Triggers that
/// write only untracked tables, such as a full-text index, stay and run.
///
/// Rows may have swapped unique values, so each table has two passes. The first pass removes the rows that are deleted or
/// that change a unique value. The second pass writes rows.
struct DifferenceSQL {
    private struct Trigger {
        var name: String
        var sql: String
    }

    private let db: Database
    private let literals: SQLLiterals
    private let dropped: [Trigger]

    init(_ db: Database) throws {
        self.db = db
        literals = SQLLiterals(encoding: try String.fetchOne(db, sql: "PRAGMA main.encoding") ?? "UTF-8")
        dropped = try Self.triggersThatWriteTrackedTables(db)
    }

    private static func triggersThatWriteTrackedTables(_ db: Database) throws -> [Trigger] {
        let tracked = try Set(TrackedTable.fetchTracked(db).map(\.name))
        let folded = Set(tracked.map(\.foldedIdentifier))
        let rows = try GRDB.Row.fetchAll(
            db,
            sql: """
                SELECT name, tbl_name, sql FROM main.sqlite_master
                WHERE type = 'trigger' AND substr(name, 1, 7) COLLATE NOCASE <> 'annals_' ORDER BY rowid
                """)
        guard !rows.isEmpty else { return [] }
        // If a trigger cannot be split, all triggers of tracked tables are dropped.
        let kept = (try? UserTriggers.plan(db, tracked: tracked).temporaries) ?? []
        let harmless = Set(kept.filter { $0.statements.count == $0.definition.statements.count }.map(\.name))
        return try rows.compactMap { row in
            let (name, table): (String, String) = try (row.value("name"), row.value("tbl_name"))
            guard folded.contains(table.foldedIdentifier), !harmless.contains(name) else { return nil }
            return try Trigger(name: name, sql: row.value("sql"))
        }
    }

    // MARK: Before and after the rows

    package func head(from: HistoryPoint, to: HistoryPoint) -> String {
        """
        -- Turns the store as it was at \(from) into the store as it was at \(to).
        PRAGMA foreign_keys = OFF;
        PRAGMA ignore_check_constraints = ON;
        BEGIN IMMEDIATE;

        """ + dropped.map { "DROP TRIGGER IF EXISTS \(SQL.quote($0.name));\n" }.joined()
    }

    /// The semicolon is on a separate line, because a comment at the end of the trigger could hide it.
    var foot: String {
        dropped.map { "\($0.sql)\n;\n" }.joined() + "COMMIT;\nPRAGMA ignore_check_constraints = OFF;\n"
    }

    package func statements(for table: TrackedTables.Entry) throws -> Statements {
        Statements(
            table.definition, unique: table.definition.uniqueColumnIndexes(table.rules), literals: literals,
            abort: try RowTable.abortClause(db, table.definition.name))
    }

    // MARK: Rows

    /// The statements for the rows of one table.
    struct Statements {
        private let definition: DeclaredTable
        private let unique: Set<Int>
        private let literals: SQLLiterals
        private let abort: String
        private let name: String
        private let columns: [String]

        fileprivate init(_ definition: DeclaredTable, unique: Set<Int>, literals: SQLLiterals, abort: String) {
            self.definition = definition
            self.unique = unique
            self.literals = literals
            self.abort = abort
            name = SQL.quote(definition.name)
            columns = definition.columns.map { SQL.quote($0.name) }
        }

        /// For the first pass; nil if there is nothing to remove.
        func takingOut(_ change: NetChange) -> String? {
            guard let old = change.old, isMoved(change) else { return nil }
            let delete = "DELETE FROM \(name) WHERE \(condition(old));\n"
            guard change.new != nil, !change.leftOut.isEmpty else { return delete }
            // Values that history leaves out are kept in a temporary table until the second pass.
            let list = columns.joined(separator: ", ")
            return """
                CREATE TEMP TABLE IF NOT EXISTS \(withheld) AS SELECT \(list) FROM \(name) WHERE 0;
                INSERT INTO \(withheld) SELECT \(list) FROM \(name) WHERE \(condition(old));
                \(delete)
                """
        }

        /// For the second pass.
        func putting(_ change: NetChange) -> String? {
            guard let new = change.new else { return nil }
            if let old = change.old, !isMoved(change) {
                let sets = columns.indices.filter { old[$0] != new[$0] }.map { "\(columns[$0]) = \(literals.text(new[$0]))" }
                return "UPDATE \(abort)\(name) SET \(sets.joined(separator: ", ")) WHERE \(condition(old));\n"
            }
            let into = "INSERT \(abort)INTO \(name) (\(columns.joined(separator: ", ")))"
            guard let old = change.old, !change.leftOut.isEmpty else {
                return "\(into) VALUES (\(new.map(literals.text).joined(separator: ", ")));\n"
            }
            let values = new.enumerated().map { change.leftOut.contains($0) ? columns[$0] : literals.text($1) }
            return """
                \(into) SELECT \(values.joined(separator: ", ")) FROM \(withheld) WHERE \(condition(old));
                DELETE FROM \(withheld) WHERE \(condition(old));

                """
        }

        /// The temporary table for removed rows that are written again with values that the script does not hold.
        private var withheld: String { "temp.\(SQL.quote("annals_withheld_\(definition.name)"))" }

        private func isMoved(_ change: NetChange) -> Bool {
            guard let old = change.old, let new = change.new else { return true }
            return unique.contains { old[$0] != new[$0] }
        }

        /// A row with NULL in its key is found by all its values. If several rows have these values, one of them is used.
        private func condition(_ row: [Value]) -> String {
            guard definition.primaryKey.contains(where: { row[$0].isNull }), let rowid = definition.rowidName else {
                return definition.primaryKey.enumerated().map { part, columnIndex in
                    "\(columns[columnIndex]) = \(literals.operand(row[columnIndex]))\(definition.keyCollate(part))"
                }.joined(separator: " AND ")
            }
            let equal = columns.indices.map { columnIndex in
                row[columnIndex].isNull
                    ? "\(columns[columnIndex]) IS NULL"
                    : "\(columns[columnIndex]) = \(literals.operand(row[columnIndex])) COLLATE BINARY "
                        + "AND typeof(\(columns[columnIndex])) = '\(row[columnIndex].storageClass)'"
            }
            let id = SQL.quote(rowid)
            return "\(id) = (SELECT \(id) FROM \(name) WHERE \(SQL.balanced(equal, operator: "AND")) LIMIT 1)"
        }
    }
}

extension Value {
    /// The result of SQLite's `typeof`.
    fileprivate var storageClass: String {
        switch self {
        case .null: "null"
        case .integer: "integer"
        case .real: "real"
        case .text: "text"
        case .blob: "blob"
        }
    }
}
