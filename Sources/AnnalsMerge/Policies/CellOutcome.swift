package import AnnalsCore

/// What becomes of one column for which there is a stored value and one that is asked for.
package enum CellOutcome: Hashable, Sendable {
    /// Both are the same.
    case unchanged
    case stored
    case incoming
    /// A value in which both changes are kept.
    case combined(Value)
}

/// The one rule by which a column is settled, in a rebase and in a save (merge rule 27).
extension ColumnPolicy {
    /// - Parameters:
    ///   - base: what the author of the incoming value had seen; nil where it believed that there was no row.
    ///   - isContested: somebody else wrote the stored value, and the author had not seen that.
    ///   - later: which side wrote later, for policies that go by time.
    ///   - combine: what `MergePolicies.combine` gives; asked only of policies that combine.
    package func settle(
        base: Value?, stored: Value, incoming: Value, isContested: Bool, later: () -> JournalEntry.Side, combine: () throws -> Value?
    ) rethrows -> CellOutcome {
        if isCombining, base != stored, let combined = try combine() { return .combined(combined) }
        guard incoming != stored else { return .unchanged }
        guard isContested else { return .incoming }
        switch self {
        case .mergeByPropertyStoreTrump: return .stored
        case .mergeByPropertyObjectTrump: return .incoming
        default: return later() == .stored ? .stored : .incoming
        }
    }
}

extension MergePolicies {
    /// The value in which both changes of a column are kept, `sql:` expressions included; nil when there is none.
    ///
    /// - Parameter row: the stored row, in the order of `columns`; nil where there is none.
    package func combine(
        _ policy: ColumnPolicy, base: Value?, stored: Value, incoming: Value, table: String, column: Int, columns: [String], row: [Value]?
    ) throws -> Value? {
        if let combined = policy.combine(base: base, stored: stored, incoming: incoming) { return combined }
        guard case .sql(let expression) = policy, let evaluate, let row else { return nil }
        return try evaluate(
            expression,
            SQLConflict(
                table: table, column: columns[column], base: base, stored: stored, incoming: incoming,
                row: Dictionary(zip(columns, row), uniquingKeysWith: { $1 })))
    }
}
