import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// A table with the rows that had the key or a unique value of an inserted row, or of a changed key. A REPLACE may have removed them
/// without running a trigger; `Evictions` finds out.
///
/// All tracked tables with about the same number of columns share one, because each table and each index takes at least one page of
/// the file, and every program parses its definition when it opens the file.
///
/// | column | content |
/// |---|---|
/// | list | the id of the column list |
/// | mark | the id of the newest raw change of the list at the time of the note; NULL if there was none |
/// | key | the key: its value, or a text if it has several columns; NULL if a value of it is NULL |
/// | ro | the rowid, if the key may hold NULL |
/// | o0, o1, … | the values of the row |
package struct NotesTable: Hashable {
    /// The number of columns that a row in it can have.
    let width: Int

    /// For tables with that many columns.
    package init(columns count: Int) {
        var width = 8
        while width < min(count, HistoryLimits.trackedColumns) { width *= 2 }
        self.width = width
    }

    package var name: String { "annals_notes_w\(width)" }

    private var triggerName: String { "annals_notes_w\(width)_once" }

    // MARK: Installation

    /// A row is noted once for each writer. So a writer that meets a row again and again adds no note, and the newest note shows which
    /// writer can have removed the row.
    private var trigger: CaptureTriggers.Trigger {
        CaptureTriggers.Trigger(
            name: triggerName,
            body: """
                BEFORE INSERT ON \(name)
                WHEN EXISTS(
                  SELECT 1 FROM \(name) WHERE list = NEW.list AND key IS NEW.key AND (NEW.key IS NOT NULL OR ro = NEW.ro)
                  AND coalesce(mark, 0) >= coalesce(\(NamedWriters.lastMarkSQL(of: "NEW.list")), 0)) BEGIN
                SELECT RAISE(IGNORE);
                END
                """)
    }

    /// Creates what is missing or altered.
    package func install(_ db: Database) throws {
        guard try !isWhole(db) else { return }
        let values = (0..<width).map { "o\($0)" }.joined(separator: ", ")
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS main.\(name)(id INTEGER PRIMARY KEY, list, mark, key, ro, \(values));
                CREATE INDEX IF NOT EXISTS main.\(name)_key ON \(name)(list, key, mark);
                DROP TRIGGER IF EXISTS main.\(triggerName);
                \(trigger.createSQL)
                """)
    }

    package func isWhole(_ db: Database) throws -> Bool {
        let sql = "SELECT sql FROM main.sqlite_master WHERE tbl_name = ? AND name IN (?, ?, ?) AND type <> 'view'"
        let found = try String.fetchSet(db, sql: sql, arguments: [name, name, "\(name)_key", triggerName])
        return found.count == 3 && found.contains(trigger.sql)
    }

    /// Whether a table or a trigger has the name of such a table or of its trigger.
    static func owns(_ name: String) -> Bool {
        let width = name.split(separator: "_").dropFirst(2).first.flatMap { Int($0.dropFirst()) } ?? 0
        let table = NotesTable(columns: width)
        return table.width == width && [table.name, table.triggerName].contains(name)
    }

    // MARK: Notes

    /// Deletes the notes of a column list.
    package func forget(_ list: Int64, _ db: Database) throws {
        guard try db.tableExists(name) else { return }
        try db.cachedStatement(sql: "DELETE FROM main.\(name) WHERE list = ?").execute(arguments: [list])
    }

    /// The column `key` of a row whose key has these values, as SQL.
    ///
    /// Two rows with the same key have the same text. `quote` ends a text at its first NUL character, so a text is written as its bytes.
    static func keySQL(_ values: [String], mayBeNull: Bool) -> String {
        guard values.count > 1 else { return values.joined() }
        let parts = values.map { value in
            let null = mayBeNull ? " WHEN 'null' THEN NULL" : ""
            return "CASE typeof(\(value)) WHEN 'text' THEN 't' || hex(\(value))\(null) ELSE quote(\(value)) END"
        }
        return parts.joined(separator: " || ',' || ")
    }
}
