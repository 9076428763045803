import AnnalsCore
import AnnalsSchema
package import AnnalsSQLite
package import GRDB

/// The user's own triggers, as far as they run while the entries of others are applied.
///
/// An entry holds the effects that its author's triggers had on tracked tables, so these must not come a second time;
/// but an untracked table that a trigger keeps, such as a full-text index, a counter or a log, is in no entry and must
/// follow the rows (merge rule 19). One trigger may do both. Changing the triggers of the file would lock out its other
/// writers, and change its schema for all of them at every sync.
///
/// So the applying connection turns off all persistent triggers for itself (SQLite still runs those of the temp schema
/// then), and instead of each trigger that keeps untracked tables it has a TEMP trigger for as long as it applies: same
/// timing, event, columns and WHEN, with the statements that write untracked tables only. Nothing is written to the file.
///
/// - What writes tracked tables is left out, and so is what writes nothing: a validation with RAISE(ABORT) was passed at
///   the author. `TriggerSelection` has the exact rules.
/// - PRAGMA recursive_triggers means for the TEMP triggers what it means for the originals.
/// - Entries must be applied by plain INSERT, UPDATE and DELETE: an OR clause would override those in the triggers.
/// - A name in the body of a TEMP trigger is looked up in the temp schema first. `install` therefore refuses a temporary
///   table that has a name such a body uses.
package struct UserTriggers: Sendable {
    /// One trigger to be created.
    package struct Temporary: Sendable {
        /// What it is called in the file.
        package let name: String
        package let definition: TriggerDefinition
        package let statements: [String]
        /// Every word in it, folded.
        package let words: Set<String>
    }

    /// A trigger comes after those that its statements fire.
    package let temporaries: [Temporary]
    /// The tables whose rows applying changes, directly or by a kept trigger, folded.
    package let reached: Set<String>
    /// Folded.
    package let tracked: Set<String>

    package init(temporaries: [Temporary], reached: Set<String>, tracked: Set<String>) {
        self.temporaries = temporaries
        self.reached = reached
        self.tracked = tracked
    }

    /// Whether no trigger has to run.
    package var isEmpty: Bool { temporaries.isEmpty }

    /// Decides what has to run when rows of the tracked tables change. Reads the schema, writes nothing.
    ///
    /// One query where the file has no triggers but ours, whose names begin with `annals_`.
    ///
    /// - Parameter tracked: Names of tables, in any case.
    /// - Throws: `AnnalsError` with code `schemaRefused`, naming the trigger, where one cannot be split.
    package static func plan(_ db: Database, tracked: Set<String>) throws -> UserTriggers {
        let tracked = Set(tracked.map(\.foldedIdentifier))
        // The newest first: SQLite fires triggers in that order, those of the temp schema in the opposite one. It
        // promises neither, but whoever relies on it should see no difference.
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
            // Several hundred names, and hardly ever needed.
            harmlessFunctions: candidates.contains(where: \.dependsOnFunctions) ? try harmlessFunctions(db) : [])
        try selection.run()
        return UserTriggers(temporaries: selection.chosen, reached: selection.reached, tracked: tracked)
    }

    /// Creates the TEMP triggers, and has SQLite compile each, so that what is missing here (a function, a module, a
    /// table) shows before anything is applied. To be called outside a transaction, with persistent triggers off.
    ///
    /// - Throws: `AnnalsError` with code `schemaRefused`, naming the trigger; then none of them is left.
    package func install(_ db: Database) throws {
        try remove(db)
        try TemporarySchema(db).check(for: self)
        do {
            for (index, trigger) in temporaries.enumerated() {
                let sql = trigger.definition.temporarySQL(named: Self.temporaryName(index), statements: trigger.statements)
                try refusing(trigger, "cannot be split into what runs while entries are applied and what does not") {
                    try SQLiteStatements.run(sql, on: db)
                }
            }
            for trigger in temporaries {
                guard let sql = try firingSQL(db, trigger.definition) else { continue }
                try refusing(trigger, "cannot run here") { try SQLiteStatements.compile(sql, on: db) }
            }
        } catch {
            try remove(db)
            throw error
        }
    }

    /// Drops what `install` created, even where the access was cancelled.
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

    /// SQLite's own functions, and its modules, which in FROM look like functions. None of them writes.
    private static func harmlessFunctions(_ db: Database) throws -> Set<String> {
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM pragma_function_list WHERE builtin UNION SELECT name FROM pragma_module_list")
        return Set(names.map(\.foldedIdentifier))
    }

    /// A statement that fires the trigger; it is compiled, never run. Nil where no statement fires it: UPDATE OF a
    /// column that does not exist.
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
                "The trigger \"\(trigger.name)\" on \"\(trigger.definition.table)\" \(problem): \(error.message ?? "unknown error")",
                hint: "Change the trigger, or apply from a program that provides what it needs", underlying: error)
        }
    }
}
