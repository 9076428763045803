import AnnalsCore
import AnnalsSQLite

/// Points in time as text: ISO 8601 in UTC with milliseconds, as in `2024-02-29T23:59:59.001Z`.
enum Timestamp {
    /// - Parameter milliseconds: since 1970-01-01 UTC.
    static func text(_ milliseconds: Int64) -> String { ISODate.text(milliseconds: milliseconds) }

    static func text(_ time: HybridTime) -> String { text(time.milliseconds) }
}
