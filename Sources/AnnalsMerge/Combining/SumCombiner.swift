import AnnalsCore

/// Adds the incoming difference to what is stored, so that a counter both sides moved has moved by both.
///
/// Integers stay integers. What overflows, is not finite or is no number is not combinable; neither is a change without
/// a base, because adding would count a copy twice.
enum SumCombiner {
    static func combine(base: Value?, stored: Value, incoming: Value) -> Value? {
        guard let base else { return nil }
        if case .integer(let base) = base, case .integer(let stored) = stored, case .integer(let incoming) = incoming {
            return sum(base, stored, incoming)
        }
        guard let base = number(base), let stored = number(stored), let incoming = number(incoming) else { return nil }
        let sum = stored + (incoming - base)
        return sum.isFinite ? .real(sum) : nil
    }

    /// The sum may fit where the difference alone does not.
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
