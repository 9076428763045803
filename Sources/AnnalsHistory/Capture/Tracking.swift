package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Starts and ends the history of tables.
///
///     let report = try await store.track(.all)
///     for table in report.tables { print(table.name, table.outcome) }
public enum Tracking {
    public enum Selection: Sendable {
        /// Every table that can be tracked, except tables with internal data of tools. Tables that are created later are tracked
        /// the next time Annals checks the store.
        case all
        case tables([String])
    }

    public struct Options: Sendable {
        /// Report what would be done, and change nothing.
        public var isDryRun = false

        public init(isDryRun: Bool = false) {
            self.isDryRun = isDryRun
        }
    }

    /// Tracks the selected tables in one SQLite transaction or savepoint.
    ///
    /// Earlier writes of other programs are recorded first. A refused table is in the report with its reason. Other tables are
    /// still tracked, except those with foreign keys to it. Throws `DatabaseError`, and `AnnalsError` of code newerFormat, or of
    /// code schemaRefused if an object of the user has a name of Annals; then nothing is changed.
    ///
    /// - Parameter check: gets the report before COMMIT. If it throws, nothing is changed.
    package static func track(
        _ db: Database, _ selection: Selection, options: Options = Options(), _ environment: CaptureEnvironment = .system,
        check: (TrackingReport) throws -> Void = { _ in }
    ) throws -> TrackingReport {
        try StoreSchema.checkFormat(db)
        var report = TrackingReport(tables: [], isDryRun: options.isDryRun)
        try inTransaction(db, isDryRun: options.isDryRun) {
            let before = try usedBytes(db)
            try trackSelected(db, selection, environment, &report)
            report.addedBytes = try max(0, usedBytes(db) - before)
            try check(report)
        }
        return report
    }

    private static func usedBytes(_ db: Database) throws -> Int64 {
        func number(_ name: String) throws -> Int64 { try Int64.fetchOne(db, sql: "PRAGMA main.\(name)") ?? 0 }
        return try (number("page_count") - number("freelist_count")) * number("page_size")
    }

    private static func trackSelected(
        _ db: Database, _ selection: Selection, _ environment: CaptureEnvironment, _ report: inout TrackingReport
    ) throws {
        let isNew = try !StoreSchema.exists(db)
        if isNew {
            let left = try OrphanedTriggers(db)
            report.hadLostHistory = !left.tables.isEmpty
            try left.remove(db)
            try refuseTakenNames(db)
        }
        try OwnObjects.createCommonTables(db)
        if isNew {
            try StoreSchema.set(.format, to: StoreSchema.format, db)
            if let length = environment.largeValue {
                try StoreSchema.set(.largeValue, to: min(Int64(length), CountedNumbers.range.upperBound), db)
            }
            try StoreSchema.set(.storeID, to: environment.makeStoreID().description, db)
            try StoreSchema.noteSchemaVersion(db)
        }
        try TransactionRecorder.recordExternal(db, environment)
        // History and the log have no rows of a table that is tracked only now. So its rows are recorded as inserted.
        let newest = try TransactionTable(db).newest()
        let recordsRows = try newest != nil || StoreSchema.isReplica(db) || !ConsumerTable.all(db).isEmpty
        let absence = try TrackingRule.absence(db)
        report.tables = try trackUnrecorded(db, selection, recordsRows: recordsRows)
        let filled = report.tables.filter(\.hadRows)
        if isNew || newest == nil && !filled.isEmpty { try HistoryBounds.note(began: environment.now(), db) }
        if recordsRows, !filled.isEmpty {
            let number = try TransactionRecorder.recordExternal(db, environment, contextName: UnknownRows.context)
            try UnknownRows.add(
                filled.compactMap { table in
                    guard let number, case .tracked(let id) = table.outcome else { return nil }
                    return UnknownRows(list: id, absent: absence(table.name), recorded: number)
                }, db)
            // Rows with NULL in the key are not recorded, so a reader would miss them.
            for table in filled where table.rowsWithNullKey.count > 0 {
                if case .tracked(let id) = table.outcome { try Drift.expire([id], before: number ?? newest ?? 0, db) }
            }
        }
        guard !isNew || report.tables.contains(where: \.isTracked) else { return try removeEverything(db) }
        try StoreSchema.noteSchemaVersion(db)
        if case .all = selection { try TrackingRule.set(all: true, db) }
    }

    /// Annals would mistake a user's table with its prefix for its own and drop it. The tables of a snapshot belong to Annals.
    private static func refuseTakenNames(_ db: Database) throws {
        let own = try OwnObjects.all(db).filter { !OwnTables.snapshot.contains($0.name) }
        guard let taken = try (own + OwnObjects.taken(db)).first else { return }
        throw AnnalsError.nameIsTaken(taken.type, taken.name, operation: "track")
    }

    /// Tracks tables without recording, inside a write that the caller records.
    ///
    /// - Parameter recordsRows: existing rows are recorded as inserted now.
    package static func trackUnrecorded(_ db: Database, _ selection: Selection, recordsRows: Bool) throws -> [TrackingReport.Table] {
        // Queried once: after each new list GRDB would read the whole schema again for this query.
        let isReplica = try StoreSchema.isReplica(db)
        let triggers = try ProgramTriggers(db)
        let tables = try TrackingPlan(db, selection).entries.map { entry in
            var table = try perform(entry, isReplica, triggers, db)
            guard case .tracked(let id) = table.outcome, case .accepted(let definition) = entry.verdict else { return table }
            if recordsRows { table.recordedRows = try recordRows(definition, id, db) }
            return table
        }
        // For all of them at once, because lists share triggers.
        let new = tables.compactMap { if case .tracked(let id) = $0.outcome { id } else { nil } }
        if !new.isEmpty { try NamedWriters.mark(db, new) }
        return tables
    }

    private static func perform(
        _ entry: TrackingPlan.Entry, _ isReplica: Bool, _ triggers: ProgramTriggers, _ db: Database
    ) throws -> TrackingReport.Table {
        switch entry.verdict {
        case .refused(let reason):
            return TrackingReport.Table(name: entry.name, outcome: .skipped(reason))
        case .alreadyTracked(let table, let definition):
            return try report(on: definition, .alreadyTracked(id: table.id), db)
        case .accepted(let definition):
            let holdsRows: Bool
            do {
                holdsRows = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM main.\(SQL.quote(definition.name)))") ?? false
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                return TrackingReport.Table(name: entry.name, outcome: .skipped(.cannotBeWritten(error.message ?? "SQLite refused it")))
            }
            var table = try start(definition, isReplica, triggers, db)
            if let complaint = complaintAboutWriting(to: definition, db) {
                try removeLists([table], db)
                // If writes to the table fail without the triggers too, the triggers are not the cause, and the table is tracked.
                guard complaintAboutWriting(to: definition, db) != nil else {
                    return TrackingReport.Table(name: entry.name, outcome: .skipped(.cannotBeWritten(complaint)))
                }
                table = try start(definition, isReplica, triggers, db)
            }
            var report = try report(on: definition, .tracked(id: table.id), db)
            report.hadRows = holdsRows
            return report
        }
    }

    private static func start(
        _ definition: DeclaredTable, _ isReplica: Bool, _ triggers: ProgramTriggers, _ db: Database
    ) throws -> TrackedTable {
        let table = try TrackedTable.create(db, for: definition)
        if isReplica, let names = try NewNames(db) {
            let first = try names.table(table.name)
            let columns = try names.columns(table.columns, of: first, known: table.columns.map { _ in nil }, before: nil)
            try CanonicalNames.set(CanonicalNames.Names(table: first, columns: columns), of: table, db)
        }
        try TextLengths.prepare(db, table.id, definition)
        try CaptureTriggers(db, table: definition, id: table.id, among: triggers).install(db, marks: false)
        return table
    }

    /// Returns the number of rows.
    private static func recordRows(_ definition: DeclaredTable, _ id: Int64, _ db: Database) throws -> Int {
        let rows = try RowReader(db, definition)
        let writer = try HistoryWriter(db, definition, layoutID: id)
        var count = 0
        while let row = try rows.next() {
            try writer.insert(row)
            count += 1
        }
        return count
    }

    /// SQLite's error when it compiles writes to the table, including triggers; nil if there is none.
    ///
    /// SQLite compiles a trigger's body only with a write. Without this check, the program's write would fail.
    private static func complaintAboutWriting(to table: DeclaredTable, _ db: Database) -> String? {
        let name = "main.\(SQL.quote(table.name))"
        let key = SQL.quote(table.columns[table.primaryKey[0]].name)
        do {
            for sql in ["INSERT INTO \(name) DEFAULT VALUES", "UPDATE \(name) SET \(key) = \(key)", "DELETE FROM \(name)"] {
                _ = try db.makeStatement(sql: sql)
            }
            return nil
        } catch {
            return (error as? DatabaseError)?.message ?? "\(error)"
        }
    }

    private static func report(
        on table: DeclaredTable, _ outcome: TrackingReport.Outcome, _ db: Database
    ) throws -> TrackingReport.Table {
        var report = TrackingReport.Table(name: table.name, outcome: outcome)
        report.hasProvisionalKeys = table.rowidAlias != nil
        report.missing = try UnusableTable.missing(for: table, db)
        if table.keyMayBeNull, let rowid = table.rowidName {
            let source = "FROM main.\(SQL.quote(table.name)) WHERE \(table.nullKeyCondition)"
            report.rowsWithNullKey = try .init(
                count: Int.fetchOne(db, sql: "SELECT count(*) \(source)") ?? 0,
                rowids: Int64.fetchAll(
                    db, sql: "SELECT \(SQL.quote(rowid)) \(source) ORDER BY 1 LIMIT \(HistoryLimits.rowsListed)"))
        }
        if !table.foreignKeys.isEmpty {
            do {
                report.foreignKeyViolations = try violations(in: table, db)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                report.hasUnusableForeignKey = true
            }
        }
        return report
    }

    private static func violations(in table: DeclaredTable, _ db: Database) throws -> [TrackingReport.Violations] {
        var byKey: [Int: TrackingReport.Listed] = [:]
        let check = try db.makeStatement(sql: "PRAGMA main.foreign_key_check(\(SQL.quote(table.name)))")
        defer { check.rewind() }
        while try check.step() {
            let key = Int(check.integer(at: 3))
            byKey[key, default: .init()].count += 1
            if case .integer(let rowid) = check.value(at: 1), byKey[key, default: .init()].rowids.count < HistoryLimits.rowsListed {
                byKey[key, default: .init()].rowids.append(rowid)
            }
        }
        // SQLite numbers foreign keys from the last declared one.
        return byKey.keys.sorted(by: >).compactMap { key in
            let index = table.foreignKeys.count - 1 - key
            guard let rows = byKey[key], table.foreignKeys.indices.contains(index) else { return nil }
            return TrackingReport.Violations(
                parent: table.foreignKeys[index].parentTable, columns: table.foreignKeys[index].columns, rows: rows)
        }
    }

    /// Ends the history of tables and deletes it. If no tracked table is left, or `tables` is nil, all objects of Annals are
    /// removed.
    ///
    /// Returns the names of the tables that were tracked. Throws `AnnalsError` of code notTracked for a table that is not tracked,
    /// and of code schemaRefused for a table to which a foreign key of another tracked table refers; then nothing is changed.
    @discardableResult
    package static func untrack(_ db: Database, _ tables: [String]? = nil) throws -> [String] {
        try StoreSchema.checkFormat(db)
        var names: [String] = []
        try inTransaction(db, isDryRun: false) {
            // In a file without history, objects with the prefix of Annals belong to the user.
            guard try tables != nil || StoreSchema.exists(db) || hasRemains(db) else { return }
            guard let tables else {
                names = try StoreError.unlessCorrupt { try TrackedTable.fetchTracked(db).map(\.name) } ?? []
                return try removeEverything(db)
            }
            let all = try StoreError.unlessCorrupt { try TrackedTable.fetchAll(db) } ?? []
            for wanted in tables {
                let lists = all.filter { $0.name.isSameIdentifier(as: wanted) }
                guard let name = lists.last?.name else {
                    throw AnnalsError(.notTracked, operation: "untrack", "the table \(wanted) is not tracked")
                }
                try removeLists(lists, db)
                names.append(name)
            }
            let rest = try TrackedTable.fetchTracked(db)
            try refuseOrphans(of: names, in: rest, db)
            guard !rest.isEmpty else { return try removeEverything(db) }
            // Otherwise the table would be tracked again at the next check.
            try TrackingRule.set(all: false, db)
            try StoreSchema.noteSchemaVersion(db)
        }
        return names
    }

    /// Ends the history of tables that the space has removed. The tables and their history stay in the file. Older tokens expire, because
    /// the rows at that time cannot be reconstructed after writes without capture.
    ///
    /// To be called after everything is recorded, in the same SQLite transaction.
    ///
    /// - Parameter tables: canonical names.
    package static func release(_ tables: [String], _ db: Database) throws {
        let newest = try TransactionTable(db).newest()
        for list in try TrackedTable.fetchTracked(db) where tables.contains(where: { list.first.table.isSameIdentifier(as: $0) }) {
            try CaptureTriggers.remove(db, id: list.id)
            try NotesTable(columns: list.columns.count).forget(list.id, db)
            if let newest { try Drift.expire([list.id], before: newest, db) }
        }
        for table in tables { try TrackedTable.noteRemoval(of: table, db) }
        try StoreSchema.noteSchemaVersion(db)
    }

    /// Whether another program dropped only `annals_meta`, or everything except the triggers.
    package static func hasRemains(_ db: Database) throws -> Bool {
        try OwnTables.history.dropFirst().allSatisfy { try db.tableExists($0) } || !OrphanedTriggers(db).tables.isEmpty
    }

    private static func removeLists(_ lists: [TrackedTable], _ db: Database) throws {
        try UnknownRows.forget(lists.map(\.id), db)
        for list in lists {
            try CaptureTriggers.remove(db, id: list.id)
            try TextLengths.forget(db, list.id)
            try NotesTable(columns: list.columns.count).forget(list.id, db)
            try db.execute(sql: "DROP TABLE IF EXISTS main.\(StoreSchema.changesTable(list.id))")
            try SpanTable(db).delete(of: list.id)
            try TrackedTable.delete(list.id, db)
            try CanonicalNames.forget(list.id, db)
            try ListContinuation.forget(list.id, db)
            try FilledColumns.forget(list.id, db)
        }
    }

    private static func refuseOrphans(of names: [String], in rest: [TrackedTable], _ db: Database) throws {
        for child in rest {
            let keys = try SchemaReader(db).table(child.name)?.foreignKeys ?? []
            if let parent = keys.map(\.parentTable).first(where: { parent in names.contains { $0.isSameIdentifier(as: parent) } }) {
                throw AnnalsError(
                    .schemaRefused, operation: "untrack", "a foreign key of the tracked table \(child.name) refers to \(parent)",
                    hint: "Untrack \(child.name) as well.")
            }
        }
    }

    /// Removes the triggers first, because they would refer to dropped tables. Objects of other programs stay, under any name.
    private static func removeEverything(_ db: Database) throws {
        for own in try OwnObjects.all(db) { try db.execute(sql: "DROP \(own.type.uppercased()) main.\(SQL.quote(own.name))") }
    }

    private static func inTransaction(_ db: Database, isDryRun: Bool, _ body: () throws -> Void) throws {
        let completion: Database.TransactionCompletion = isDryRun ? .rollback : .commit
        if db.isInsideTransaction {
            try db.inSavepoint {
                try body()
                return completion
            }
        } else {
            try db.inTransaction(.immediate) {
                try body()
                return completion
            }
        }
    }
}

extension AnnalsError {
    /// An object of another program has a name that is reserved for Annals.
    package static func nameIsTaken(_ type: String, _ name: String, operation: String) -> AnnalsError {
        AnnalsError(
            .schemaRefused, operation: operation,
            "the \(type) \(name) has a name that begins with \(StoreSchema.prefix), which is reserved for Annals",
            hint: "Give it another name; nothing was changed")
    }
}
