import AnnalsCore
import AnnalsMerge
import GRDB

/// One try at laying one transaction on top.
///
/// Three steps, as when an entry is applied: rows that go or change a key or a unique value are taken out; inserts
/// whose integer key is taken get their number; rows are written. Then foreign keys are looked at, and what a
/// delete's declared action asks for is done as part of the transaction.
final class LayAttempt {
    let layOn: LayOn
    let transaction: OutboxTransaction
    let decisions: Decisions
    var names: RowNames
    var highestKeys: [String: Int64]
    var rows = NetRows()
    var journal: [JournalEntry] = []
    /// Which change of the transaction wrote or removed a row, by the key the row has, or had.
    var causes: [RowReference: Int] = [:]
    /// Rows that this transaction moved, by their old key.
    var moved: [RowReference: [Value]] = [:]

    private var displaced: [Displaced] = []

    struct Displaced {
        var index: Int
        var table: RowTable
        var stored: [Value]
        var new: [Value]
        var rowid: Int64?
    }

    init(_ layOn: LayOn, _ transaction: OutboxTransaction, _ decisions: Decisions) {
        self.layOn = layOn
        self.transaction = transaction
        self.decisions = decisions
        self.names = layOn.names
        self.highestKeys = layOn.highestKeys
    }

    /// nil when the transaction lies; otherwise the decision that the next try needs.
    func run() throws -> Decisions.Decision? {
        do {
            for index in transaction.changes.indices { try takeOut(index) }
            for index in transaction.changes.indices { try numberInsert(index) }
            for row in displaced { try putBack(row) }
            for index in transaction.changes.indices { try write(index) }
            try settleReferences()
            return nil
        } catch let broken as BrokenTry {
            return broken.decision
        }
    }

    /// Ends a try: the decision that was missing.
    struct BrokenTry: Error {
        var decision: Decisions.Decision
    }

    func decide(_ index: Int, _ kind: Decisions.Kind) -> BrokenTry {
        BrokenTry(decision: .init(change: index, kind: kind, table: transaction.changes[index].table))
    }

    // MARK: Rows that go

    private func takeOut(_ index: Int) throws {
        let change = transaction.changes[index]
        let table = try layOn.table(change.table)
        switch change.change {
        case .insert: return
        case .delete(let old): try delete(index, table, old)
        case .update(let key, let columns):
            guard decisions.setAside(index) == nil else { return }
            let touchesUnique = columns.contains { table.uniquePlaces.contains($0.column) }
            guard touchesUnique, case .alive(let now, let stored) = try fate(RowReference(table.name, key)) else { return }
            let new = try merge(index, table, RowReference(table.name, now), stored: stored, columns)
            guard new != stored else { return }
            let rowid = try table.remove(now)
            displaced.append(Displaced(index: index, table: table, stored: stored, new: new, rowid: rowid))
        }
    }

    private func delete(_ index: Int, _ table: RowTable, _ old: [Value]) throws {
        let meant = RowReference(table.name, table.key(of: old))
        guard case .alive(let key, let stored) = try fate(meant) else { return }
        let row = RowReference(table.name, key)
        if let kind = decisions.setAside(index) {
            note(kind, meant, base: old, stored: stored, incoming: nil, winner: .stored)
            return
        }
        if let mark = layOn.marks.latestWriter(of: row), stored != old {
            let winner = winner(against: mark)
            note(.deleteOfUpdated, meant, base: old, stored: stored, incoming: nil, winner: winner, mark: mark)
            if winner == .stored { return }
        }
        try table.delete(stored)
        layOn.session.checks.noteGone(table, stored)
        rows.record(table, old: stored, new: nil, mark: transaction.changes[index].mark)
        causes[row] = index
    }

    private func putBack(_ row: Displaced) throws {
        let keyBefore = row.table.key(of: row.stored)
        let keyAfter = row.table.key(of: row.new)
        do {
            try row.table.restore(row.stored, as: row.new, rowid: row.rowid)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw refusal(of: row.index, row.table, error, isUpdate: true)
        }
        try written(row.index, row.table, old: row.stored, new: row.new)
        if keyBefore != keyAfter {
            moved[RowReference(row.table.name, keyBefore)] = keyAfter
            noteMove(row.index, row.table, to: keyAfter)
        }
    }

    /// Later outbox transactions call a moved row by the key that this one asked for; a name is needed where it got another.
    private func noteMove(_ index: Int, _ table: RowTable, to key: [Value]) {
        guard case .update(let meant, let columns) = transaction.changes[index].change else { return }
        var wanted = meant
        for column in columns {
            if let part = table.definition.primaryKey.firstIndex(of: column.column) { wanted[part] = column.new }
        }
        names[RowReference(table.name, meant)] = nil
        names[RowReference(table.name, wanted)] = wanted == key ? nil : .now(key: key)
    }

    // MARK: Inserts

    /// Gives an insert its number when a row of another author has its integer key.
    private func numberInsert(_ index: Int) throws {
        guard case .insert(let row) = transaction.changes[index].change, decisions.setAside(index) == nil else { return }
        let table = try layOn.table(transaction.changes[index].table)
        guard let place = table.definition.rowidAlias, !table.referencePlaces.contains(place), let wanted = row[place].integer else {
            return
        }
        let meant = RowReference(table.name, [row[place]])
        names[meant] = nil
        guard try table.row([row[place]]) != nil else { return }
        let highest = max(highestKeys[table.name] ?? 0, wanted)
        guard highest < .max else { throw decide(index, .setAside(.insert)) }
        highestKeys[table.name] = highest + 1
        names[meant] = .now(key: [.integer(highest + 1)])
    }

    private func write(_ index: Int) throws {
        let change = transaction.changes[index]
        let table = try layOn.table(change.table)
        switch change.change {
        case .delete: return
        case .insert(let row): try insert(index, table, row)
        case .update(let key, let columns):
            if displaced.contains(where: { $0.index == index }) { return }
            try update(index, table, RowReference(table.name, key), columns)
        }
    }

    private func insert(_ index: Int, _ table: RowTable, _ wanted: [Value]) throws {
        let meant = RowReference(table.name, table.key(of: wanted))
        if let kind = decisions.setAside(index) {
            names[meant] = .setAside
            note(kind, meant, base: nil, stored: nil, incoming: wanted, winner: .stored)
            return
        }
        var row = try resolveReferences(index, table, wanted, changed: nil)
        if let place = table.definition.rowidAlias, case .now(let key)? = names[meant] {
            row[place] = key[0]
            note(
                .renumber, meant, columns: [table.definition.columns[place].name], base: nil, stored: [wanted[place]], incoming: key,
                winner: .incoming)
        }
        let key = table.key(of: row)
        if let stored = try table.row(key) {
            try join(index, table, meant, stored: stored, wanted: row)
            return
        }
        do {
            try table.insert(row)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw refusal(of: index, table, error, isUpdate: false)
        }
        names[meant] = key == meant.key ? nil : .now(key: key)
        try written(index, table, old: nil, new: row, mark: transaction.changes[index].mark)
    }

    /// Two inserts of one key are one row: the insert becomes an update of all its columns without old values.
    private func join(_ index: Int, _ table: RowTable, _ meant: RowReference, stored: [Value], wanted: [Value]) throws {
        let key = table.key(of: stored)
        names[meant] = .now(key: key)
        if case .revived(let position, let changed)? = transaction.changes[index].mark {
            guard layOn.marks.births[RowReference(table.name, key)]?.revives == position else { throw decide(index, .setAside(.insert)) }
            try overwrite(index, table, stored, with: merge(index, table, RowReference(table.name, key), stored: stored, changed))
            return
        }
        let columns = wanted.indices.filter { wanted[$0] != stored[$0] && !table.definition.primaryKey.contains($0) }
            .map { ColumnChange(column: $0, old: .null, new: wanted[$0]) }
        let row = RowReference(table.name, key)
        var new = stored
        for column in columns {
            let mark = layOn.marks.writer(of: row, column: column.column)
            let winner = mark.map(winner(against:)) ?? .incoming
            if winner == .incoming { new[column.column] = column.new }
            note(
                .insert, meant, columns: [table.definition.columns[column.column].name], base: nil, stored: [stored[column.column]],
                incoming: [column.new], winner: winner, mark: mark)
        }
        try overwrite(index, table, stored, with: new)
    }

    // MARK: Updates

    private func update(_ index: Int, _ table: RowTable, _ meant: RowReference, _ columns: [ColumnChange]) throws {
        let fate = try fate(meant)
        let incoming = columns.map(\.new)
        let names = columns.map { table.definition.columns[$0.column].name }
        if let kind = decisions.setAside(index) {
            var stored: [Value]?
            if case .alive(_, let row) = fate { stored = columns.map { row[$0.column] } }
            note(kind, meant, columns: names, base: columns.map(\.old), stored: stored, incoming: incoming, winner: .stored)
            return
        }
        switch fate {
        case .alive(let key, let stored):
            try overwrite(index, table, stored, with: merge(index, table, RowReference(table.name, key), stored: stored, columns))
        case .dead(let tombstone):
            try revive(index, table, meant, tombstone, columns)
        case .setAside, .nothing:
            note(.updateOfDeleted, meant, columns: names, base: columns.map(\.old), stored: nil, incoming: incoming, winner: .stored)
        }
    }

    /// The row comes back whole from its tombstone when the update is later than the delete.
    private func revive(
        _ index: Int, _ table: RowTable, _ meant: RowReference, _ tombstone: Marks.Tombstone, _ columns: [ColumnChange]
    ) throws {
        var row = tombstone.row
        for column in columns { row[column.column] = column.new }
        let key = table.key(of: row)
        var winner = winner(against: tombstone.mark)
        if winner == .incoming, try table.row(key) != nil { winner = .stored }
        note(
            .updateOfDeleted, meant, columns: columns.map { table.definition.columns[$0.column].name }, base: columns.map(\.old),
            stored: nil, incoming: columns.map(\.new), winner: winner, mark: tombstone.mark)
        guard winner == .incoming else { return }
        let resolved = try resolveReferences(index, table, row, changed: nil)
        do {
            try table.insert(resolved)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw decide(index, .setAside(constraintKind(error)))
        }
        names[meant] = key == meant.key ? nil : .now(key: key)
        try written(index, table, old: nil, new: resolved, mark: .revived(tombstone.mark.position, changed: columns))
    }

    private func overwrite(_ index: Int, _ table: RowTable, _ stored: [Value], with new: [Value]) throws {
        guard stored != new else { return }
        do {
            if table.key(of: stored) == table.key(of: new) {
                try table.update(stored, to: new)
            } else {
                let rowid = try table.remove(table.key(of: stored))
                try table.restore(stored, as: new, rowid: rowid)
                noteMove(index, table, to: table.key(of: new))
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw refusal(of: index, table, error, isUpdate: true)
        }
        try written(index, table, old: stored, new: new)
    }

    /// The stored row with the columns of an update that may stand; the others go to the journal.
    private func merge(
        _ index: Int, _ table: RowTable, _ row: RowReference, stored: [Value], _ columns: [ColumnChange]
    ) throws -> [Value] {
        var new = stored
        let decided = decisions.of(index)
        for column in columns {
            let place = column.column
            let wanted = column.new
            guard wanted != stored[place] else { continue }
            var winner = JournalEntry.Side.incoming
            var kind = JournalEntry.Kind.update
            let mark = layOn.marks.writer(of: row, column: place)
            if decided.contains(.dropUnique), table.uniquePlaces.contains(place) {
                (winner, kind) = (.stored, .unique)
            } else if droppedReference(table, decided, place) {
                (winner, kind) = (.stored, .foreignKey)
            } else if let mark {
                winner = self.winner(against: mark)
            }
            if winner == .incoming { new[place] = wanted }
            guard mark != nil || winner == .stored else { continue }
            note(
                kind, row, columns: [table.definition.columns[place].name], base: [column.old], stored: [stored[place]],
                incoming: [wanted], winner: winner, mark: mark)
        }
        let touched = Set(columns.map(\.column))
        return try resolveReferences(index, table, new, changed: touched.filter { new[$0] != stored[$0] })
    }

    private func droppedReference(_ table: RowTable, _ decided: Set<Decisions.Kind>, _ place: Int) -> Bool {
        decided.contains { kind in
            if case .dropReference(let key) = kind { table.references[key].places.contains(place) } else { false }
        }
    }

    // MARK: Shared

    func written(_ index: Int, _ table: RowTable, old: [Value]?, new: [Value], mark: RowMark? = nil) throws {
        rows.record(table, old: old, new: new, mark: mark)
        causes[RowReference(table.name, table.key(of: new))] = index
        if let old {
            try layOn.session.checks.noteChanged(table, old: old, new: new)
        } else {
            try layOn.session.checks.noteNew(table, new)
            layOn.session.noteHighestKey(table, new)
        }
    }

    func winner(against mark: WriteMark) -> JournalEntry.Side {
        LastWriterWins.winner(
            incoming: transaction.info.time.clamped(toReceipt: layOn.relayTime), of: layOn.replica, stored: mark)
    }

    func constraintKind(_ error: DatabaseError) -> JournalEntry.Kind {
        switch error.extendedResultCode {
        case .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID: .unique
        default: .check
        }
    }

    /// A constraint refused a row: an update first gives up its unique columns, then everything.
    private func refusal(of index: Int, _ table: RowTable, _ error: DatabaseError, isUpdate: Bool) -> BrokenTry {
        let kind = constraintKind(error)
        if isUpdate, kind == .unique, !decisions.of(index).contains(.dropUnique) { return decide(index, .dropUnique) }
        return decide(index, .setAside(kind))
    }

    func note(
        _ kind: JournalEntry.Kind, _ row: RowReference, columns: [String] = [], base: [Value]?, stored: [Value]?, incoming: [Value]?,
        winner: JournalEntry.Side, mark: WriteMark? = nil
    ) {
        journal.append(
            JournalEntry(
                kind: kind, table: row.table, key: row.key, columns: columns, policy: policyName(kind), base: base, stored: stored,
                incoming: incoming, winner: winner, storedReplica: mark?.replica, storedTime: mark?.time, storedPosition: mark?.position))
    }

    private func policyName(_ kind: JournalEntry.Kind) -> String {
        switch kind {
        case .update, .updateOfDeleted, .deleteOfUpdated, .insert: "lastWriterWins"
        case .renumber: "renumber"
        case .unique: "keepFirst"
        case .foreignKey, .check: "declared"
        }
    }
}
