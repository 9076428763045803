import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// The form of a journal's entries: they travel, so they speak first names.
extension RebaseAttempt {
    /// Columns in dispute are told one by one, so that each can be taken back; what was lost together stays together.
    func groups<Column>(_ columns: [Column], by reason: (Column) -> Reason) -> [(Reason, [Column])] {
        var groups: [(Reason, [Column])] = []
        for column in columns {
            let reason = reason(column)
            let isSingle = reason.kind == .update || reason.kind == .insert
            if !isSingle, let place = groups.firstIndex(where: { $0.0 == reason }) {
                groups[place].1.append(column)
            } else {
                groups.append((reason, [column]))
            }
        }
        return groups
    }

    package func entry(
        _ reason: Reason, _ table: RowTable, _ key: [Value], columns: [Int] = [], base: [Value]? = nil, stored: [Value]? = nil,
        incoming: [Value]? = nil, winner: JournalEntry.Side
    ) -> JournalEntry {
        JournalEntry(
            kind: reason.kind, table: table.first.name, key: key, columns: columns.map { table.first.columns[$0].name },
            policy: reason.policy, base: base, stored: stored, incoming: incoming, winner: winner, storedReplica: reason.mark?.replica,
            storedTime: reason.mark?.time, storedPosition: reason.mark?.position)
    }
}
