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

    /// The changes of columns that the space sums, in a conflict whose stored side stays. A constraint refused one of the sums, or another
    /// change of the transaction was the reason.
    package static func all(_ entry: JournalEntry, isSummed: (_ column: String) -> Bool) -> [RefusedSum] {
        guard let base = entry.base, let stored = entry.stored, let incoming = entry.incoming,
            [base, stored, incoming].allSatisfy({ $0.count == entry.columns.count })
        else { return [] }
        return entry.columns.indices.compactMap { index in
            isSummed(entry.columns[index]) ? of(entry.columns[index], base[index], stored[index], incoming[index]) : nil
        }
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
