extension Duration {
    /// The duration in whole milliseconds. Values out of range become the smallest or largest Int64.
    package var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        let (sum, tooLarge) = product.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return overflow || tooLarge ? (seconds < 0 ? .min : .max) : sum
    }
}
