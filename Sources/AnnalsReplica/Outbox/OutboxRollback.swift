import AnnalsCore
package import AnnalsHistory
package import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
package import GRDB

/// Changes a copy of a replica's rows from the newest state of history back to the state of the log alone, without the outbox
/// (law 3).
package struct OutboxRollback {
    private let db: Database
    private let copy: HistoryCopy
    private let changes: NetChanges

    package init(_ db: Database, copy: HistoryCopy, changes: NetChanges) {
        self.db = db
        self.copy = copy
        self.changes = changes
    }

    /// Whether the rows are those of the log already.
    package func isEmpty() throws -> Bool {
        try Outbox.count(db) == 0 && changes.unrecordedParts().isEmpty && ownSinceOutbox().isEmpty
    }

    /// Undoes the outbox, newest transaction first. Rows that differ are reported to the copy's `mismatch`.
    package func undoOutbox() throws {
        try undoWhatTheOutboxLacks()
        for sequence in try Outbox.sequencesFromNewest(db) {
            guard let row = try Outbox.row(db, sequence: sequence) else { continue }
            try copy.take(steps(back: row))
        }
    }

    /// Own transactions are copied to the outbox at the beginning of an exchange. Later ones are only in history.
    private func undoWhatTheOutboxLacks() throws {
        for number in try ownSinceOutbox() { try copy.move(.back, through: number) }
    }

    /// Newest first.
    private func ownSinceOutbox() throws -> [Int64] {
        let moved = try Meta(db).integer(.outboxed) ?? 0
        let own = TransactionOrigin.own.map(\.rawValue)
        let rows = try TransactionTable(db).rowsFromNewest(after: moved)
        var numbers: [Int64] = []
        while let row = try rows.next(), try own.contains(row.value("origin")) { numbers.append(try row.number("number")) }
        return numbers
    }

    /// The inverse changes of an outbox transaction. An update has only the columns that it changed. The others have the values of
    /// the copy.
    private func steps(back row: Outbox.Row) throws -> [HistoryCopy.Step] {
        var steps: [HistoryCopy.Step] = []
        var change = WireChange()
        try Outbox.content(db, of: row, layouts: [:]).forEach { part in
            var reader = part.reader
            while let reference = try reader.nextTable() {
                guard let translation = try changes.translation(Int64(reference)) else { continue }
                let table = copy.table(translation.entry.definition)
                while try reader.nextChange(into: &change) {
                    switch reader.markedChange(change).change {
                    case .insert(let row): steps.append(.init(table: table, from: translation.translate(row), to: nil))
                    case .delete(let row): steps.append(.init(table: table, from: nil, to: translation.translate(row)))
                    case .update(let key, let columns):
                        if let step = try step(table, translation, key, columns) { steps.append(step) }
                    }
                }
            }
        }
        return steps
    }

    private func step(
        _ table: CopiedTable, _ translation: LayoutTranslation, _ key: [Value], _ columns: [ColumnChange]
    ) throws -> HistoryCopy.Step? {
        let changes = columns.compactMap { change in translation.columnIndex(change.column).map { ($0, change) } }
        var now = key
        for (columnIndex, change) in changes {
            if let part = table.definition.primaryKey.firstIndex(of: columnIndex) { now[part] = change.new }
        }
        guard let stored = try table.row(now) else {
            try copy.mismatch(CopyMismatch(table: table.definition.name, kind: .missing))
            return nil
        }
        var after = stored
        var before = stored
        for (columnIndex, change) in changes {
            after[columnIndex] = change.new
            before[columnIndex] = change.old
        }
        return .init(table: table, from: after, to: before)
    }
}
