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
        let sums = entry.columns.indices.compactMap { index in
            base[index] == stored[index] ? nil : Self.of(entry.columns[index], base[index], stored[index], incoming[index])
        }
        guard let only = sums.first, sums.count == 1 else { return nil }
        self = only
    }

    /// The change of a column that the space sums; nil if the incoming side did not change it. Another change of the transaction
    /// may have been the reason why it was not applied.
    package init?(_ entry: JournalEntry, column: String) {
        guard let base = entry.base, let stored = entry.stored, let incoming = entry.incoming,
            let index = entry.columns.firstIndex(of: column), [base, stored, incoming].allSatisfy({ index < $0.count }),
            let sum = Self.of(column, base[index], stored[index], incoming[index])
        else { return nil }
        self = sum
    }

    private static func of(_ column: String, _ base: Value, _ stored: Value, _ incoming: Value) -> RefusedSum? {
        guard base != incoming else { return nil }
        let change = SumCombiner.combine(base: base, stored: .integer(0), incoming: incoming)
        let sum = SumCombiner.combine(base: base, stored: stored, incoming: incoming)
        guard let change, let sum else { return nil }
        return RefusedSum(column: column, change: change, sum: sum)
    }

    private init(column: String, change: Value, sum: Value) {
        (self.column, self.change, self.sum) = (column, change, sum)
    }
}
