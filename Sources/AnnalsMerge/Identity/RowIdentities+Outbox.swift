/// The result for one row when an outbox transaction was rebased.
package struct RebasedRowNames: Sendable {
    /// The row as it was stored before. nil if the row is new.
    package var before: RowImage?
    /// The row as it is stored now. nil if it does not exist.
    package var after: RowImage?
    /// The identity that it continues, if it is known.
    package var rowID: RowIdentities.ID?
    /// The keys that later transactions use for it.
    package var asked: [CandidateKey]
    /// The state of the row if it does not exist.
    package var end: RowIdentities.State

    package init(
        before: RowImage?, after: RowImage?, rowID: RowIdentities.ID? = nil, asked: [CandidateKey], end: RowIdentities.State = .gone
    ) {
        self.before = before
        self.after = after
        self.rowID = rowID
        self.asked = asked
        self.end = end
    }
}

extension RowIdentities {
    /// Adds an outbox transaction after it was rebased, for the transactions after it (merge rule 23).
    package mutating func note(_ rows: [RebasedRowNames]) {
        let ids = rows.map { row in
            row.rowID ?? row.before.map { rowID(of: $0) } ?? begin(Row(state: row.end))
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
