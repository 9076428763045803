/// The limits of merging. A value above a limit of combining cannot be combined, and the later writer wins.
enum MergeLimits {
    /// The nesting depth of arrays and objects.
    static let jsonDepth = 200
    /// The size of one JSON text or text, in bytes.
    static let combinedBytes = 4 << 20
    /// The number of different lines, after the common beginning and end. The time for the shortest difference grows
    /// with the product of both numbers.
    static let differingLines = 5_000

    /// How often a row that was merged into another may have been merged into a third.
    static let mergedRowsFollowed = 64
    /// Integer keys that are tried for one row if the counted ones are used up, of 2⁶².
    static let scatteredKeys = 100
}
