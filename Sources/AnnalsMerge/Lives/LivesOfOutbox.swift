/// What became of one row when an outbox transaction was laid on top.
package struct LaidRowNames: Sendable {
    /// The row as it was in the store; nil when it is new.
    package var before: NotedSide?
    /// The row as it is; nil when it is not there.
    package var after: NotedSide?
    /// The life that it continues, when that is known.
    package var life: Lives.ID?
    /// What the transactions after this one call it.
    package var asked: [RowName]
    /// What it became where it is not there.
    package var end: Lives.State

    package init(before: NotedSide?, after: NotedSide?, life: Lives.ID? = nil, asked: [RowName], end: Lives.State = .gone) {
        self.before = before
        self.after = after
        self.life = life
        self.asked = asked
        self.end = end
    }
}

extension Lives {
    /// Notes an outbox transaction as it lies, for those after it (merge rule 23).
    package mutating func lay(_ rows: [LaidRowNames]) {
        let ids = rows.map { row in
            row.life ?? row.before.map { life(of: $0) } ?? begin(Life(state: row.end))
        }
        for (row, id) in zip(rows, ids) {
            if let before = row.before { release(before.names, of: id) }
        }
        for (row, id) in zip(rows, ids) {
            if let after = row.after { take(after, by: id) } else { end(id, as: row.end) }
            call(id, by: row.asked)
        }
    }
}
