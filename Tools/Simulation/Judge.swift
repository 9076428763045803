import AnnalsCore

/// Computes the result of a rebase by lastWriterWins, if no constraint was involved. It implements merge rules 26, 28 and 29
/// independently of the product.
///
/// It judges only rows that both sides updated or deleted. It does not judge rows that moved or were inserted, or rows for which
/// the journal has a constraint. The laws still apply to those, and other checks verify them.
struct Judge {
    /// The author and time of a write.
    private struct Mark: Comparable {
        var milliseconds: Int64
        var counter: UInt32
        var replica: ReplicaID

        /// `limit`: a later time is replaced by this time, so that a clock that is ahead does not always win.
        init(_ time: HybridTime, _ replica: ReplicaID, limit: Int64 = .max) {
            milliseconds = min(time.milliseconds, limit)
            counter = time.milliseconds <= limit ? time.counter : 0
            self.replica = replica
        }

        /// The mark of a change that is older than its transaction.
        func earlier(by age: Change.Age) -> Mark {
            var mark = self
            if age.milliseconds > 0, milliseconds > 0 { (mark.milliseconds, mark.counter) = (max(0, milliseconds - age.milliseconds), 0) }
            return mark
        }

        static func < (left: Mark, right: Mark) -> Bool {
            (left.milliseconds, left.counter, left.replica.high, left.replica.low)
                < (right.milliseconds, right.counter, right.replica.high, right.replica.low)
        }
    }

    /// How far a time may be ahead of the relay's clock.
    private static let lead: Int64 = 60_000

    private struct Name: Hashable {
        var table: String
        var key: [Cell]
    }

    private enum Verdict { case incoming, stored, unsure }

    private let schema: Schema
    private let rebase: Rebase
    private var cells: [Name: [Int: Mark]] = [:]
    private var deaths: [Name: Mark] = [:]
    /// Rows that are not judged.
    private var unclear: Set<Name> = []
    private let lastReceipt: Int64
    /// The pulled changes came from a snapshot, so their authors and times are unknown.
    private let isSnapshot: Bool
    /// Integer keys that were renumbered, by table.
    private var renumbered: [String: [Cell: Cell]] = [:]

    init(schema: Schema, rebase: Rebase) {
        self.schema = schema
        self.rebase = rebase
        lastReceipt = rebase.pulled.map(\.receivedAt).max() ?? 0
        isSnapshot = rebase.pulled.contains(where: \.isSnapshot)
        for entry in rebase.pulled { note(entry) }
        // If another copy of the file pushed a transaction, its keys in the log may differ from its keys here.
        for body in rebase.known.values { for change in body.changes { noteArrival(change) } }
    }

    private mutating func note(_ entry: Oracle.Entry) {
        let latest = Mark(entry.info.time, entry.replica, limit: entry.receivedAt + Self.lead)
        for change in entry.changes {
            let mark = latest.earlier(by: change.age)
            guard let table = schema.table(change.table) else { continue }
            switch change.kind {
            case .insert(let row):
                unclear.insert(Name(table: table.name, key: table.key(of: row)))
            case .delete(let row):
                let name = Name(table: table.name, key: table.key(of: row))
                // A row that was set aside is not restored (merge rule 22).
                if deaths.updateValue(mark, forKey: name) != nil || change.isSetAside { unclear.insert(name) }
            case .update(let key, let updates):
                let name = name(table, key)
                for update in updates {
                    cells[name, default: [:]][update.column] = mark
                }
                unclear.formUnion(moves(table, key, updates))
            }
        }
    }

    mutating func run() throws(Violation) {
        var rows = rebase.start
        for rewrite in rebase.rewrites {
            let before = rows
            try rows.apply(rewrite.changes, schema)
            // If the author replaced a row by another one, the key refers to two rows.
            for change in rewrite.before.changes { noteArrival(change) }
            for change in rewrite.before.changes { forgetRenumbering(change) }
            for line in rewrite.journal where line.kind == .renumber { noteRenumbering(line) }
            for change in rewrite.before.changes where rewrite.isExact { try judgeReferences(of: change, rewrite) }
            if rewrite.isExact, !isOneForAll(rewrite) {
                for change in rewrite.before.changes { try judge(change, rewrite, before, rows) }
            }
            for change in rewrite.before.changes + rewrite.changes { noteOwn(change) }
        }
    }

    private func judge(_ change: Change, _ rewrite: Rebase.Rewrite, _ before: Rows, _ after: Rows) throws(Violation) {
        guard let table = schema.table(change.table) else { return }
        switch change.kind {
        case .insert: return
        case .update(let key, let updates):
            let name = name(table, key)
            guard !unclear.contains(name), !isConstrained(table, key, rewrite) else { return }
            if updates.contains(where: { table.key.contains($0.column) }) { return }
            if deaths[name] == nil, let stored = before.row(table, key) {
                for update in updates { try judge(update, name, table, stored, after.row(table, key), change, rewrite) }
            } else if let death = deaths[name], before.row(table, key) == nil {
                try judgeRevival(death, after.row(table, key), change, rewrite)
            }
        case .delete(let row):
            let name = Name(table: table.name, key: table.key(of: row))
            guard !unclear.contains(name), deaths[name] == nil, let stored = before.rows(of: table.name)[name.key] else { return }
            guard !isConstrained(table, table.key.map { row[$0] }, rewrite) else { return }
            try judgeDelete(name, row, stored, isThere: after.rows(of: table.name)[name.key] != nil, change, rewrite)
        }
    }

    /// Merge rule 26: the later writer wins a column.
    private func judge(
        _ update: Change.Update, _ name: Name, _ table: Table, _ stored: [Cell], _ after: [Cell]?, _ change: Change,
        _ rewrite: Rebase.Rewrite
    ) throws(Violation) {
        // References follow their parents.
        guard !table.references.contains(where: { $0.columns.contains(update.column) }),
            let expected = expected(update, name, table, stored[update.column], change, rewrite)
        else { return }
        guard after?[update.column] != expected else { return }
        throw Violation(
            "merge rule 26",
            "\(change.text): \(table.columns[update.column].name) must be \(expected.literal) and is "
                + "\(after.map { $0[update.column].literal } ?? "gone"); \(rewrite.text)")
    }

    /// The value that the column must have by its policy; nil if it is not judged.
    private func expected(
        _ update: Change.Update, _ name: Name, _ table: Table, _ stored: Cell, _ change: Change, _ rewrite: Rebase.Rewrite
    ) -> Cell? {
        let rules = rebase.policies.rules(table.name)
        let mark = cells[name]?[update.column]
        if let row = rules.row, cells[name] != nil { return row == "overwrite" ? update.new : stored }
        let policy = rules.policy(of: table.columns[update.column].name)
        if rebase.policies.combines(table, update.column), update.old != stored {
            guard let old = update.old.integer, let stored = stored.integer, let new = update.new.integer else { return nil }
            switch policy {
            case "sum": return .integer(stored + (new - old))
            case "min": return .integer(min(stored, new))
            case "max": return .integer(max(stored, new))
            default: return nil
            }
        }
        guard let mark else { return update.new }
        switch policy {
        case "mergeByPropertyStoreTrump": return stored
        case "mergeByPropertyObjectTrump": return update.new
        default:
            switch verdict(change, rewrite, against: mark) {
            case .incoming: return update.new
            case .stored: return stored
            case .unsure: return nil
            }
        }
    }

    /// The result of the table's delete rule. If the rule compares times, the later writer wins.
    private func deleteVerdict(_ change: Change, _ rewrite: Rebase.Rewrite, isDelete: Bool, against mark: Mark?) -> Verdict {
        let rules = rebase.policies.rules(change.table)
        guard let mark else { return .incoming }
        if rules.row != nil { return .unsure }
        switch rules.delete {
        case "deleteWins": return isDelete ? .incoming : .stored
        case "updateWins": return isDelete ? .stored : .incoming
        case "manual": return .unsure
        default: return verdict(change, rewrite, against: mark)
        }
    }

    /// Merge rule 28: a delete against updates is decided by the latest update.
    private func judgeDelete(
        _ name: Name, _ wanted: [Cell], _ stored: [Cell], isThere: Bool, _ change: Change, _ rewrite: Rebase.Rewrite
    ) throws(Violation) {
        let verdict = deleteVerdict(change, rewrite, isDelete: true, against: cells[name]?.values.max())
        // If the marks did not change the row, there is no conflict.
        if verdict == .unsure || (verdict == .stored && wanted == stored) || isThere == (verdict == .stored) { return }
        throw Violation("merge rule 28", "\(change.text): the row must be \(verdict == .stored ? "there" : "gone"); \(rewrite.text)")
    }

    /// Merge rule 29: an update against a delete is won by the later one.
    private func judgeRevival(_ death: Mark, _ after: [Cell]?, _ change: Change, _ rewrite: Rebase.Rewrite) throws(Violation) {
        // A row whose parent is also deleted may not be restored.
        if after == nil, schema.table(change.table)?.references.isEmpty == false { return }
        let verdict = deleteVerdict(change, rewrite, isDelete: false, against: death)
        if verdict == .unsure || (after != nil) == (verdict == .incoming) { return }
        throw Violation("merge rule 29", "\(change.text): the row must be \(verdict == .stored ? "gone" : "back"); \(rewrite.text)")
    }

    // MARK: Renumbered rows

    private mutating func noteRenumbering(_ line: JournalEntry) {
        guard let asked = line.key.first, let given = line.incoming?.first, line.winner == .incoming else { return }
        renumbered[line.table, default: [:]][Cell(asked)] = Cell(given)
    }

    /// From here on the author may use the key for another row.
    private mutating func forgetRenumbering(_ change: Change) {
        guard let table = schema.table(change.table), renumbered[table.name] != nil, let columnIndex = table.key.first else { return }
        switch change.kind {
        case .insert(let row), .delete(let row): renumbered[table.name]?[row[columnIndex]] = nil
        case .update(let key, let updates):
            guard let update = updates.first(where: { $0.column == columnIndex }) else { return }
            renumbered[table.name]?[key[0]] = nil
            renumbered[table.name]?[update.new] = nil
        }
    }

    /// Merge rule 25: a reference to a renumbered row follows that row, and does not point to the row that has its old number.
    private func judgeReferences(of change: Change, _ rewrite: Rebase.Rewrite) throws(Violation) {
        guard let table = schema.table(change.table), case .insert(let row) = change.kind else { return }
        let plain = table.columns.indices.filter { columnIndex in
            !table.key.contains(columnIndex) && !table.references.contains { $0.columns.contains(columnIndex) }
        }
        for reference in table.references where reference.columns.count == 1 {
            let columnIndex = reference.columns[0]
            guard let now = renumbered[reference.parent]?[row[columnIndex]], now != row[columnIndex] else { continue }
            for done in rewrite.changes {
                guard done.table == table.name, case .insert(let laid) = done.kind, laid[columnIndex] == row[columnIndex] else { continue }
                guard plain.allSatisfy({ laid[$0] == row[$0] }), !rewrite.journal.contains(where: { $0.kind == .foreignKey }) else {
                    continue
                }
                throw Violation(
                    "merge rule 25",
                    "\(change.text): \(reference.parent) \(row[columnIndex].literal) is \(now.literal) now; \(rewrite.text)")
            }
        }
    }

    // MARK: Which write is later

    private func verdict(_ change: Change, _ rewrite: Rebase.Rewrite, against mark: Mark) -> Verdict {
        if isSnapshot { return .unsure }
        // The relay's time in the answer is unknown here, but it is after the last receipt.
        let early = Mark(rewrite.before.info.time, rebase.replica, limit: lastReceipt + Self.lead).earlier(by: change.age) > mark
        let late = Mark(rewrite.before.info.time, rebase.replica).earlier(by: change.age) > mark
        return early != late ? .unsure : early ? .incoming : .stored
    }

    // MARK: Cases that are not judged

    /// Whether the results of rows may depend on each other: in tables that are decided as a whole, and if rows replace other rows.
    private func isOneForAll(_ rewrite: Rebase.Rewrite) -> Bool {
        schema.tables.contains { table in
            let rules = rebase.policies.rules(table.name)
            if rules.isWhole { return !rewrite.journal.isEmpty }
            return rules.unique != "keepFirst" && rewrite.journal.contains { $0.kind == .unique }
        }
    }

    /// Whether a constraint or a reference was involved in the row's result.
    private func isConstrained(_ table: Table, _ key: [Cell], _ rewrite: Rebase.Rewrite) -> Bool {
        rewrite.journal.contains { line in
            guard [.unique, .foreignKey, .check, .renumber, .insert].contains(line.kind) else { return false }
            return line.table == table.name && name(table, line.key.map { Cell($0) }) == name(table, key) || line.kind == .foreignKey
        }
    }

    private mutating func noteArrival(_ change: Change) {
        guard let table = schema.table(change.table) else { return }
        switch change.kind {
        case .insert(let row): unclear.insert(Name(table: table.name, key: table.key(of: row)))
        case .update(let key, let updates): unclear.formUnion(moves(table, key, updates))
        case .delete: return
        }
    }

    /// The keys that a move leaves and takes; empty if the change is not a move.
    private func moves(_ table: Table, _ key: [Cell], _ updates: [Change.Update]) -> Set<Name> {
        var moved = key
        for update in updates { if let part = table.key.firstIndex(of: update.column) { moved[part] = update.new } }
        return moved == key ? [] : [name(table, key), name(table, moved)]
    }

    /// A later transaction refers to the result of this one.
    private mutating func noteOwn(_ change: Change) {
        guard let table = schema.table(change.table) else { return }
        switch change.kind {
        case .insert(let row), .delete(let row): unclear.insert(Name(table: table.name, key: table.key(of: row)))
        case .update(let key, let updates): unclear.formUnion(moves(table, key, updates))
        }
    }

    private func name(_ table: Table, _ key: [Cell]) -> Name {
        Name(table: table.name, key: zip(table.key, key).map { table.columns[$0].collation.folded($1) })
    }
}
