import AnnalsWire

/// Limits of this module, each with its reason.
package enum SchemaLimits {
    /// The length above which history does not store again a value that an update did not change: characters of a text, bytes of a
    /// blob. Most values are shorter, and writing them costs less than looking them up later.
    package static let largeValue = 1_000

    /// The length above which an update marks a text that it did not change, instead of storing it again: in characters. A mark makes the
    /// update trigger longer, for every program that opens the file.
    package static let longText = 8

    /// The size of the cache of defaults of added columns, as SQLite converts them.
    static let defaultsKnown = 1_000

    /// The longest value that rows older than a column may have, in bytes. It is a part of the space's schema; see `FilledColumns`.
    static let filledBytes = 1_000
    /// The decisions about undeclared references in one space, and the bytes of one condition. Other replicas send them.
    package static let references = 1_000
    package static let conditionBytes = 4_000

    /// The range of a time, a sequence number or a number in `annals_meta`. SQLite's schema version may be negative.
    package static let facts: ClosedRange<Int64> = -WireLimits.maximumMilliseconds...WireLimits.maximumMilliseconds

    /// The range of a log position or a counter. The store keeps such numbers as the relay sends them.
    package static let positions: ClosedRange<Int64> = 0...WireLimits.maximumPosition
}
