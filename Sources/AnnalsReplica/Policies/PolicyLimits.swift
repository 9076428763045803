/// Named bounds of policies.
enum PolicyLimits {
    /// Virtual machine instructions of one evaluation of an `sql:` policy.
    static let expressionSteps = 1_000_000
    /// Bytes of what it gives.
    static let expressionResultBytes = 64 << 20
}
