package import AnnalsCore

/// The result for one column with a stored and an incoming value.
package enum CellOutcome: Hashable, Sendable {
    /// Both values are equal.
    case unchanged
    case stored
    case incoming
    /// A value that keeps both changes.
    case combined(Value)
}

/// The rule that resolves a conflict of one column, in a rebase and in a save (merge rule 26).
extension ColumnPolicy {
    /// - Parameters:
    ///   - base: the value that the author of the incoming value had seen. nil if the author assumed that the row did
    ///     not exist.
    ///   - isContested: whether another replica wrote the stored value and the author had not seen that.
    ///   - later: the side that wrote later, for policies that decide by time.
    ///   - combine: the result of `MergePolicies.combine`. It is called only for policies that combine.
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
    /// The value that keeps both changes of a column, including `sql:` expressions. nil if there is none.
    ///
    /// - Parameter row: the stored row, in the order of `columns`. nil if there is none.
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
