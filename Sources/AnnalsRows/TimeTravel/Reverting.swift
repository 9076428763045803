import AnnalsCore
package import AnnalsHistory
import AnnalsMerge
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Applies the inverse of changes to the current rows: of a transaction, of an author's work, or of all that a point of history does
/// not have (`RevertSource`).
///
/// Every row is compared with the result of the changes before it is changed. If a later transaction changed the same column, or a
/// row that the revert would delete or insert, this is an obstacle. The error names it with the later transactions. `LaterChanges` says
/// whether such rows are kept or overwritten instead.
///
/// There are two passes, because keys or unique values may have been swapped. The first pass removes the rows that were inserted or
/// changed in this way. The second pass writes rows. Foreign keys and triggers are off, as when entries are applied: the changes hold
/// the effects of cascades, and references are checked at the end.
package final class Reverting {
    package let session: MergeSession
    private let changes: NetChanges
    private let source: any RevertSource
    private let scope: RevertScope?
    private let later: LaterChanges
    private var displaced: [(table: RowTable, rows: DisplacedRows)] = []
    private var obstacles = RevertObstacles()
    /// The transaction that gave a row another key, by the old identifier.
    private lazy var renumbered = Result {
        try Dictionary(RenumberedRows.load(session.db, after: 0).map { ($0.old, $0.number) }, uniquingKeysWith: max)
    }
    package private(set) var count = DifferenceCount()

    /// A revert of one transaction, or of a part of it.
    ///
    /// - Throws: `AnnalsError` with code `notTracked` or `usage` if the part does not fit the tables or the moments the transaction.
    package init(
        _ db: Database, tables: TrackedTables, transaction number: Int64, part: RevertPart?, moments: RevertMoments?, later: LaterChanges
    ) throws {
        try moments?.check(number, db)
        let (session, changes) = (MergeSession(db, registry: tables), try NetChanges(db, tables: tables))
        let scope = try part.map { try RevertScope($0, session) }
        (self.session, self.changes, self.scope) = (session, changes, scope)
        let reverted = RevertedTransaction(db, changes, number, of: scope?.entry, between: moments)
        try reverted.checkMoments()
        source = reverted
        self.later = later
    }

    /// A revert of the transactions of an author that a request selects.
    ///
    /// - Throws: `AnnalsError` with code `rowNotFound` if there are none, `notTracked` or `usage` if the part does not fit the tables,
    ///   `tokenExpired` or `tokenUnknown`.
    package init(
        _ db: Database, tables: TrackedTables, author: WriterName, _ request: HistoryRequest, part: RevertPart?, later: LaterChanges
    ) throws {
        let (session, changes) = (MergeSession(db, registry: tables), try NetChanges(db, tables: tables))
        let scope = try part.map { try RevertScope($0, session) }
        (self.session, self.changes, self.scope) = (session, changes, scope)
        let work = try RevertedWork(db, changes, author: author, request, of: scope?.entry)
        source = work
        transactions = work.transactions
        self.later = later
    }

    /// A restore of the rows that tables had at a point of history.
    ///
    /// - Parameter names: the tables; empty for all.
    /// - Throws: `AnnalsError` with code `notTracked` for an unknown table.
    package init(_ db: Database, tables: TrackedTables, to point: HistoryPoint, of names: [String]) throws {
        (session, changes) = (MergeSession(db, registry: tables), try NetChanges(db, tables: tables))
        let entries = try names.map { name in
            guard let entry = tables.table(named: name) else {
                throw AnnalsError(
                    .notTracked, operation: "restore", "the table \(name) is not tracked", hint: "status() lists the tracked tables",
                    commandHint: "annals status lists the tables")
            }
            return entry
        }
        let restored = names.isEmpty ? nil : entries.map(\.definition.name)
        try UnknownRows.check([point], tables: restored, operation: "restore", db)
        let rows = try RestoredRows(db, changes, to: point, of: names.isEmpty ? nil : entries)
        source = rows
        (left, self.restored) = (rows.left, restored)
        scope = nil
        later = .refuse
    }

    private lazy var laterParents = Result {
        var first = source.first
        if case .point(let point) = source.subject { first = point.token.number }
        return try LaterParents(session.db, changes, after: first ?? 0)
    }
    private lazy var rebased = Result { try source.first.map { try RebasedRows(session.db, changes, after: $0) } }
    /// The number of reverted transactions.
    package private(set) var transactions = 1
    /// Tables without history now, which a restore leaves as they are.
    package private(set) var left: [String] = []
    /// Tables that a restore left without rows.
    package private(set) var emptied: [String] = []
    private var deletedFrom: Set<String> = []
    /// A rebase repeated some of the changes together with other work.
    private var isEntangled = false
    /// The names of the tables that are restored; nil for all.
    private var restored: [String]?
    /// The number of rows with later changes that were overwritten or left.
    package var forced: Int { obstacles.count }
    /// The number of rows of the changes that the part leaves out, because they were inserted or deleted.
    package var leftOut: Int { scope?.leftOut ?? 0 }

    /// Without force, nothing more is written after the first obstacle. The remaining rows are only checked for further obstacles.
    ///
    /// - Throws: `AnnalsError` with code `rowsDiffer`, with the obstacles, or with code `constraint`, with the row and the
    ///   constraint; `rowNotFound` if the changes have nothing in the part. Then the caller rolls back.
    package func run() throws {
        for table in try source.lostTables() where scope == nil { obstacles.noteLost(table: table) }
        try forEachRow(counts: true, takeOut)
        try scope?.expectMatches(source.subject)
        if mayWrite {
            for (table, rows) in displaced { try rows.forEach { try putBack(table, $0, as: $1, rowid: $2) } }
        }
        try forEachRow(counts: false, write)
        guard mayWrite else { throw try refusal() }
        let dangling = try session.checks.dangling()
        if let first = dangling.first { throw try refusal(first, count: dangling.count) }
        if case .point = source.subject { emptied = try tablesWithoutRows() }
        for (_, rows) in displaced { try rows.drop() }
        try source.drop()
    }

    /// Tables that lost their last row.
    private func tablesWithoutRows() throws -> [String] {
        try deletedFrom.filter { name in
            try Bool.fetchOne(session.db, sql: "SELECT NOT EXISTS (SELECT 1 FROM main.\(SQL.quote(name)))") ?? false
        }.sorted()
    }

    private var mayWrite: Bool { later != .refuse || obstacles.count == 0 }

    private func forEachRow(counts: Bool, _ visit: (TrackedTables.Entry, RowTable, UndoneChange) throws -> Void) throws {
        var last: (id: Int64, table: RowTable)?
        let rebased = try rebased.get()
        try source.forEach { entry, undone in
            var undone = undone
            rebased?.follow(&undone, of: entry)
            isEntangled = isEntangled || undone.isEntangled
            guard let undone = scope.map({ $0.part(of: undone, counts: counts) }) ?? undone else { return }
            let known = last?.id == entry.id ? last?.table : nil
            let table = try known ?? session.table(named: entry.definition.name)
            last = (entry.id, table)
            try visit(entry, table, undone)
        }
    }

    // MARK: First pass

    private func takeOut(_ entry: TrackedTables.Entry, _ table: RowTable, _ undone: UndoneChange) throws {
        let change = undone.change
        if hasNullKey(table, change.old) || hasNullKey(table, change.new) { return obstacles.noteNullKey(table) }
        guard let new = change.new else { return }
        guard let old = change.old else {
            guard let row = try table.row(table.key(of: new)) else {
                if try isRenumbered(table, new, undone) { obstacles.note(entry, new, .deleted, columns: Array(new.indices), undone) }
                return
            }
            let changed = Set(differing(row, new)).union(undone.interrupted)
            if !changed.isEmpty {
                obstacles.note(entry, row, .changed, columns: changed.sorted(), undone)
                guard later != .keep else { return }
            }
            try table.delete(row)
            session.checks.noteGone(table, row)
            deletedFrom.insert(table.name)
            count.note(NetChange(old: row, new: nil))
            return
        }
        guard isMoved(table, old, new) else { return }
        guard let (row, target) = try target(entry, table, undone, old, new), row != target else { return }
        try displacedRows(of: table).add(row, target: target, rowid: table.remove(table.key(of: row)))
    }

    private func displacedRows(of table: RowTable) throws -> DisplacedRows {
        if let known = displaced.first(where: { $0.table === table }) { return known.rows }
        let rows = try DisplacedRows(session.db, table)
        displaced.append((table, rows))
        return rows
    }

    /// Whether a rebase gave the row another key since.
    private func isRenumbered(_ table: RowTable, _ row: [Value], _ undone: UndoneChange) throws -> Bool {
        let identifier = PersistentIdentifier(table: table.name, key: table.key(of: row))
        return try renumbered.get()[identifier].map { $0 > undone.first(0) } ?? false
    }

    /// The row as it is and as the revert wants it; nil if it does not exist.
    private func target(
        _ entry: TrackedTables.Entry, _ table: RowTable, _ undone: UndoneChange, _ old: [Value], _ new: [Value]
    ) throws -> (row: [Value], target: [Value])? {
        let changed = differing(old, new)
        guard let row = try table.row(table.key(of: new)) else {
            obstacles.note(entry, new, .deleted, columns: changed, undone)
            return nil
        }
        let since = Set(changed.filter { row[$0] != new[$0] && row[$0] != old[$0] }).union(undone.interrupted)
        if !since.isEmpty {
            obstacles.note(entry, row, .changed, columns: since.sorted(), undone)
            guard later != .keep else { return nil }
        }
        var target = row
        for columnIndex in Set(changed).union(undone.interrupted) { target[columnIndex] = old[columnIndex] }
        if later != .overwrite, try hasOtherParent(entry, target, besides: row, undone) {
            obstacles.note(entry, row, .otherParent, columns: [], undone)
            return nil
        }
        return (row, target)
    }

    /// Whether a row that comes back, or gets earlier values, would refer to another row than it did.
    private func hasOtherParent(
        _ entry: TrackedTables.Entry, _ row: [Value], besides current: [Value]?, _ undone: UndoneChange
    ) throws -> Bool {
        for key in entry.definition.foreignKeys {
            guard let parent = session.registry.table(named: key.parentTable)?.definition, !isRestored(parent.name) else { continue }
            let places = parent.primaryKey.map { index in
                key.parentColumns.firstIndex { $0.isSameIdentifier(as: parent.columns[index].name) }.flatMap { key.columnIndexes[$0] }
            }
            let columnIndexes = places.compactMap { $0 }
            guard columnIndexes.count == places.count, !columnIndexes.contains(where: { row[$0].isNull }) else { continue }
            if let current, columnIndexes.allSatisfy({ current[$0] == row[$0] }) { continue }
            let first = columnIndexes.map(undone.first).min() ?? .max
            if try laterParents.get().isLater(parent, key: columnIndexes.map { row[$0] }, than: first) { return true }
        }
        return false
    }

    /// Whether the rows of a table get their earlier values too.
    private func isRestored(_ table: String) -> Bool {
        guard case .point = source.subject else { return false }
        return restored?.contains { $0.isSameIdentifier(as: table) } ?? true
    }

    // MARK: Second pass

    private func putBack(_ table: RowTable, _ row: [Value], as target: [Value], rowid: Int64?) throws {
        try refusing(table, target) { try table.restore(row, as: target, rowid: rowid) }
        try session.checks.noteChanged(table, old: row, new: target)
        count.note(NetChange(old: row, new: target))
    }

    private func write(_ entry: TrackedTables.Entry, _ table: RowTable, _ undone: UndoneChange) throws {
        let change = undone.change
        guard let old = change.old, !hasNullKey(table, old), !hasNullKey(table, change.new) else { return }
        if let new = change.new {
            guard !isMoved(table, old, new), let (row, target) = try target(entry, table, undone, old, new), mayWrite else { return }
            return try update(table, row, target)
        }
        guard let row = try table.row(table.key(of: old)) else {
            if !undone.interrupted.isEmpty {
                obstacles.note(entry, old, .changed, columns: undone.interrupted.sorted(), undone)
                guard later != .keep else { return }
            }
            if later != .overwrite, try hasOtherParent(entry, old, besides: nil, undone) {
                obstacles.note(entry, old, .otherParent, columns: [], undone)
                return
            }
            guard mayWrite else { return }
            try refusing(table, old) { try table.insert(old) }
            try session.checks.noteNew(table, old)
            count.note(NetChange(old: nil, new: old))
            return
        }
        if row != old {
            obstacles.note(entry, row, .insertedAgain, columns: Array(row.indices), undone)
            guard later != .keep else { return }
        }
        if mayWrite { try update(table, row, old) }
    }

    private func update(_ table: RowTable, _ row: [Value], _ target: [Value]) throws {
        guard row != target else { return }
        try refusing(table, row) {
            // A key with another spelling compares as equal, but the new spelling is a change.
            if table.key(of: row) == table.key(of: target) {
                try table.update(row, to: target)
            } else {
                try table.restore(row, as: target, rowid: table.remove(table.key(of: row)))
            }
        }
        try session.checks.noteChanged(table, old: row, new: target)
        count.note(NetChange(old: row, new: target))
    }

    // MARK: Rows

    private func isMoved(_ table: RowTable, _ old: [Value], _ new: [Value]) -> Bool {
        table.uniqueColumnIndexes.contains { old[$0] != new[$0] }
    }

    private func differing(_ one: [Value], _ other: [Value]) -> [Int] { one.indices.filter { one[$0] != other[$0] } }

    private func hasNullKey(_ table: RowTable, _ row: [Value]?) -> Bool {
        row.map { table.key(of: $0).contains(.null) } ?? false
    }

    // MARK: Refusals

    /// The error that names the obstacles, and the transactions that made them.
    private func refusal() throws -> AnnalsError {
        let subject = source.subject
        if case .point = subject {
            let message = "\(subject.cannot): \(obstacles.words)"
            if obstacles.noted.contains(where: { $0.obstacle.reason == .otherParent }) {
                return AnnalsError(
                    .rowsDiffer, operation: subject.operation, message,
                    hint: "Nothing was changed; name the parent's table as well")
            }
            guard obstacles.noted.allSatisfy({ $0.obstacle.reason == .nullKey }) else {
                return StoreError.toVerify(.diverged, operation: subject.operation, "\(message), but history says otherwise")
            }
            return AnnalsError(
                .rowsDiffer, operation: subject.operation, "\(message) was changed, and such a row cannot be found again",
                hint: "Nothing was changed; give the row a key, or name the other tables")
        }
        var work = try LaterWork(session.db, changes, obstacles, of: source)
        var refusal = try work.refusal(obstacles)
        if let index = refusal.transactions.firstIndex(where: { $0.origin == .rebase }) {
            // The half of a rebase that undid the work is older. Reverting both would not lead back.
            refusal.transactions.removeSubrange((index + 1)...)
            refusal.isRebased = isEntangled && index == 0
        }
        if case .transaction(let number) = subject, let index = refusal.transactions.firstIndex(where: { $0.number == number }) {
            refusal.transactions.remove(at: index)
            refusal.isWithinItself = true
        }
        refusal.leaveOutRevertedWork()
        return try refusal.error(subject, obstacles, session.db)
    }

    private func refusal(_ dangling: ReferenceChecks.Dangling, count: Int) throws -> AnnalsError {
        let table = try session.table(named: dangling.child.table)
        let parent = table.references[dangling.foreignKey].parentTable
        let more = count > 1 ? "; so would \(count - 1) more" : ""
        guard case .point = source.subject else {
            if session.checks.isWritten(dangling) {
                return AnnalsError(
                    .constraint, operation: source.subject.operation,
                    "\(source.subject.cannot): the row \(RevertObstacles.name(table, dangling.child.key)) would come back, and its parent in "
                        + "\(parent) is not there\(more)",
                    hint: "Nothing was changed; bring the parent back first, or revert all of the transaction",
                    commandHint: "Nothing was changed; bring the parent back first with --table \(parent) and --key, or revert the "
                        + "transaction without --table, --key and --column")
            }
            return AnnalsError(
                .constraint, operation: source.subject.operation,
                "\(source.subject.cannot): the row \(RevertObstacles.name(table, dangling.child.key)) would have no parent in "
                    + "\(parent)\(more)",
                hint: "Nothing was changed; change or delete that row first, or revert the transaction that wrote it",
                commandHint: "Nothing was changed; change or delete that row first, or revert the transaction that wrote it: annals blame "
                    + "names it")
        }
        let missing = [table.name, parent].filter { name in restored.map { !$0.contains { $0.isSameIdentifier(as: name) } } ?? false }
        let hint = missing.isEmpty ? "change the rows that prevent it first" : "name the table \(missing.joined(separator: ", ")) as well"
        return AnnalsError(
            .constraint, operation: "restore",
            "\(source.subject.cannot): the row \(RevertObstacles.name(table, dangling.child.key)) would have no parent in \(parent)\(more)",
            hint: "Nothing was changed; \(hint)")
    }

    private func refusing(_ table: RowTable, _ row: [Value], _ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
            throw refusal(table, table.key(of: row), error.message ?? "a constraint forbids it")
        }
    }

    private func refusal(_ table: RowTable, _ key: [Value], _ reason: String) -> AnnalsError {
        AnnalsError(
            .constraint, operation: source.subject.operation,
            "\(source.subject.cannot): the row \(RevertObstacles.name(table, key)) cannot get its earlier values: \(reason)",
            hint: "Nothing was changed; change the rows that prevent it first")
    }
}
