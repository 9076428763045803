package import AnnalsCore
package import AnnalsRows
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Changes a row as a user decided about a conflict, after a comparison with the current row.
package struct Resolving {
    package let row: ManualEdit
    package let conflict: Conflict
    package let renumbered: RenumberedKeys
    /// Whether the space sums the changes of a column.
    package let isSummed: (_ column: String) -> Bool

    package init(row: ManualEdit, conflict: Conflict, renumbered: RenumberedKeys, isSummed: @escaping (_ column: String) -> Bool) {
        self.row = row
        self.conflict = conflict
        self.renumbered = renumbered
        self.isSummed = isSummed
    }

    private var table: DeclaredTable { row.table }
    private var entry: JournalEntry { conflict.entry }

    /// - Parameters:
    ///   - side: The side with the values for the row; nil for `values` alone.
    ///   - values: Values by column. They replace those of the side.
    package func write(_ side: JournalEntry.Side?, _ values: [String: Value]) throws {
        let set = try named(values)
        if entry.kind == .renumber { return try writeRenumbered(side, set) }
        let key = try key()
        let current = try row.find(key)
        if let current, leftNoRow { return try writeBeside(current, key, side, set) }
        guard let decided = try decided(side, set) else {
            if let current { try row.delete(current) }
            return
        }
        if let current {
            try row.update(current, to: decided)
        } else {
            try row.insert(whole(side, key).merging(decided) { $1 })
        }
    }

    /// Whether the conflict, or a person's decision, left no row. A row that has the key now was inserted or restored since.
    private var leftNoRow: Bool {
        switch conflict.resolution {
        case .stored: entry.stored == nil
        case .incoming: entry.incoming == nil
        // Values may have inserted it under another key.
        case nil, .values, .tableRemoved: (entry.winner == .stored ? entry.stored : entry.incoming) == nil
        }
    }

    /// A row has the key that may be another one, so it must not get the values of the conflict's row.
    private func writeBeside(_ current: [Value], _ key: [Value], _ side: JournalEntry.Side?, _ values: [String: Value]) throws {
        guard let decided = try decided(side, values) else { return }
        // Another row may have the values of an inserted row by chance.
        let isInsert = entry.columns.isEmpty && entry.base == nil
        let isEqual = decided.allSatisfy { column, value in table.columnIndex(of: column).map { current[$0] == value } ?? false }
        if isEqual, !isInsert { return }
        if entry.columns.isEmpty {
            let inserted = try whole(side, key).merging(decided) { $1 }
            let given = table.primaryKey.map { inserted[table.columns[$0].name] ?? .null }
            if try given != key && row.find(given) == nil { return try row.insert(inserted) }
        }
        let name = ManualEdit.text(key, table.primaryKey.map { table.columns[$0].name })
        let column = table.columns[table.primaryKey[0]].name
        throw AnnalsError(
            .constraint, operation: "resolve",
            isInsert
                ? "the row of conflict \(conflict.id) was not inserted, and a row of \(table.name) has its key \(name) now"
                : "the conflict \(conflict.id) left no row of \(table.name) with the key \(name), and one was inserted or restored since",
            hint: "Nothing was changed. If it is the same row, change it with plain SQL, and take the stored side"
                + (entry.columns.isEmpty ? ". If not, give the conflict's row another key, with \(column) in setting:" : ""),
            commandHint: "Nothing was changed. If it is the same row, change it with plain SQL, and mark the conflict with --take stored"
                + (entry.columns.isEmpty ? ". If not, --set \(column)=VALUE inserts the conflict's row under another key" : ""))
    }

    /// Both sides used one number. Both rows exist, and no value was lost.
    private func writeRenumbered(_ side: JournalEntry.Side?, _ values: [String: Value]) throws {
        let names = table.primaryKey.map { table.columns[$0].name }
        guard side != .stored else {
            throw AnnalsError(
                .usage, operation: "resolve",
                "the key \(ManualEdit.text(entry.key, names)) of \(table.name) belongs to another row, and both rows exist",
                hint: "resolve(\(conflict.id), taking: .incoming) accepts the new number; an UPDATE with plain SQL sets another",
                commandHint: "annals resolve \(conflict.id) --take incoming accepts the new number; an UPDATE with plain SQL sets another")
        }
        let key = renumbered.now(table.name, entry.key)
        guard !values.isEmpty else { return }
        guard let current = try row.find(key) else {
            throw AnnalsError(.usage, operation: "resolve", "the row \(ManualEdit.text(key, names)) of \(table.name) no longer exists")
        }
        try row.update(current, to: values)
    }

    /// The current key of the entry's row. For values that the author lost, the entry has the key that the author gave the row, and the
    /// row may have been renumbered since. For a row that others lost, the entry has the row's own key.
    private func key() throws -> [Value] {
        guard entry.key.count == table.primaryKey.count else { throw outdated }
        let isAuthors = entry.winner == .stored || !entry.columns.isEmpty
        return isAuthors ? renumbered.now(table.name, entry.key) : entry.key
    }

    /// The columns to write; nil if the row is to be deleted.
    private func decided(_ side: JournalEntry.Side?, _ values: [String: Value]) throws -> [String: Value]? {
        guard let side else { return values }
        if side == .incoming {
            let sums = changes(without: values)
            if !sums.isEmpty { throw isDifference(sums) }
        }
        guard let row = side == .stored ? entry.stored : entry.incoming else { return values.isEmpty ? nil : values }
        let columns = entry.columns.isEmpty ? table.columns.map(\.name) : entry.columns
        guard columns.count == row.count else { throw outdated }
        var decided = Dictionary(zip(columns, side == .incoming ? followed(columns, row) : row)) { $1 }
        // The stored value of a sum is that of the merge. It would undo every change since.
        if side == .stored { for sum in changes(without: values) { decided[sum.column] = nil } }
        if side == .incoming { try checkParents(decided, values) }
        return decided.merging(values) { $1 }
    }

    /// The changes that the space sums, and for which the user gave no value.
    private func changes(without values: [String: Value]) -> [RefusedSum] {
        RefusedSum.all(entry, isSummed: isSummed).filter { sum in !values.keys.contains { $0.isSameIdentifier(as: sum.column) } }
    }

    /// The value of the incoming side was the author's, from before the merge. It would undo every change of the others.
    private func isDifference(_ sums: [RefusedSum]) -> AnnalsError {
        let changes = sums.map { "\($0.column) by \($0.changeText)" }.joined(separator: " and of ")
        let additions = sums.map { "\($0.changeText) to \($0.column)" }.joined(separator: " and ")
        let (a, no) = sums.count == 1 ? ("a change", "no value") : ("the changes", "no values")
        return AnnalsError(
            .usage, operation: "resolve", "the incoming side of conflict \(conflict.id) is \(a) of \(changes), and \(no)",
            hint: "Nothing was changed. Add them with an UPDATE in SQL when the constraint allows it, or give the values in setting:",
            commandHint: "Nothing was changed. When the constraint allows it, add \(additions) of this row with an UPDATE, "
                + "or --set the new value of each such column")
    }

    /// A parent that was set aside together with the row is not there, and another row may have its key.
    private func checkParents(_ decided: [String: Value], _ values: [String: Value]) throws {
        for key in table.foreignKeys
        where !key.columns.contains(where: { column in values.keys.contains { $0.isSameIdentifier(as: column) } }) {
            let names = key.columnIndexes.map { $0.map { table.columns[$0].name } }
            let parent = names.compactMap { $0.flatMap { decided[$0] } }
            guard parent.count == names.count, renumbered.wasSetAside(key.parentTable, parent) else { continue }
            let name = ManualEdit.text(parent, key.parentColumns)
            var given = key.columns
            if let own = try takenKey(values) { given.append(own) }
            let other = given.count == key.columns.count ? "" : ", and a key that no row has"
            throw AnnalsError(
                .constraint, operation: "resolve",
                "the row \(name) of \(key.parentTable), to which the row of conflict \(conflict.id) refers, was set aside too, and another row "
                    + "may have its key now",
                hint: "Nothing was changed. Give the parent's key\(other) in setting: (\(given.joined(separator: ", ")))",
                commandHint:
                    "Nothing was changed. --set \(given.map { "\($0)=VALUE" }.joined(separator: " --set ")) gives the row that is "
                    + "meant\(other)")
        }
    }

    /// The column of an inserted row's key, if another row has the key now and the user gave no other one.
    private func takenKey(_ values: [String: Value]) throws -> String? {
        guard entry.columns.isEmpty, entry.base == nil, table.primaryKey.count == 1 else { return nil }
        let column = table.columns[table.primaryKey[0]].name
        guard !values.keys.contains(where: { $0.isSameIdentifier(as: column) }), try row.find(key()) != nil else { return nil }
        return column
    }

    /// The values of a row as its author wrote them, with the current keys of the row and of its parents.
    private func followed(_ columns: [String], _ row: [Value]) -> [Value] {
        zip(columns, row).map { column, value in
            if table.primaryKey.count == 1, table.columns[table.primaryKey[0]].name.isSameIdentifier(as: column) {
                return renumbered.now(table.name, [value])[0]
            }
            let parents = table.foreignKeys.filter { $0.columns.count == 1 && $0.columns[0].isSameIdentifier(as: column) }
            return parents.first.map { renumbered.now($0.parentTable, [value])[0] } ?? value
        }
    }

    /// A whole row for one that does not exist any more: from the journal, or as it was when it was deleted.
    private func whole(_ side: JournalEntry.Side?, _ key: [Value]) throws -> [String: Value] {
        let columns = table.columns.map(\.name)
        let rows = side == .stored ? [entry.stored, entry.base] : [entry.incoming, entry.stored, entry.base]
        if entry.columns.isEmpty, let row = rows.compactMap({ $0 }).first {
            guard row.count == columns.count else { throw outdated }
            return Dictionary(zip(columns, followed(columns, row))) { $1 }
        }
        let name = ManualEdit.text(key, table.primaryKey.map { table.columns[$0].name })
        var walk = try BlameWalk(self.row.db, table: table.name, key: key)
        guard let (row, transaction) = try walk.deletedRow() else {
            throw AnnalsError(
                .usage, operation: "resolve",
                "the row \(name) of \(table.name) no longer exists, and history no longer has its other columns",
                hint: "Nothing was changed. Insert it again with plain SQL; conflicts(limit:) returns the recorded values",
                commandHint: "Nothing was changed. Insert it again with plain SQL; annals conflicts shows the recorded values")
        }
        guard try isMeant(transaction) else {
            throw AnnalsError(
                .usage, operation: "resolve",
                "the row \(name) of \(table.name) no longer exists: transaction \(transaction.number) deleted it, which is not the delete of "
                    + "conflict \(conflict.id)",
                hint: "Nothing was changed. If it is the same row, revert transaction \(transaction.number) first",
                commandHint:
                    "Nothing was changed. If it is the same row, annals revert \(transaction.number) inserts it again; then resolve "
                    + "the conflict")
        }
        return Dictionary(zip(columns, row)) { $1 }
    }

    /// Whether a delete is the one of the conflict, or that of a person who resolved it. A row that had the same key and was deleted otherwise
    /// may be another one.
    private func isMeant(_ delete: HistoryTransaction) throws -> Bool {
        if delete.contextName == Self.contextName { return true }
        switch delete.origin {
        case .imported(_, let position): return position == entry.storedPosition
        case .rebase: return true
        case .local, .external, .migration:
            guard try entry.storedReplica == ReplicaState.load(row.db)?.replica else { return false }
            var isMeant = false
            try TransactionTable(row.db).forEachOwn(writtenAt: [entry.storedTime].compactMap { $0 }) { _, number, _ in
                isMeant = number == delete.number
            }
            return isMeant
        }
    }

    /// The context of the transactions that resolve conflicts.
    package static let contextName = "resolve"

    /// The values by column name, in the spelling of the table.
    private func named(_ values: [String: Value]) throws -> [String: Value] {
        var named: [String: Value] = [:]
        for (column, value) in values {
            guard let columnIndex = table.columnIndex(of: column) else {
                throw AnnalsError(.usage, operation: "resolve", "the table \(table.name) has no column \(column)")
            }
            named[table.columns[columnIndex].name] = value
        }
        return named
    }

    private var outdated: AnnalsError {
        AnnalsError(
            .schemaRefused, operation: "resolve", "the columns of \(table.name) have changed since the conflict",
            hint: "Change the row with plain SQL instead; conflicts(limit:) returns the values",
            commandHint: "Change the row with plain SQL instead; annals conflicts shows the values")
    }
}
