import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// What a transaction carries from earlier rebases (merge rule 34): of what others lost to it, that which they have again is dropped.
extension RebaseAttempt {
    func isTakenBack(_ entry: JournalEntry) throws -> Bool {
        guard entry.winner == .incoming, entry.kind != .renumber else { return false }
        let table = try rebase.session.table(first: entry.table)
        guard entry.key.count == table.definition.primaryKey.count else { return false }
        guard case .alive(let row, _) = try fate(of: table.keyName(entry.key), key: entry.key, in: table) else {
            // A delete that was overruled, and stands after all.
            return entry.stored == nil
        }
        guard let loser = entry.stored else { return false }
        if entry.columns.isEmpty { return row == loser }
        return zip(entry.columns, loser).allSatisfy { name, value in
            table.first.place(of: name).map { row[$0] == value } ?? false
        }
    }
}
