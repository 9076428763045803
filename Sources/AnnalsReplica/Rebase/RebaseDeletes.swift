import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// Deletes (merge rule 28), and what came with one that is refused (merge rule 31).
extension RebaseAttempt {
    func meetDelete(_ index: Int, _ table: RowTable, _ old: [Value]) throws {
        let key = table.key(of: old)
        switch try fate(of: table.keyName(key), key: key, in: table) {
        case .alive(let row, let life):
            let number = rowNumber(table, row, life, Cause(index))
            verdicts[index].row = number
            if let reason = decisions.setAside(index) ?? refusal(table, rows[number].life) {
                verdicts[index].loss = reason
                return
            }
            rows[number].after = nil
            rows[number].mark = transaction.changes[index].mark
            rows[number].cause = Cause(index)
        case .merged:
            verdicts[index].loss = Reason(kind: .deleteOfUpdated, policy: UniqueRule.mergeRows.rawValue)
        case .dead, .setAside, .nothing:
            // Gone as it was to be: nothing is left of the change.
            return
        }
    }

    /// Why a delete of a row that others changed meanwhile does not stand; nil where it does.
    private func refusal(_ table: RowTable, _ life: RowLineage.ID?) -> Reason? {
        guard let mark = life.flatMap({ lineage[$0].latestWriter }) else { return nil }
        let rule = rules(table).delete
        let isRefused =
            switch rule {
            case .lastWriterWins: winner(against: mark) == .stored
            case .deleteWins: false
            case .updateWins, .manual: true
            }
        return isRefused ? Reason(kind: .deleteOfUpdated, policy: rule.rawValue, mark: mark) : nil
    }

    /// A delete's cascade shares its fate: where the transaction's delete of a parent is refused, so are its deletes by
    /// CASCADE and its SET NULLs that came with it.
    func refuseWhatCameWithRefusedDeletes() throws {
        var refused: [CandidateKey] = []
        for index in verdicts.indices where isRefusedDelete(index) { refused += try oldNames(index) }
        guard !refused.isEmpty else { return }
        let companions = try companions()
        while let name = refused.popLast() {
            for companion in companions[name] ?? [] {
                let index = companion.change
                switch transaction.changes[index].change {
                case .delete where companion.action == .cascade && verdicts[index].loss == nil:
                    guard let number = verdicts[index].row else { continue }
                    verdicts[index].loss = Reason(kind: .foreignKey, policy: Reason.declared)
                    rows[number].after = rows[number].before
                    rows[number].mark = nil
                    refused += try oldNames(index)
                case .update where companion.action != .cascade:
                    for place in companion.places {
                        verdicts[index].losses[place] = Reason(kind: .foreignKey, policy: Reason.declared)
                    }
                default: continue
                }
            }
        }
    }

    /// A change that may have come with the delete of a parent.
    private struct Companion {
        var change: Int
        var action: DeclaredTable.ForeignKeyAction
        var places: [Int]
    }

    private func isRefusedDelete(_ index: Int) -> Bool {
        guard case .delete = transaction.changes[index].change else { return false }
        return verdicts[index].loss != nil
    }

    private func oldNames(_ index: Int) throws -> [CandidateKey] {
        guard case .delete(let old) = transaction.changes[index].change else { return [] }
        return try rebase.table(transaction.changes[index].table).names(of: old)
    }

    /// Deletes and updates that ON DELETE may have brought about, by the name of the parent that the row had.
    private func companions() throws -> [CandidateKey: [Companion]] {
        var companions: [CandidateKey: [Companion]] = [:]
        for (index, change) in transaction.changes.enumerated() {
            let table = try rebase.table(change.table)
            for (number, key) in table.references.enumerated() {
                guard let name = try parentLeft(index, table, number, key) else { continue }
                companions[name, default: []].append(Companion(change: index, action: key.onDelete, places: key.places))
            }
        }
        return companions
    }

    /// The parent that a change takes its row away from, as the declared action would.
    private func parentLeft(_ index: Int, _ table: RowTable, _ number: Int, _ key: ParentReference) throws -> CandidateKey? {
        switch transaction.changes[index].change {
        case .insert: return nil
        case .delete(let old): return table.parentName(number, in: old)
        case .update(_, let columns):
            let changed = Dictionary(columns.map { ($0.column, $0) }, uniquingKeysWith: { first, _ in first })
            guard key.onDelete == .setNull || key.onDelete == .setDefault, let row = verdicts[index].row.flatMap({ rows[$0].before }),
                key.places.contains(where: { changed[$0] != nil })
            else { return nil }
            var old = row
            for place in key.places {
                let column = changed[place]
                guard try (column?.new ?? row[place]) == valueOnDelete(key, table, place) else { return nil }
                old[place] = column?.old ?? row[place]
            }
            return table.parentName(number, in: old)
        }
    }

    /// What SET NULL or SET DEFAULT makes of a column.
    func valueOnDelete(_ key: ParentReference, _ table: RowTable, _ place: Int) throws -> Value {
        key.onDelete == .setDefault ? try session.defaultValue(of: table.definition.columns[place]) : .null
    }
}
