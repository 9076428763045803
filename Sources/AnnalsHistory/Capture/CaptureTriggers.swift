import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The triggers of one tracked table. They use only plain SQL and built-in functions, so every program that writes the file runs
/// them, in any language and with any SQLite version.
///
/// - `insert`, `update`, `move`, `rowid` and `delete` run after a row changed and write a raw change. An update that changed nothing writes nothing.
///   A column changed if its storage class or its bytes changed.
/// - `meet_insert` and `meet_update` run before the change and note the rows with the same key or unique value. A REPLACE removes
///   those rows without running a trigger, unless the program turned recursive_triggers on. The trigger cannot see whether a row is
///   really removed, because UPSERT and OR IGNORE run it too. So a note only says that a row existed, with its values. `Evictions`
///   decides when the changes are recorded, in the same SQLite transaction.
/// - `meet_own_update` does the same as `meet_update` for keys and unique indexes with a program's own collation or with functions. SQLite
///   compiles it only if an update sets one of their columns, and then the update itself needs the collation or function. So a program
///   without it can update the other columns, as it can without capture.
package struct CaptureTriggers {
    package let table: DeclaredTable
    /// The id in annals_tables.
    package let id: Int64
    /// The length above which an update leaves out a value that it does not change.
    private let largeValue: Int
    /// Whether updates leave out unchanged large values.
    ///
    /// If a program's own triggers write to the table, a row can change during its own update, and SQLite then writes back a value
    /// that it had read before. So an unchanged value in the trigger may not be the stored value, and updates of such tables have
    /// all old values.
    private let leavesOut: Bool
    /// The columns with values that updates may leave out.
    private let largeColumnIndexes: Set<Int>
    /// The TEXT columns in which long values were seen. Updates mark those that they do not change.
    private let longColumnIndexes: Set<Int>

    /// - Parameter triggers: the triggers of other programs, if the caller needs them for several tables.
    package init(_ db: Database, table: DeclaredTable, id: Int64, among triggers: ProgramTriggers? = nil) throws {
        self.table = table
        self.id = id
        largeValue = try StoreSchema.largeValue(db)
        leavesOut = try !(triggers ?? ProgramTriggers(db, with: table.name)).areWriting(to: table.name)
        let isEverythingLarge = largeValue < SchemaLimits.largeValue
        var lengths = try TextLengths.load(db, id) ?? TextLengths()
        if isEverythingLarge { for columnIndex in table.columnIndexesOfTexts { lengths.note(largeValue: columnIndex) } }
        let large = lengths.large
        largeColumnIndexes = Set(table.columnIndexesThatMayBeLarge).filter { table.columns[$0].affinity != .text || large.contains($0) }
        longColumnIndexes = Set(table.columnIndexesOfTexts).intersection(lengths.long)
    }

    package struct Trigger: Hashable {
        package var name: String
        /// The text from the event on.
        package var body: String

        /// The text in sqlite_master.
        package var sql: String { "CREATE TRIGGER \(name) \(body)" }

        /// The name is qualified. Otherwise a temporary table of the same name would get the trigger.
        var createSQL: String { "CREATE TRIGGER main.\(name) \(body)" }
    }

    /// The triggers that write raw changes.
    var afterChange: [Trigger] { afterChange(leavesOut: leavesOut) }

    private func afterChange(leavesOut: Bool) -> [Trigger] { [insert] + updates(leavesOut: leavesOut) + rowidUpdates + [delete] }

    /// The triggers that note conflicting rows.
    package var beforeChange: [Trigger] { [meetInsert] + meetUpdates }

    /// The names of all triggers; the insert trigger is the first.
    package static func names(id: Int64) -> [String] {
        ["insert", "update", "move", "rowid", "delete", "meet_insert", "meet_update", "meet_own_update"].map { name($0, id: id) }
    }

    static func runsAfterChange(_ name: String) -> Bool {
        !name.contains("_meet_")
    }

    private static func name(_ suffix: String, id: Int64) -> String {
        "annals_\(id)_\(suffix)"
    }

    /// Creates all triggers of a table and replaces existing ones.
    package static func install(_ db: Database, table: DeclaredTable, id: Int64) throws {
        try TextLengths.prepare(db, id, table)
        try CaptureTriggers(db, table: table, id: id).install(db)
    }

    /// - Parameter marks: without it, the caller calls `NamedWriters.mark` for the column list.
    package func install(_ db: Database, marks: Bool = true) throws {
        try Self.drop(db, id: id)
        try NotesTable(columns: table.columns.count).install(db)
        for trigger in beforeChange + afterChange { try db.execute(sql: trigger.createSQL) }
        if marks { try NamedWriters.mark(db, [id]) }
        try TriggerRewriteCheck.note(id, !leavesOut, db)
    }

    /// Whether the installed triggers captured all changes. They may be the current ones, or those from before a program added its own
    /// trigger.
    package func arePresent(in installed: InstalledTriggers) -> Bool {
        installed.hold(afterChange(leavesOut: true)) || installed.hold(afterChange(leavesOut: false))
    }

    /// Whether updates have all old values, because a program's own triggers write to the table and a row can change during its own
    /// update.
    var holdAllValues: Bool { !leavesOut }

    /// Creates the triggers that write raw changes again, so that they run before other triggers.
    func reinstallAfterChange(_ db: Database) throws {
        for name in Self.names(id: id) where Self.runsAfterChange(name) { try db.execute(sql: "DROP TRIGGER IF EXISTS main.\(name)") }
        for trigger in afterChange { try db.execute(sql: trigger.createSQL) }
    }

    private static func drop(_ db: Database, id: Int64) throws {
        for name in names(id: id) { try db.execute(sql: "DROP TRIGGER IF EXISTS main.\(name)") }
    }

    package static func remove(_ db: Database, id: Int64) throws {
        try drop(db, id: id)
        try NamedWriters.unmark(db, id)
        try TriggerRewriteCheck.note(id, false, db)
    }

    // MARK: After a change

    private var insert: Trigger {
        let values = rowid("n", "NEW") + table.columns.enumerated().map { ("n\($0)", "NEW.\(SQL.quote($1.name))") }
        return trigger("insert", "AFTER INSERT ON \(tableName)", [write(.insert, values)])
    }

    private var delete: Trigger {
        let values = rowid("o", "OLD") + table.columns.enumerated().map { ("o\($0)", "OLD.\(SQL.quote($1.name))") }
        return trigger("delete", "AFTER DELETE ON \(tableName)", [write(.delete, values)])
    }

    /// One trigger, or two if some updates leave out large values: `move` is for the updates that cannot, and compiled only if an update
    /// can be one of them. SQLite compiles a trigger with each statement, so short conditions matter.
    private func updates(leavesOut: Bool) -> [Trigger] {
        let differences = table.columns.indices.map(difference)
        let differs = anyDifference(differences)
        let large = leavesOut ? largeColumnIndexes : []
        guard !large.isEmpty else {
            return [trigger("update", "AFTER UPDATE ON \(tableName)\nWHEN \(differs)", [writeUpdate(differences, large: [])])]
        }
        let isIdentified = isIdentifiedByKey(differences)
        let deciding = columnIndexesOfIdentity.map { SQL.quote(table.columns[$0].name) } + (table.rowidAlias == nil ? [] : table.rowidNames)
        let moveEvent = table.keyMayBeNull ? "UPDATE" : "UPDATE OF \(deciding.joined(separator: ", "))"
        return [
            trigger(
                "update", "AFTER UPDATE ON \(tableName)\nWHEN \(isIdentified) AND (\(differs))", [writeUpdate(differences, large: large)]),
            trigger(
                "move", "AFTER \(moveEvent) ON \(tableName)\nWHEN NOT (\(isIdentified)) AND (\(differs))",
                [writeUpdate(differences, large: [])]),
        ]
    }

    /// Captures an update that gives a row another rowid and changes nothing else. It can remove a row (OR REPLACE), and this change shows
    /// when. Its mask is 0, so it has no further effect.
    private var rowidUpdates: [Trigger] {
        guard table.rowidAlias == nil, let rowid = table.rowidNames.first else { return [] }
        let differs = anyDifference(table.columns.indices.map(difference))
        let masks = (0..<StoreSchema.maskCount(table.columns.count)).map { ("m\($0)", "0") }
        let old = table.columns.enumerated().map { ("o\($0)", "OLD.\(SQL.quote($1.name))") }
        let key = table.primaryKey.map { ("n\($0)", "NEW.\(SQL.quote(table.columns[$0].name))") }
        return [
            trigger(
                "rowid",
                """
                AFTER UPDATE OF \(table.rowidNames.joined(separator: ", ")) ON \(tableName)
                WHEN OLD.\(rowid) <> NEW.\(rowid) AND NOT coalesce(\(differs), 0)
                """,
                [write(.update, masks + self.rowid("o", "OLD") + self.rowid("n", "NEW") + old + key)])
        ]
    }

    /// A long text that did not change is 1 in the new row, and its bit in the mask is set. No text column has a number. Numbers, short texts
    /// and columns of the key are written as they are, because that costs less than a comparison. Any other value can be stored in a column
    /// of type BLOB or without a type, so the bit of such a column is set only if it did not change. See `StoreSchema.changesColumns`.
    ///
    /// - Parameter large: the columns whose large values are left out if they did not change; then they are 2 in the new row.
    private func writeUpdate(_ differences: [String], large: Set<Int>) -> String {
        // In the order of the table's columns, so that the statement need not list them.
        var values: [String] = []
        func isCompared(_ columnIndex: Int) -> Bool { longColumnIndexes.contains(columnIndex) || large.contains(columnIndex) }
        for mask in 0..<StoreSchema.maskCount(differences.count) {
            let first = mask * StoreSchema.columnsPerMask
            var constant = StoreSchema.unchangedAreMarked
            var terms: [String] = []
            for columnIndex in first..<min(first + StoreSchema.columnsPerMask, differences.count) where isCompared(columnIndex) {
                if table.columns[columnIndex].affinity == .text {
                    constant |= 1 << Int64(columnIndex - first)
                } else {
                    terms.append("((NOT (\(differences[columnIndex]))) << \(columnIndex - first))")
                }
            }
            values.append(SQL.balanced(["\(constant)"] + terms, operator: "|"))
        }
        values += (rowid("o", "OLD") + rowid("n", "NEW")).map { $0.1 }
        func isLarge(_ column: DeclaredTable.Column) -> String { "length(OLD.\(SQL.quote(column.name))) > \(largeValue)" }
        values += table.columns.enumerated().map { columnIndex, column in
            let old = "OLD.\(SQL.quote(column.name))"
            guard large.contains(columnIndex) else { return old }
            return "CASE WHEN \(isLarge(column)) AND NOT (\(differences[columnIndex])) THEN NULL ELSE \(old) END"
        }
        values += table.columns.enumerated().map { columnIndex, column in
            let new = "NEW.\(SQL.quote(column.name))"
            guard isCompared(columnIndex) else { return new }
            let unchanged = large.contains(columnIndex) ? "WHEN \(isLarge(column)) THEN 2 ELSE 1" : "ELSE 1"
            return "CASE WHEN \(differences[columnIndex]) THEN \(new) \(unchanged) END"
        }
        return """
            INSERT INTO \(StoreSchema.changesTable(id)) VALUES(NULL, julianday(), \(StoreSchema.Operation.update.rawValue), \(
                values.joined(separator: ", ")));
            """
    }

    private func write(_ operation: StoreSchema.Operation, _ values: [(column: String, value: String)]) -> String {
        """
        INSERT INTO \(StoreSchema.changesTable(id))(op, \(values.map(\.column).joined(separator: ", ")))
        VALUES(\(operation.rawValue), \(values.map(\.value).joined(separator: ", ")));
        """
    }

    private func rowid(_ letter: String, _ row: String) -> [(String, String)] {
        capturedRowid.map { [("r\(letter)", "\(row).\(SQL.quote($0))")] } ?? []
    }

    /// The condition that is true if an update changed any column. Columns that need only one comparison are compared as one row value,
    /// which is shorter and compiles faster. In columns of numbers the comparison misses one case; see `difference`. An update of a row with
    /// that number counts as a change. NULL means no difference: it is the result for rows with NULL in such a column.
    private func anyDifference(_ differences: [String]) -> String {
        func isNumeric(_ columnIndex: Int) -> Bool {
            columnIndex != table.rowidAlias && [.integer, .numeric].contains(table.columns[columnIndex].affinity)
                && Self.hasBinaryCollation(table.columns[columnIndex])
        }
        let numeric = table.columns.indices.filter(isNumeric)
        let plain = table.columns.indices.filter { numeric.contains($0) || differences[$0] == Self.plainDifference(table.columns[$0]) }
        guard plain.count > 1 else { return SQL.balanced(differences.map { "(\($0))" } + rowidDifference, operator: "OR") }
        func row(_ name: String, _ columnIndexes: [Int]) -> String {
            columnIndexes.map { "\(name).\(SQL.quote(table.columns[$0].name))" }.joined(separator: ", ")
        }
        var terms = ["((\(row("OLD", plain))) IS NOT (\(row("NEW", plain))))"]
        if !numeric.isEmpty { terms.append("(\(Int64.min) IN (\(row("OLD", numeric))))") }
        terms += table.columns.indices.filter { !plain.contains($0) }.map { "(\(differences[$0]))" }
        return SQL.balanced(terms + rowidDifference, operator: "OR")
    }

    private static func hasBinaryCollation(_ column: DeclaredTable.Column) -> Bool { column.collation.uppercased() == Collation.binary }

    private static func plainDifference(_ column: DeclaredTable.Column) -> String {
        "OLD.\(SQL.quote(column.name)) IS NOT NEW.\(SQL.quote(column.name))"
    }

    /// The condition that is true if an update changed the column's storage class or bytes; it is never NULL.
    private func difference(_ columnIndex: Int) -> String {
        let column = table.columns[columnIndex]
        let old = "OLD.\(SQL.quote(column.name))"
        let new = "NEW.\(SQL.quote(column.name))"
        let collate = Self.hasBinaryCollation(column) ? "" : " COLLATE BINARY"
        let differs = Self.plainDifference(column) + collate
        // A rowid is always an integer.
        if columnIndex == table.rowidAlias { return differs }
        switch column.affinity {
        case .blob, .any:
            return "\(differs) OR typeof(\(old)) <> typeof(\(new))"
        case .integer, .numeric:
            // Only this number can be stored both as an integer and as a real in these columns.
            return "\(differs) OR (\(old) = -9223372036854775808 AND typeof(\(old)) <> typeof(\(new)))"
        case .real, .text:
            return differs
        }
    }

    /// The columns that must not change if the key is to identify the row before and after an update: those of the key, and those of
    /// foreign keys to the table itself. An action of such a foreign key may have changed the row before its own update was captured.
    /// Then all values are needed to identify the row.
    private var columnIndexesOfIdentity: [Int] {
        let own = table.foreignKeys.filter { $0.parentTable.isSameIdentifier(as: table.name) }.flatMap {
            $0.columnIndexes.compactMap { $0 }
        }
        return Set(table.primaryKey + own).sorted()
    }

    private func isIdentifiedByKey(_ differences: [String]) -> String {
        var terms = columnIndexesOfIdentity.map { "NOT (\(differences[$0]))" }
        if table.keyMayBeNull { terms += table.primaryKey.map { "OLD.\(SQL.quote(table.columns[$0].name)) IS NOT NULL" } }
        return SQL.balanced(terms, operator: "AND")
    }

    /// The rowid is a row's identity only while its key holds NULL.
    private var rowidDifference: [String] {
        capturedRowid.map { rowid in
            let isNull = SQL.balanced(table.primaryKey.map { "OLD.\(SQL.quote(table.columns[$0].name)) IS NULL" }, operator: "OR")
            return ["(OLD.\(SQL.quote(rowid)) <> NEW.\(SQL.quote(rowid)) AND \(isNull))"]
        } ?? []
    }

    // MARK: Before a change

    private var meetInsert: Trigger {
        let targets = table.conflictTargets
        let isMet = targets.map { $0.isMet(on: table, as: row) }
        return trigger(
            "meet_insert", "BEFORE INSERT ON \(tableName)\nWHEN \(SQL.balanced(isMet, operator: "OR"))",
            notes(targets, and: nil))
    }

    private var meetUpdates: [Trigger] {
        let own = table.conflictTargets.filter(\.mayNeedProgram)
        let others = table.conflictTargets.filter { !$0.mayNeedProgram }
        guard !own.isEmpty, !others.isEmpty else { return [meetUpdate("meet_update", own + others)] }
        return [meetUpdate("meet_update", others), meetUpdate("meet_own_update", own)]
    }

    private func meetUpdate(_ suffix: String, _ targets: [ConflictTarget]) -> Trigger {
        let columns = Set(targets.flatMap { $0.columnsConcerned ?? Array(table.columns.indices) }).sorted()
        // A program can set the rowid under any of its names. SQLite looks for the name that the program uses.
        let mayBeRowid = table.rowidAlias.map(columns.contains) ?? targets.contains(where: \.isRowid)
        let names = (columns.map { SQL.quote(table.columns[$0].name) } + (mayBeRowid ? table.rowidNames : [])).joined(separator: ", ")
        return trigger(suffix, "BEFORE UPDATE OF \(names) ON \(tableName)", notes(targets, and: isAnother))
    }

    /// One statement for each target. The rowid shares that of the key, because every statement takes time to compile.
    private func notes(_ targets: [ConflictTarget], and other: String?) -> [String] {
        guard let rowid = targets.last, rowid.isRowid, targets.count > 1 else { return targets.map { note([$0], and: other) } }
        return [note([targets[0], rowid], and: other)] + targets[1..<(targets.count - 1)].map { note([$0], and: other) }
    }

    /// The condition that is true for all rows besides the one that is updated.
    private var isAnother: String {
        if let rowid = table.rowidName { return "\(row).\(SQL.quote(rowid)) <> OLD.\(SQL.quote(rowid))" }
        let parts = zip(table.primaryKey, table.primaryKeyCollations).map { columnIndex, collation in
            let name = SQL.quote(table.columns[columnIndex].name)
            return "\(row).\(name) = OLD.\(name) COLLATE \(SQL.quote(collation))"
        }
        return "NOT (\(SQL.balanced(parts, operator: "AND")))"
    }

    /// Copies the rows that conflict with NEW in one of the targets to the notes.
    private func note(_ targets: [ConflictTarget], and other: String?) -> String {
        let notes = NotesTable(columns: table.columns.count)
        let names = table.columns.map { ConflictTarget.nameOfOnlySource($0.name, row) }
        let key = NotesTable.keySQL(table.primaryKey.map { names[$0] }, mayBeNull: table.keyMayBeNull)
        let mark = "(SELECT max(id) FROM \(StoreSchema.changesTable(id)))"
        let rowid = capturedRowid.map { "\(row).\(SQL.quote($0))" } ?? "NULL"
        let rest = Array(repeating: "NULL", count: notes.width - names.count)
        let isMet = targets.map { $0.condition(on: table, as: row) }
        var conditions = [isMet.count == 1 ? isMet[0] : "(\(isMet.joined(separator: " OR ")))"]
        if let other { conditions.append(other) }
        return """
            INSERT INTO \(notes.name) SELECT \((["NULL", "\(id)", mark, key, rowid] + names + rest).joined(separator: ", "))
            FROM \(tableName) AS \(row) WHERE \(conditions.joined(separator: " AND "));
            """
    }

    // MARK: Text

    private var tableName: String { SQL.quote(table.name) }

    /// The alias for a row of the table in statements. The table's own name is not used: SQLite does not rewrite it when the table
    /// is renamed, so the triggers would differ from the expected ones. And a table named `new` would hide the trigger's NEW.
    private var row: String { "annals_row" }

    /// The name of the rowid, if it must be captured.
    private var capturedRowid: String? { table.keyMayBeNull ? table.rowidName : nil }

    private func trigger(_ suffix: String, _ event: String, _ statements: [String]) -> Trigger {
        Trigger(name: Self.name(suffix, id: id), body: "\(event) BEGIN\n\(statements.joined(separator: "\n"))\nEND")
    }
}

extension DeclaredTable {
    /// A name that means the rowid and not a column; nil if there is no rowid, or if columns have all its names.
    package var rowidName: String? {
        if isWithoutRowid { return nil }
        if let rowidAlias { return columns[rowidAlias].name }
        return rowidNames.first
    }

    /// The names of the rowid that no column has.
    fileprivate var rowidNames: [String] {
        if isWithoutRowid { return [] }
        let taken = Set((columns.map(\.name) + generatedColumns.map(\.name)).map(\.foldedIdentifier))
        return ["rowid", "_rowid_", "oid"].filter { !taken.contains($0) }
    }

    /// The primary key, all unique indexes and the rowid, through which one row can conflict with another.
    var conflictTargets: [ConflictTarget] {
        let key = ConflictTarget(
            columns: zip(primaryKey, primaryKeyCollations).map { .init(name: columns[$0].name, columnIndex: $0, collation: $1) })
        let rowid = rowidAlias == nil ? rowidNames.first.map { [ConflictTarget(rowid: $0)] } ?? [] : []
        return [key] + uniqueIndexes.map { ConflictTarget($0, of: self) } + rowid
    }
}
