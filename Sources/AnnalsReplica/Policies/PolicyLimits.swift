/// Limits of policies.
enum PolicyLimits {
    /// Virtual machine instructions of one evaluation of an `sql:` policy.
    static let expressionSteps = 1_000_000
    /// Bytes of its result.
    static let expressionResultBytes = 64 << 20
}
