import AnnalsCore

/// A receiver's report to the relay about an entry that it cannot apply, as JSON.
package struct EntryReportRequest: Codable, Sendable, Hashable {
    package static let members: Set = ["position", "digest", "rule", "table"]
    /// The largest number of characters of a table's name. SQLite itself has no limit.
    package static let tableCharacters = 128

    package var position: Int64
    /// The digest of the entry, hexadecimal.
    package var digest: String
    /// A `RefusedEntry.Rule`.
    package var rule: String
    /// nil for a sealed space, because its relay must not learn names.
    package var table: String?

    package init(position: Int64, digest: String, rule: String, table: String? = nil) {
        self.position = position
        self.digest = digest
        self.rule = rule
        self.table = table
    }
}
