import AnnalsWire

/// Bounds of this module, each with its reason.
package enum SchemaLimits {
    /// The length beyond which history does not keep a value again that an update left as it was: characters of a text, bytes of a
    /// blob. Most values are shorter and cost less to write than to look for later.
    package static let largeValue = 1_000

    /// Defaults of added columns that are remembered as SQLite converts them.
    static let defaultsKnown = 1_000

    /// What can be a moment, a place before others, or a number among the facts of `annals_meta`: SQLite's own count of schema changes
    /// may be negative.
    package static let facts: ClosedRange<Int64> = -WireLimits.maximumMilliseconds...WireLimits.maximumMilliseconds

    /// What can be a place in the log, or a counter in it: what a relay says is kept.
    package static let positions: ClosedRange<Int64> = 0...WireLimits.maximumPosition
}
