import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The raw changes of one table that are not recorded yet.
package struct UnrecordedRange {
    package var id: Int64
    /// The last raw change that belongs to a transaction.
    package var recorded: Int64
    /// The last raw change.
    package var newest: Int64
    package var hasNotes: Bool
    let notes: NotesTable
    /// A program's own triggers write to the table; see `TriggerRewriteCheck`.
    var isWrittenByTriggers: Bool

    /// All column lists with raw changes after their newest span, or with notes.
    package static func fetchAll(_ db: Database) throws -> [UnrecordedRange] {
        var recorded: [(id: Int64, last: Int64, isWritten: Bool, notes: NotesTable)] = []
        let written = MetaTable.valueSQL(named: SQL.literal(StoreSchema.Meta.writtenByTriggers.rawValue))
        let known = try TrackedTable.statement(
            db, with: [SpanTable.endSQL(of: "id"), "instr(' ' || \(written) || ' ', ' ' || id || ' ')", "width"])
        do {
            defer { known.rewind() }
            while try known.step() {
                let notes = NotesTable(columns: Int(clamping: try known.number(at: 3)))
                try recorded.append((known.number(at: 0), known.number(at: 1), known.integer(at: 2) != 0, notes))
            }
        }
        var open: [UnrecordedRange] = []
        var rest = recorded[...]
        while !rest.isEmpty {
            let part = rest.prefix(HistoryLimits.compoundTerms)
            rest = rest.dropFirst(part.count)
            let newest = try db.cachedStatement(sql: part.map { newestSQL($0.id, $0.notes) }.joined(separator: " UNION ALL "))
            defer { newest.rewind() }
            for table in part where try newest.step() {
                let found = try UnrecordedRange(
                    id: table.id, recorded: table.last, newest: max(newest.number(at: 0), table.last),
                    hasNotes: newest.integer(at: 1) != 0, notes: table.notes, isWrittenByTriggers: table.isWritten)
                if found.newest > found.recorded || found.hasNotes { open.append(found) }
            }
        }
        return open
    }

    private static func newestSQL(_ id: Int64, _ notes: NotesTable) -> String {
        """
        SELECT (SELECT max(id) FROM main.\(StoreSchema.changesTable(id))), EXISTS(SELECT 1 FROM main.\(notes.name) WHERE list = \(id))
        """
    }
}
