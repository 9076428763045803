package import AnnalsCore
package import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Brings a row to what a person decided about a conflict, compared with the row as it is.
package struct Resolving {
    package let row: ManualEdit
    package let conflict: Conflict
    package let renumbered: RenumberedKeys

    package init(row: ManualEdit, conflict: Conflict, renumbered: RenumberedKeys) {
        self.row = row
        self.conflict = conflict
        self.renumbered = renumbered
    }

    private var table: DeclaredTable { row.table }
    private var entry: JournalEntry { conflict.entry }

    /// - Parameters:
    ///   - side: whose values the row gets; nil for `values` alone.
    ///   - values: by column, over those of the side.
    package func write(_ side: JournalEntry.Side?, _ values: [String: Value]) throws {
        let set = try named(values)
        if entry.kind == .renumber { return try writeRenumbered(side, set) }
        let key = try key()
        let current = try row.find(key)
        guard let decided = try decided(side, set) else {
            if let current { try row.delete(current) }
            return
        }
        if let current {
            try row.update(current, to: decided)
        } else {
            try row.insert(whole(side).merging(decided) { $1 })
        }
    }

    /// A number that both sides took: both rows are there, and nobody lost anything.
    private func writeRenumbered(_ side: JournalEntry.Side?, _ values: [String: Value]) throws {
        let names = table.primaryKey.map { table.columns[$0].name }
        guard side != .stored else {
            throw AnnalsError(
                .usage, operation: "resolve",
                "the number \(ManualEdit.text(entry.key, names)) of \(table.name) belongs to another row, and both rows are there",
                hint: "annals resolve \(conflict.id) --take incoming agrees with the new number; an UPDATE with plain SQL gives it another")
        }
        let key = renumbered.now(table.name, entry.key)
        guard !values.isEmpty else { return }
        guard let current = try row.find(key) else {
            throw AnnalsError(.usage, operation: "resolve", "the row \(ManualEdit.text(key, names)) of \(table.name) is gone")
        }
        try row.update(current, to: values)
    }

    /// The key of the row that the entry tells of. What its author lost is told under the key that it gave the row, which is
    /// another's by now where it was renumbered; a row that others lost is told under its own.
    private func key() throws -> [Value] {
        guard entry.key.count == table.primaryKey.count else { throw outdated }
        let isAuthors = entry.winner == .stored || !entry.columns.isEmpty
        return isAuthors ? renumbered.now(table.name, entry.key) : entry.key
    }

    /// The columns to be written; nil when the row is to go.
    private func decided(_ side: JournalEntry.Side?, _ values: [String: Value]) throws -> [String: Value]? {
        guard let side else { return values }
        guard let row = side == .stored ? entry.stored : entry.incoming else { return values.isEmpty ? nil : values }
        let columns = entry.columns.isEmpty ? table.columns.map(\.name) : entry.columns
        guard columns.count == row.count else { throw outdated }
        let decided = Dictionary(zip(columns, side == .incoming ? followed(columns, row) : row)) { $1 }
        return decided.merging(values) { $1 }
    }

    /// A row's values as its author wrote them, with its key and its references as they are called now.
    private func followed(_ columns: [String], _ row: [Value]) -> [Value] {
        zip(columns, row).map { column, value in
            if table.primaryKey.count == 1, table.columns[table.primaryKey[0]].name.isSameIdentifier(as: column) {
                return renumbered.now(table.name, [value])[0]
            }
            let parents = table.foreignKeys.filter { $0.columns.count == 1 && $0.columns[0].isSameIdentifier(as: column) }
            return parents.first.map { renumbered.now($0.parentTable, [value])[0] } ?? value
        }
    }

    /// A whole row as the journal holds it, for one that is gone.
    private func whole(_ side: JournalEntry.Side?) throws -> [String: Value] {
        let columns = table.columns.map(\.name)
        let rows = side == .stored ? [entry.stored, entry.base] : [entry.incoming, entry.stored, entry.base]
        guard entry.columns.isEmpty, let row = rows.compactMap({ $0 }).first else {
            throw AnnalsError(
                .usage, operation: "resolve", "the row of \(table.name) is gone, and the journal holds only some of its columns",
                hint: "Insert it anew with plain SQL; annals conflicts shows what it holds")
        }
        guard row.count == columns.count else { throw outdated }
        return Dictionary(zip(columns, followed(columns, row))) { $1 }
    }

    /// The values under the columns' names as the table spells them.
    private func named(_ values: [String: Value]) throws -> [String: Value] {
        var named: [String: Value] = [:]
        for (column, value) in values {
            guard let place = table.place(of: column) else {
                throw AnnalsError(.usage, operation: "resolve", "the table \(table.name) has no column \(column)")
            }
            named[table.columns[place].name] = value
        }
        return named
    }

    private var outdated: AnnalsError {
        AnnalsError(
            .schemaRefused, operation: "resolve", "the columns of \(table.name) have changed since the conflict",
            hint: "Change the row with plain SQL instead; annals conflicts shows the values")
    }
}
