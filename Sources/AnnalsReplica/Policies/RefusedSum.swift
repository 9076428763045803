package import AnnalsCore
import AnnalsMerge

/// A sum of both sides' changes that a constraint refused. The journal entry has the values of both sides, and not the sum.
package struct RefusedSum: Hashable, Sendable {
    package let column: String
    /// The incoming change of the column: a difference, not a value for the row.
    package let change: Value
    /// The refused value.
    package let sum: Value

    package var changeText: String {
        switch change {
        case .integer(let integer): "\(integer)"
        case .real(let real): "\(real)"
        case .null, .text, .blob: ""
        }
    }

    /// nil for any other conflict, and if more than one column can be the one with the policy.
    package init?(_ entry: JournalEntry) {
        guard entry.kind == .check, entry.policy == "sum", let base = entry.base, let stored = entry.stored, let incoming = entry.incoming,
            entry.columns.count == base.count, base.count == stored.count, base.count == incoming.count
        else { return nil }
        let sums = entry.columns.indices.compactMap { index -> RefusedSum? in
            guard base[index] != incoming[index], base[index] != stored[index] else { return nil }
            let change = SumCombiner.combine(base: base[index], stored: .integer(0), incoming: incoming[index])
            let sum = SumCombiner.combine(base: base[index], stored: stored[index], incoming: incoming[index])
            guard let change, let sum else { return nil }
            return RefusedSum(column: entry.columns[index], change: change, sum: sum)
        }
        guard let only = sums.first, sums.count == 1 else { return nil }
        self = only
    }

    private init(column: String, change: Value, sum: Value) {
        (self.column, self.change, self.sum) = (column, change, sum)
    }
}
