/// Named bounds of combining values. What exceeds one is not combinable, and the later writer wins.
enum MergeLimits {
    /// Arrays and objects within each other.
    static let jsonDepth = 200
    /// Bytes of one JSON text or text that is merged.
    static let combinedBytes = 4 << 20
    /// Lines that differ, after the common beginning and end: finding the shortest difference takes time with their product.
    static let differingLines = 5_000
}
