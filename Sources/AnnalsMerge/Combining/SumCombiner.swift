package import AnnalsCore

/// Adds the incoming difference to the stored value. So a counter contains the changes of both sides.
///
/// Integers stay integers. The values cannot be combined if the sum overflows or is not finite, or if a value is not a
/// number. A change without a base cannot be combined either, because the addition would count a copy twice.
package enum SumCombiner {
    package static func combine(base: Value?, stored: Value, incoming: Value) -> Value? {
        guard let base else { return nil }
        if case .integer(let base) = base, case .integer(let stored) = stored, case .integer(let incoming) = incoming {
            return sum(base, stored, incoming)
        }
        guard let base = number(base), let stored = number(stored), let incoming = number(incoming) else { return nil }
        let sum = stored + (incoming - base)
        return sum.isFinite ? .real(sum) : nil
    }

    /// The sum may fit in an Int64 even if the difference does not.
    private static func sum(_ base: Int64, _ stored: Int64, _ incoming: Int64) -> Value? {
        let (difference, differenceOverflows) = incoming.subtractingReportingOverflow(base)
        if !differenceOverflows {
            let (sum, overflows) = stored.addingReportingOverflow(difference)
            return overflows ? nil : .integer(sum)
        }
        let (offset, offsetOverflows) = stored.subtractingReportingOverflow(base)
        guard !offsetOverflows else { return nil }
        let (sum, overflows) = offset.addingReportingOverflow(incoming)
        return overflows ? nil : .integer(sum)
    }

    private static func number(_ value: Value) -> Double? {
        switch value {
        case .integer(let integer): Double(integer)
        case .real(let real): real.isFinite ? real : nil
        case .null, .text, .blob: nil
        }
    }
}
