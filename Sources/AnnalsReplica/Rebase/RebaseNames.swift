import AnnalsCore
import AnnalsMerge
import AnnalsRows

/// What the transactions after this one must know (merge rule 23). Nothing of it outlives the rebase: afterwards the outbox calls
/// rows by the keys they have.
extension RebaseAttempt {
    func noteNames() {
        var rebased: [RebasedRowNames] = []
        for number in rows.indices {
            let row = rows[number]
            if row.asked.isEmpty, let before = row.before, let after = row.after, row.table.haveSameNames(before, after) { continue }
            let before = row.before.map(row.table.side)
            let after = row.after.map(row.table.side)
            guard !row.asked.isEmpty || before?.names != after?.names || before?.key != after?.key else { continue }
            rebased.append(RebasedRowNames(before: before, after: after, life: row.life, asked: row.asked, end: state(of: number)))
        }
        for (name, who) in asked {
            if case .life(let life) = who { rebase.lineage.call(life, by: [name]) }
        }
        rebase.lineage.note(rebased)
    }

    private func state(of number: Int) -> RowLineage.State {
        var number = number
        switch rows[number].end {
        case .gone, .joined: return .gone
        case .setAside: return .setAside
        case .merged: break
        }
        while let target = rows[number].substitute { number = target }
        guard let row = rows[number].before ?? rows[number].after else { return .gone }
        return .merged(into: .life(rows[number].life ?? rebase.lineage.life(of: rows[number].table.side(row))))
    }
}
