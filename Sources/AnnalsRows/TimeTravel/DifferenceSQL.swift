import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Writes a difference as SQL for the `sqlite3` shell, or any program that runs statements one after another.
///
/// Foreign keys and CHECKs are off meanwhile, as the rows of both states are given, whatever led to them. Triggers of the
/// user's that write tracked tables are dropped before and made again after, since their effects are among the rows;
/// those that only keep untracked tables, such as a full-text index, stay and run.
///
/// Rows may have swapped unique values, so each table is gone through twice: first the rows are taken out that go or
/// change such a value, then rows are written.
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
        // Where one cannot be divided, none counts as harmless.
        let kept = (try? UserTriggers.plan(db, tracked: tracked).temporaries) ?? []
        let harmless = Set(kept.filter { $0.statements.count == $0.definition.statements.count }.map(\.name))
        return try rows.compactMap { row in
            let (name, table): (String, String) = try (row.value("name"), row.value("tbl_name"))
            guard folded.contains(table.foldedIdentifier), !harmless.contains(name) else { return nil }
            return try Trigger(name: name, sql: row.value("sql"))
        }
    }

    // MARK: Around the rows

    package func head(from: HistoryToken, to: HistoryToken) -> String {
        """
        -- PushLease the store as it was at \(from) into what it was at \(to).
        PRAGMA foreign_keys = OFF;
        PRAGMA ignore_check_constraints = ON;
        BEGIN IMMEDIATE;

        """ + dropped.map { "DROP TRIGGER IF EXISTS \(SQL.quote($0.name));\n" }.joined()
    }

    /// The statement's end stands on a line of its own, lest a comment at the trigger's end swallow it.
    var foot: String {
        dropped.map { "\($0.sql)\n;\n" }.joined() + "COMMIT;\nPRAGMA ignore_check_constraints = OFF;\n"
    }

    package func statements(for table: TrackedTables.Entry) throws -> Statements {
        Statements(
            table.definition, unique: table.definition.uniquePlaces(table.rules), literals: literals,
            abort: try RowTable.abortClause(db, table.definition.name))
    }

    // MARK: Rows

    /// The statements for one table's rows.
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

        /// For the first pass; nil where nothing is to be done.
        func takingOut(_ change: NetChange) -> String? {
            guard let old = change.old, isMoved(change) else { return nil }
            let delete = "DELETE FROM \(name) WHERE \(condition(old));\n"
            guard change.new != nil, !change.leftOut.isEmpty else { return delete }
            // Values that history leaves out stay in the file, and wait beside the table.
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

        /// Where rows are that were taken out and come back with values that the script does not hold.
        private var withheld: String { "temp.\(SQL.quote("annals_withheld_\(definition.name)"))" }

        private func isMoved(_ change: NetChange) -> Bool {
            guard let old = change.old, let new = change.new else { return true }
            return unique.contains { old[$0] != new[$0] }
        }

        /// A row whose key holds NULL is found by all its values, one of those that have them.
        private func condition(_ row: [Value]) -> String {
            guard definition.primaryKey.contains(where: { row[$0].isNull }), let rowid = definition.rowidName else {
                return definition.primaryKey.enumerated().map { part, place in
                    "\(columns[place]) = \(literals.operand(row[place]))\(definition.keyCollate(part))"
                }.joined(separator: " AND ")
            }
            let equal = columns.indices.map { place in
                row[place].isNull
                    ? "\(columns[place]) IS NULL"
                    : "\(columns[place]) = \(literals.operand(row[place])) COLLATE BINARY "
                        + "AND typeof(\(columns[place])) = '\(row[place].storageClass)'"
            }
            let id = SQL.quote(rowid)
            return "\(id) = (SELECT \(id) FROM \(name) WHERE \(SQL.balanced(equal, operator: "AND")) LIMIT 1)"
        }
    }
}

extension Value {
    /// As SQLite's `typeof` calls it.
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
