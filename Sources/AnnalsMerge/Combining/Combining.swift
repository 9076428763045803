package import AnnalsCore

extension ColumnPolicy {
    /// The value that keeps both changes. nil if there is none; then the later writer wins.
    ///
    /// A side with the same value as `base` changed nothing. `base` is the value that the incoming transaction had
    /// seen, or nil if it assumed that the row did not exist. Policies that choose one side, and `sql:` policies,
    /// return nil here.
    package func combine(base: Value?, stored: Value, incoming: Value) -> Value? {
        guard isCombining else { return nil }
        if let base {
            if stored == base { return incoming }
            if incoming == base { return stored }
        }
        switch self {
        // If both sides added the same amount, the sum must contain it twice. For all other policies equal values are
        // the result.
        case .sum where base != nil: return SumCombiner.combine(base: base, stored: stored, incoming: incoming)
        case .min, .max, .union, .json, .text, .sum: if stored == incoming { return stored }
        case .sql, .lastWriterWins, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump: return nil
        }
        switch self {
        case .sum: return SumCombiner.combine(base: base, stored: stored, incoming: incoming)
        case .min: return ExtremeCombiner.least(stored, incoming)
        case .max: return ExtremeCombiner.greatest(stored, incoming)
        case .union: return UnionCombiner.combine(base: base, stored: stored, incoming: incoming)
        case .json: return JSONCombiner.combine(base: base, stored: stored, incoming: incoming)
        case .text: return TextCombiner.combine(base: base, stored: stored, incoming: incoming)
        case .lastWriterWins, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .sql: return nil
        }
    }

    /// Whether the policy needs the base, stored and incoming values, and not the writer and the time.
    package var isCombining: Bool {
        switch self {
        case .sum, .min, .max, .union, .json, .text, .sql: true
        case .lastWriterWins, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump: false
        }
    }
}
