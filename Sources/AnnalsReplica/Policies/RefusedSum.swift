package import AnnalsCore

/// A sum of both sides' changes that a constraint refused. The journal entry has the values of both sides, and not the sum.
package struct RefusedSum: Hashable, Sendable {
    package let column: String
    /// The incoming change of the column: a difference, not a value for the row.
    package let change: Value
    /// The refused value.
    package let sum: Value

    package var changeText: String {
        if case .integer(let integer) = change { "\(integer)" } else { "\(change.number ?? 0)" }
    }

    /// nil for any other conflict, and if more than one column can be the one with the policy.
    package init?(_ entry: JournalEntry) {
        guard entry.kind == .check, entry.policy == "sum", let base = entry.base, let stored = entry.stored, let incoming = entry.incoming,
            entry.columns.count == base.count, base.count == stored.count, base.count == incoming.count
        else { return nil }
        let columns = entry.columns.indices.filter { index in
            base[index].number != nil && base[index] != incoming[index] && base[index] != stored[index]
        }
        guard let index = columns.first, columns.count == 1 else { return nil }
        self.init(entry.columns[index], base: base[index], stored: stored[index], incoming: incoming[index])
    }

    private init?(_ column: String, base: Value, stored: Value, incoming: Value) {
        self.column = column
        if case .integer(let base) = base, case .integer(let stored) = stored, case .integer(let incoming) = incoming {
            let (change, isTooLarge) = incoming.subtractingReportingOverflow(base)
            let (sum, overflows) = stored.addingReportingOverflow(change)
            guard !isTooLarge, !overflows else { return nil }
            (self.change, self.sum) = (.integer(change), .integer(sum))
        } else {
            guard let base = base.number, let stored = stored.number, let incoming = incoming.number else { return nil }
            (change, sum) = (.real(incoming - base), .real(stored + incoming - base))
        }
    }
}

extension Value {
    fileprivate var number: Double? {
        switch self {
        case .integer(let integer): Double(integer)
        case .real(let real): real
        case .null, .text, .blob: nil
        }
    }
}
