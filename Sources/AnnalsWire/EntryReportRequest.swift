import AnnalsCore

/// What a receiver tells the relay of an entry that it cannot apply, as JSON.
package struct EntryReportRequest: Codable, Sendable, Hashable {
    package static let members: Set = ["position", "digest", "rule", "table"]
    /// Characters of a table's name; SQLite itself has no bound.
    package static let tableCharacters = 128

    package var position: Int64
    /// Of the entry, hexadecimal.
    package var digest: String
    /// A `RefusedEntry.Rule`.
    package var rule: String
    /// Left out for a sealed space: its relay learns no names.
    package var table: String?

    package init(position: Int64, digest: String, rule: String, table: String? = nil) {
        self.position = position
        self.digest = digest
        self.rule = rule
        self.table = table
    }
}
