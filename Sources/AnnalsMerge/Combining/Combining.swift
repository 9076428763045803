package import AnnalsCore

extension ColumnPolicy {
    /// The value in which both changes are kept, or nil when there is none: then the later writer wins.
    ///
    /// A side that left the value as it was changes nothing. `base` is what the incoming transaction had seen, nil where it believed that there was no row. Policies that choose
    /// one side and those of SQL combine nothing here.
    package func combine(base: Value?, stored: Value, incoming: Value) -> Value? {
        guard isCombining else { return nil }
        if let base {
            if stored == base { return incoming }
            if incoming == base { return stored }
        }
        switch self {
        // Two sides that counted up by the same have counted up by twice that; all others agree when their values do.
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

    /// Whether the policy looks at base, stored and incoming rather than at who wrote, and when.
    package var isCombining: Bool {
        switch self {
        case .sum, .min, .max, .union, .json, .text, .sql: true
        case .lastWriterWins, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump: false
        }
    }
}
