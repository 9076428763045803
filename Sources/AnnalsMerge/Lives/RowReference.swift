package import AnnalsCore

/// One row as a merge calls it: its table and key.
package struct RowReference: Hashable, Sendable {
    package var table: String
    package var key: [Value]

    package init(_ table: String, _ key: [Value]) {
        self.table = table
        self.key = key
    }
}
