package import AnnalsCore

/// A reference to one row in a merge: its table and primary key.
package struct RowReference: Hashable, Sendable {
    package var table: String
    package var key: [Value]

    package init(_ table: String, _ key: [Value]) {
        self.table = table
        self.key = key
    }
}
