import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Compares one tracked table with the current schema, and repairs differences.
package struct TableRepair {
    private let db: Database
    private var table: TrackedTable

    package init(_ db: Database, _ table: TrackedTable) {
        self.db = db
        self.table = table
    }

    package mutating func run(_ report: inout Drift.Report) throws {
        let installed = try InstalledTriggers(db, id: table.id)
        let name = installed.table ?? table.name
        guard let definition = try SchemaReader(db).table(name), definition.kind == .table else {
            try end(as: .dropped)
            report.findings.append(.tableDropped(table: table.name))
            report.dropped.append(table.id)
            return
        }
        if let reason = Refusal.ofTable(definition) {
            try end(as: .retired)
            report.findings.append(.trackingEnded(table: definition.name, reason: reason))
            report.gaps.append(table.id)
            return
        }
        try note(definition)
        if installed.runAfterOthers { report.disordered.append(table.id) }
        if isSameList(definition) {
            try mend(definition, installed, &report)
        } else {
            try replace(with: definition, installed, &report)
        }
    }

    private func isSameList(_ definition: DeclaredTable) -> Bool {
        definition.columns.map(\.name) == table.columns
            && table.key
                == TrackedTable.Key(
                    columnIndexes: definition.primaryKey, collations: definition.primaryKeyCollations, isByRowid: definition.keyMayBeNull)
    }

    /// The columns are the same, so only the triggers can be wrong.
    private func mend(_ definition: DeclaredTable, _ installed: InstalledTriggers, _ report: inout Drift.Report) throws {
        let triggers = try CaptureTriggers(db, table: definition, id: table.id)
        // A trigger that was dropped meanwhile may have written unrecorded changes.
        let isWritten = try triggers.holdAllValues || (TriggerRewriteCheck.tables(db).contains(table.id) && openChanges() != nil)
        let isWhole = triggers.arePresent(in: installed)
        let knowsIndexes = installed.hold(triggers.beforeChange)
        if !isWhole {
            report.gaps.append(table.id)
        } else if !knowsIndexes, try openChanges() != nil {
            // A new index may have evicted rows before the triggers included it.
            report.gaps.append(table.id)
        } else if triggers.holdAllValues, let open = try openChanges(), try leavesOut(open) {
            // A program added a trigger and wrote before the capture triggers were adapted.
            report.gaps.append(table.id)
        }
        if !isWhole || !knowsIndexes {
            try triggers.install(db)
            report.findings.append(.triggersRestored(table: definition.name))
        } else if installed.runAfterOthers || !installed.hold(triggers.afterChange) {
            // SQLite runs the newest trigger first, and a change should be captured before other triggers run.
            try triggers.reinstallAfterChange(db)
        }
        try TriggerRewriteCheck.note(table.id, isWritten, db)
    }

    /// The columns differ. A new list is created; it continues the old one if nothing can have been missed.
    private func replace(with definition: DeclaredTable, _ installed: InstalledTriggers, _ report: inout Drift.Report) throws {
        let old = oldDefinition(definition)
        let added = definition.columns.dropFirst(table.columns.count)
        let isContinued =
            try old.map { try CaptureTriggers(db, table: $0, id: table.id).arePresent(in: installed) } ?? false
        if let old, isContinued { try Self.conclude(db, table, as: old, installed.runAfterOthers ? .unknown : .asHappened) }
        try end(as: .retired)
        let new = try TrackedTable.create(db, for: definition)
        try FilledColumns.save(fills(of: definition), of: new.id, db)
        try RepairedTableNames(db, table, isContinued: isContinued)?.give(to: new)
        if isContinued { try saveContinuation(by: new.id, Array(table.columns.indices)) }
        try CaptureTriggers.install(db, table: definition, id: new.id)
        report.findings.append(.columnsChanged(table: definition.name, oldID: table.id, newID: new.id))
        let filled = try added.filter { try !holdsDefault($0, in: definition) }
        if !isContinued {
            report.gaps.append(new.id)
        } else if !filled.isEmpty, try !recordAdded(filled, definition, new.id) {
            report.gaps.append(new.id)
        }
    }

    private func saveContinuation(by list: Int64, _ columnIndexes: [Int?]) throws {
        let newest = try TransactionTable(db).newest() ?? 0
        try ListContinuation(list: list, columnIndexes: columnIndexes, after: newest).save(of: table.id, db)
    }

    /// Writes updates for the values of a column that was just added. The column had its default in every row, so every other value
    /// was written since, and the old triggers do not know the column. Returns false if a row has no key.
    private func recordAdded(_ added: [DeclaredTable.Column], _ definition: DeclaredTable, _ id: Int64) throws -> Bool {
        let defaults = try added.compactMap { column in
            try definition.columnIndex(of: column.name).map { ($0, try AddedColumn.value(of: column)) }
        }
        if try definition.hasKeylessRows(db) { return false }
        let reader = try RowReader(db, definition)
        let writer = try HistoryWriter(db, definition, layoutID: id)
        while let row = try reader.next() {
            var old = row
            for (columnIndex, value) in defaults { old[columnIndex] = value }
            if old != row { try writer.update(old, to: row) }
        }
        return true
    }

    /// Completes the raw changes of a list that is about to end: rows that a REPLACE removed, and rows that a program's triggers
    /// rewrote.
    ///
    /// - Parameter definition: the list's columns under their current names, in the table under its current name.
    package static func conclude(_ db: Database, _ table: TrackedTable, as definition: DeclaredTable, _ order: RawChangeOrder) throws {
        guard let open = try UnrecordedRange.fetchAll(db).first(where: { $0.id == table.id }) else { return }
        var newest = open.newest
        var missed = MissedChanges()
        if open.hasNotes {
            let names = Evictions.TableName(name: definition.name, columns: definition.columns.map(\.name))
            newest = try Evictions(db, table: table, open: open, named: names).conclude(order, &missed)
        }
        guard open.isWrittenByTriggers else { return }
        _ = try TriggerRewriteCheck(db, table, as: definition).follow(recorded: open.recorded, newest: newest, &missed)
    }

    /// Continues history after a migration that rebuilt the table or dropped columns, and that wrote raw changes for its effect on
    /// rows. So nothing was missed.
    ///
    /// - Parameters:
    ///   - definition: the table's current declaration.
    ///   - old: the declaration that belongs to the list.
    /// - Returns: the list that continues the history, and whether it refuses rows that the old declaration allowed; then older tokens must
    ///   expire. nil, with nothing changed, if the old key does not identify rows any more, or if old values do not fit.
    package mutating func goOn(as definition: DeclaredTable, from old: DeclaredTable) throws -> (list: TrackedTable, isNarrowed: Bool)? {
        guard definition.kind == .table, Refusal.ofTable(definition) == nil, definition.takesValues(of: old),
            try !definition.hasKeylessRows(db)
        else { return nil }
        try note(definition)
        var list = table
        if !isSameList(definition) {
            try end(as: .retired)
            list = try TrackedTable.create(db, for: definition)
            try FilledColumns.save(fills(of: definition), of: list.id, db)
            try saveContinuation(by: list.id, table.columns.map(definition.columnIndex))
            try RepairedTableNames(db, table, isContinued: false)?.give(to: list)
        }
        try CaptureTriggers.install(db, table: definition, id: list.id)
        return try TrackedTable.fetchAll(db).first { $0.id == list.id }.map { ($0, !definition.takesRows(of: old)) }
    }

    /// The values of rows that are older than their columns, by the index of the column. A program may change the default of a column
    /// later.
    private func fills(of definition: DeclaredTable) throws -> [Int: String] {
        let known = try TrackedTable.fetchAll(db).first { $0.id == table.id }?.fills ?? [:]
        var fills: [Int: String] = [:]
        for (columnIndex, column) in definition.columns.enumerated() {
            if let old = table.columns.firstIndex(where: { $0.isSameIdentifier(as: column.name) }) {
                fills[columnIndex] = known[old]
            } else if FilledColumns.isFilled(columnIndex, of: definition) {
                fills[columnIndex] = try FilledColumns.value(of: columnIndex, in: definition, db)
            } else if let sql = column.defaultSQL, SchemaAdditions.isLiteral(sql) {
                fills[columnIndex] = sql
            }
        }
        return fills
    }

    /// The table as the old triggers see it: the columns that they contain, under their current names. nil if the table is not an
    /// extension of the old list.
    private func oldDefinition(_ definition: DeclaredTable) -> DeclaredTable? {
        guard definition.columns.count >= table.columns.count, definition.primaryKey == table.key.columnIndexes,
            definition.keyMayBeNull == table.key.isByRowid
        else { return nil }
        var old = definition
        old.columns = Array(definition.columns.prefix(table.columns.count))
        return old
    }

    /// Whether a column that was just added still has its default in every row.
    private func holdsDefault(_ column: DeclaredTable.Column, in definition: DeclaredTable) throws -> Bool {
        let statement = try PreparedStatement(
            db, "SELECT 1 FROM main.\(SQL.quote(definition.name)) WHERE \(SQL.quote(column.name)) IS NOT ?1 COLLATE BINARY")
        statement.bind(1, try AddedColumn.value(of: column))
        defer { statement.reset() }
        return try !statement.step()
    }

    private func openChanges() throws -> ClosedRange<Int64>? {
        try UnrecordedRange.fetchAll(db).first { $0.id == table.id && $0.newest > $0.recorded }.map { ($0.recorded + 1)...$0.newest }
    }

    private func leavesOut(_ changes: ClosedRange<Int64>) throws -> Bool {
        var found = false
        try RawChangeReader(db, table).read(changes) { if !$0.leftOut.isEmpty { found = true } }
        return found
    }

    private mutating func note(_ definition: DeclaredTable) throws {
        guard definition.shape != table.shape else { return }
        try TrackedTable.set(shape: definition.shape, of: table.id, db)
    }

    /// Ends this list. Remaining notes are deleted, because the rows they concern can no longer be determined.
    private func end(as state: TrackedTable.State) throws {
        try CaptureTriggers.remove(db, id: table.id)
        try NotesTable(columns: table.columns.count).forget(table.id, db)
        try TrackedTable.set(state: state, of: table.id, db)
    }
}

/// The installed triggers of one column list.
package struct InstalledTriggers {
    private var sqlByName: [String: String] = [:]
    /// The table of the triggers; nil if the insert trigger is missing.
    package private(set) var table: String?
    /// A program's own AFTER trigger on that table is newer, so it runs before the capture triggers.
    private(set) var runAfterOthers = false

    package init(_ db: Database, id: Int64) throws {
        let names = CaptureTriggers.names(id: id)
        var oldest = Int64.max
        let comparison = try db.cachedStatement(sql: "SELECT tbl_name FROM main.sqlite_master WHERE type = 'trigger' AND name = ?")
        let all = try db.cachedStatement(
            sql: "SELECT rowid, name, tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? ORDER BY rowid")
        // All triggers are on one table. If the table is gone, they are gone too.
        var found: String?
        for name in names where found == nil { found = try String.fetchOne(comparison, arguments: [name]) }
        guard let found else { return }
        for row in try Row.fetchAll(all, arguments: [found]) {
            let name: String = try row.value("name")
            if names.contains(name) {
                sqlByName[name] = try row.value("sql")
                if name == names[0] { table = try row.value("tbl_name") }
                if CaptureTriggers.runsAfterChange(name) { oldest = try min(oldest, row.value("rowid")) }
            } else if let table, !StoreSchema.isOwnName(name), try row.value("tbl_name") == table, try row.value("rowid") > oldest {
                runAfterOthers = try runAfterOthers || SQLText(row.value("sql")).isAfterTrigger
            }
        }
    }

    /// Whether these triggers are installed. Names are compared without quotes, because SQLite rewrites quotes when it renames.
    package func hold(_ triggers: [CaptureTriggers.Trigger]) -> Bool {
        triggers.allSatisfy { trigger in
            guard let sql = sqlByName[trigger.name] else { return false }
            return sql == trigger.sql || SQLText(sql).comparable == SQLText(trigger.sql).comparable
        }
    }
}

extension DeclaredTable {
    /// Whether a row's key holds NULL, so that only the rowid identifies the row.
    package func hasKeylessRows(_ db: Database) throws -> Bool {
        guard keyMayBeNull else { return false }
        return try Bool.fetchOne(db, sql: "SELECT EXISTS(SELECT 1 FROM main.\(SQL.quote(name)) WHERE \(nullKeyCondition))") ?? false
    }

    /// Whether rows that another declaration allowed fit this one under the same key, if they satisfy its constraints.
    fileprivate func takesValues(of old: DeclaredTable) -> Bool {
        func key(_ table: DeclaredTable) -> [String] {
            zip(table.primaryKey, table.primaryKeyCollations).map { "\(table.columns[$0].name.foldedIdentifier) \($1.foldedIdentifier)" }
        }
        guard key(self) == key(old), (rowidAlias == nil) == (old.rowidAlias == nil), !isStrict || old.isStrict,
            generatedColumns.allSatisfy(old.generatedColumns.contains)
        else { return false }
        return columns.allSatisfy { column in
            guard let known = old.columnIndex(of: column.name) else {
                let new = columnIndex(of: column.name)
                return SchemaAdditions.isOptional(column) || new.map { FilledColumns.isFilled($0, of: self) } ?? false
            }
            let was = old.columns[known]
            return column.affinity == was.affinity && (!isStrict || column.declaredType.isSameIdentifier(as: was.declaredType))
        }
    }

    /// Whether such rows satisfy the constraints of this declaration. A replay inserts them. It does so with CHECK constraints and foreign
    /// keys off, and leaves out unique indexes that do not fit.
    fileprivate func takesRows(of old: DeclaredTable) -> Bool {
        let isTaken = columns.allSatisfy { column in
            old.columnIndex(of: column.name).map { !column.isNotNull || old.columns[$0].isNotNull } ?? true
        }
        func words(_ index: UniqueIndex) -> [String] {
            index.columns.map { "\($0.name?.foldedIdentifier ?? "") \($0.collation.foldedIdentifier)" }
        }
        let known = old.uniqueIndexes.filter(\.isConstraint).map(words)
        return isTaken && uniqueIndexes.allSatisfy { !$0.isConstraint || known.contains(words($0)) }
    }
}
