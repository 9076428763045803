import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsSchema
package import GRDB

/// Applies the inverse of a transaction to the current rows.
///
/// Every row is compared with the result of the transaction before it is changed. If a later transaction changed the same
/// column, or a row that the revert would delete or insert, this is an obstacle. The error names it, and only force
/// overwrites it.
///
/// There are two passes, because the transaction may have swapped keys or unique values. The first pass removes the rows that
/// the transaction inserted or changed in this way. The second pass writes rows. Foreign keys and triggers are off, as when
/// entries are applied: the transaction holds the effects of its cascades, and references are checked at the end.
package final class Reverting {
    package let session: MergeSession
    private let changes: NetChanges
    private let number: Int64
    private let isForced: Bool
    private var displaced: [Displaced] = []
    private var obstacles = RevertObstacles()
    package private(set) var count = DifferenceCount()

    /// A row that the first pass removed and that is written again with other values.
    private struct Displaced {
        var table: RowTable
        var row: [Value]
        var target: [Value]
        var rowid: Int64?
    }

    package init(_ db: Database, tables: TrackedTables, transaction number: Int64, isForced: Bool) throws {
        session = MergeSession(db, registry: tables)
        changes = try NetChanges(db, tables: tables)
        self.number = number
        self.isForced = isForced
    }

    /// The number of rows with later changes that were overwritten or left.
    package var forced: Int { obstacles.count }

    /// Without force, nothing more is written after the first obstacle. The remaining rows are only checked for further obstacles.
    ///
    /// - Throws: `AnnalsError` with code `rowsDiffer`, with the obstacles, or with code `constraint`, with the row and the
    ///   constraint. Then the caller rolls back.
    package func run() throws {
        for section in try changes.sections(of: number) where try changes.translation(section.layout) == nil {
            obstacles.note("the table \(try changes.layout(section.layout).layout.name) is not tracked any more")
        }
        let parts = try changes.parts(of: number)
        try forEachRow(of: parts, takeOut)
        if mayWrite { for row in displaced { try putBack(row) } }
        try forEachRow(of: parts, write)
        guard mayWrite else { throw obstacles.error(number) }
        if let dangling = try session.checks.dangling().first {
            let table = try session.table(named: dangling.child.table)
            throw refusal(
                table, dangling.child.key, "its FOREIGN KEY to \(table.references[dangling.foreignKey].parentTable) would have no parent")
        }
    }

    private var mayWrite: Bool { isForced || obstacles.count == 0 }

    private func forEachRow(of parts: [NetChanges.Part], _ visit: (RowTable, NetChange) throws -> Void) throws {
        for part in parts {
            let table = try session.table(named: part.entry.definition.name)
            try changes.forEachRow(in: part) { try visit(table, $0) }
        }
    }

    // MARK: First pass

    private func takeOut(_ table: RowTable, _ change: NetChange) throws {
        if hasNullKey(table, change.old) || hasNullKey(table, change.new) {
            return obstacles.note("a row of \(table.name) with NULL in its key")
        }
        guard let new = change.new else { return }
        guard let old = change.old else {
            guard let row = try table.row(table.key(of: new)) else { return }
            if row != new { obstacles.note(table, row, columns: differing(row, new)) }
            try table.delete(row)
            session.checks.noteGone(table, row)
            count.note(NetChange(old: row, new: nil))
            return
        }
        guard isMoved(table, old, new) else { return }
        guard let (row, target) = try target(table, old, new), row != target else { return }
        displaced.append(Displaced(table: table, row: row, target: target, rowid: try table.remove(table.key(of: row))))
    }

    /// The row as it is and as the revert wants it; nil if it does not exist.
    private func target(_ table: RowTable, _ old: [Value], _ new: [Value]) throws -> (row: [Value], target: [Value])? {
        guard let row = try table.row(table.key(of: new)) else {
            obstacles.note(table, new, "was deleted")
            return nil
        }
        let changed = differing(old, new)
        let later = changed.filter { row[$0] != new[$0] && row[$0] != old[$0] }
        if !later.isEmpty { obstacles.note(table, row, columns: later) }
        var target = row
        for columnIndex in changed { target[columnIndex] = old[columnIndex] }
        return (row, target)
    }

    // MARK: Second pass

    private func putBack(_ row: Displaced) throws {
        try refusing(row.table, row.target) { try row.table.restore(row.row, as: row.target, rowid: row.rowid) }
        try session.checks.noteChanged(row.table, old: row.row, new: row.target)
        count.note(NetChange(old: row.row, new: row.target))
    }

    private func write(_ table: RowTable, _ change: NetChange) throws {
        guard let old = change.old, !hasNullKey(table, old), !hasNullKey(table, change.new) else { return }
        if let new = change.new {
            guard !isMoved(table, old, new), let (row, target) = try target(table, old, new), mayWrite else { return }
            return try update(table, row, target)
        }
        guard let row = try table.row(table.key(of: old)) else {
            guard mayWrite else { return }
            try refusing(table, old) { try table.insert(old) }
            try session.checks.noteNew(table, old)
            count.note(NetChange(old: nil, new: old))
            return
        }
        if row != old { obstacles.note(table, row, "was inserted again") }
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

    private func refusing(_ table: RowTable, _ row: [Value], _ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
            throw refusal(table, table.key(of: row), error.message ?? "a constraint forbids it")
        }
    }

    private func refusal(_ table: RowTable, _ key: [Value], _ reason: String) -> AnnalsError {
        AnnalsError(
            .constraint, operation: "revert",
            "transaction \(number) cannot be reverted: the row \(RevertObstacles.name(table, key)) cannot get its earlier "
                + "values: \(reason)",
            hint: "Nothing was changed; change the rows that prevent it first")
    }
}

/// Later changes that a revert would overwrite or cannot reach, for each row.
struct RevertObstacles {
    package private(set) var count = 0
    private var named: [String] = []

    /// Limits the length of the message.
    private static let longestList = 5

    package mutating func note(_ words: String) {
        count += 1
        if named.count < Self.longestList { named.append(words) }
    }

    package mutating func note(_ table: RowTable, _ row: [Value], _ words: String) {
        note("\(Self.name(table, table.key(of: row))) \(words)")
    }

    package mutating func note(_ table: RowTable, _ row: [Value], columns: [Int]) {
        note("\(Self.name(table, table.key(of: row))) (\(columns.map { table.definition.columns[$0].name }.joined(separator: ", ")))")
    }

    package static func name(_ table: RowTable, _ key: [Value]) -> String {
        let names = table.definition.primaryKey.map { table.definition.columns[$0].name }
        return "\(ManualEdit.text(key, names)) of \(table.name)"
    }

    package func error(_ number: Int64) -> AnnalsError {
        let rest = count > named.count ? " and \(count - named.count) more" : ""
        return AnnalsError(
            .rowsDiffer, operation: "revert",
            "transaction \(number) cannot be reverted, because rows were changed after it: \(named.joined(separator: "; "))\(rest)",
            hint: "Nothing was changed; force: true overwrites later changes",
            commandHint: "Nothing was changed; --force overwrites later changes")
    }
}
