import AnnalsCore
import AnnalsSchema
package import AnnalsSQLite
package import GRDB

/// The parts of the user's own triggers that run while entries of other replicas are applied.
///
/// An entry holds the effects that the triggers of its author had on tracked tables, so these effects must not be repeated.
/// An untracked table that a trigger maintains, such as a full-text index, a counter or a log, is in no entry and must
/// follow the rows (merge rule 19). One trigger may write both kinds of tables. A change of the triggers in the file would
/// lock out its other writers, and would change its schema for all of them at every sync.
///
/// So the applying connection turns off all persistent triggers for itself. SQLite still runs the triggers of the temp schema
/// then. Each trigger that maintains untracked tables is replaced by a TEMP trigger while entries are applied. It has the same
/// timing, event, columns and WHEN, and only the statements that write untracked tables. Nothing is written to the file.
///
/// - Statements that write tracked tables are left out, and so are statements that write nothing: the row passed a
///   validation with RAISE(ABORT) at its author. `TriggerSelection` has the exact rules.
/// - PRAGMA recursive_triggers has the same meaning for the TEMP triggers as for the originals.
/// - Entries must be applied with plain INSERT, UPDATE and DELETE. An OR clause would override the clauses in the triggers.
/// - SQLite looks up a name in the body of a TEMP trigger in the temp schema first. So `install` refuses a temporary table
///   with a name that the body of a trigger uses.
package struct UserTriggers: Sendable {
    /// One trigger to create.
    package struct Temporary: Sendable {
        /// Its name in the file.
        package let name: String
        package let definition: TriggerDefinition
        package let statements: [String]
        /// Every word of its statements and condition, folded.
        package let words: Set<String>
    }

    /// A trigger comes after the triggers that its statements fire.
    package let temporaries: [Temporary]
    /// The tables with rows that applying changes, directly or by a selected trigger, folded.
    package let reached: Set<String>
    /// Folded.
    package let tracked: Set<String>
    /// If this program does not have what a trigger calls, only writes to the table of the trigger are refused, when they are compiled.
    /// `RowTable` names the trigger then. Otherwise `install` refuses.
    package var refusesWhenWritten = false

    package init(temporaries: [Temporary], reached: Set<String>, tracked: Set<String>) {
        self.temporaries = temporaries
        self.reached = reached
        self.tracked = tracked
    }

    /// Whether no trigger has to run.
    package var isEmpty: Bool { temporaries.isEmpty }

    /// Selects the triggers that have to run when rows of the tracked tables change. Reads the schema and writes nothing.
    ///
    /// Runs one query if the file has no triggers except those of Annals, which have names with the prefix `annals_`.
    ///
    /// - Parameter tracked: Names of tables, in any case.
    /// - Throws: `AnnalsError` with code `schemaRefused`, with the name of the trigger, if a trigger cannot be split.
    package static func plan(_ db: Database, tracked: Set<String>) throws -> UserTriggers {
        let tracked = Set(tracked.map(\.foldedIdentifier))
        // The newest trigger first. SQLite fires persistent triggers in that order, and triggers of the temp schema in the
        // opposite order. SQLite does not promise either order, but programs may depend on it.
        let triggers = try Row.fetchAll(
            db,
            sql: """
                SELECT name, tbl_name, sql FROM main.sqlite_master
                WHERE type = 'trigger' AND substr(name, 1, 7) COLLATE NOCASE <> 'annals_'
                ORDER BY rowid DESC
                """)
        guard !triggers.isEmpty else { return UserTriggers(temporaries: [], reached: tracked, tracked: tracked) }
        let views = try String.fetchAll(db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'view'")
        let candidates = try triggers.map {
            try TriggerSelection.Candidate(name: $0.value("name"), table: $0.value("tbl_name"), sql: $0.value("sql") ?? "")
        }
        var selection = TriggerSelection(
            candidates: candidates,
            tracked: tracked,
            views: Set(views.map(\.foldedIdentifier)),
            // The list has several hundred names and is rarely needed.
            harmlessFunctions: candidates.contains(where: \.dependsOnFunctions) ? try harmlessFunctions(db) : [])
        try selection.run()
        return UserTriggers(temporaries: selection.chosen, reached: selection.reached, tracked: tracked)
    }

    /// Creates the TEMP triggers and lets SQLite compile each. So a missing function, module or table is found before anything
    /// is applied, unless `refusesWhenWritten` defers it. To be called outside a transaction, with persistent triggers off.
    ///
    /// - Throws: `AnnalsError` with code `schemaRefused`, with the name of the trigger. Then none of the triggers is left.
    package func install(_ db: Database) throws {
        try remove(db)
        try TemporarySchema(db).check(for: self)
        do {
            for (index, trigger) in temporaries.enumerated() {
                let sql = trigger.definition.temporarySQL(named: Self.temporaryName(index), statements: trigger.statements)
                try refusing(trigger, "cannot be divided into statements that run while entries are applied and statements that do not") {
                    try SQLiteStatements.run(sql, on: db)
                }
            }
            for trigger in temporaries {
                guard let sql = try firingSQL(db, trigger.definition) else { continue }
                try refusing(trigger, "cannot run here") {
                    do {
                        try SQLiteStatements.compile(sql, on: db)
                    } catch  where refusesWhenWritten && StoreError.isAboutMissingName(error) {}
                }
            }
        } catch {
            try remove(db)
            throw error
        }
    }

    /// Drops the triggers that `install` created, also after the access was cancelled.
    package func remove(_ db: Database) throws {
        let names = try SQLiteStatements.names(
            "SELECT name FROM temp.sqlite_master WHERE type = 'trigger' AND name GLOB '\(Self.temporaryPrefix)*'", on: db)
        for name in names {
            try SQLiteStatements.run("DROP TRIGGER IF EXISTS temp.\(SQL.quote(name))", on: db)
        }
    }

    static let temporaryPrefix = "annals_temp_"

    private static func temporaryName(_ index: Int) -> String {
        temporaryPrefix + String(index + 1)
    }

    /// SQLite's built-in functions, those of a GeoPackage, and SQLite's modules, which look like functions in FROM. None of them
    /// writes.
    private static func harmlessFunctions(_ db: Database) throws -> Set<String> {
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM pragma_function_list WHERE builtin UNION SELECT name FROM pragma_module_list")
        return Set(names.map(\.foldedIdentifier)).union(SpatialFunctions.names)
    }

    /// A statement that fires the trigger. It is compiled and never run. nil if no statement fires the trigger, as with UPDATE OF
    /// a column that does not exist.
    private func firingSQL(_ db: Database, _ trigger: TriggerDefinition) throws -> String? {
        // Columns that are neither hidden nor generated.
        let columns = try String.fetchAll(
            db, sql: "SELECT name FROM pragma_table_xinfo(?, 'main') WHERE hidden = 0", arguments: [trigger.table])
        let table = "main." + SQL.quote(trigger.table)
        switch trigger.event {
        case .insert:
            let names = columns.map(SQL.quote).joined(separator: ", ")
            return "INSERT INTO \(table) (\(names)) VALUES (\(columns.map { _ in "NULL" }.joined(separator: ", ")))"
        case .delete:
            return "DELETE FROM \(table)"
        case .update:
            let wanted = Set(trigger.columns.map(\.foldedIdentifier))
            let column = columns.first { wanted.isEmpty || wanted.contains($0.foldedIdentifier) }
            return column.map { "UPDATE \(table) SET \(SQL.quote($0)) = NULL" }
        }
    }

    private func refusing(_ trigger: Temporary, _ problem: String, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR || error.resultCode == .SQLITE_AUTH {
            throw AnnalsError(
                .schemaRefused, operation: "apply",
                "the trigger \"\(trigger.name)\" on \"\(trigger.definition.table)\" \(problem): \(error.message ?? "unknown error")",
                hint: "Change the trigger, or use a program that provides what it needs", underlying: error)
        }
    }
}
