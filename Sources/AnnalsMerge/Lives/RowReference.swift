public import AnnalsCore

/// One row as a merge calls it: its table and key.
public struct RowReference: Hashable, Sendable {
    public var table: String
    public var key: [Value]

    public init(_ table: String, _ key: [Value]) {
        self.table = table
        self.key = key
    }
}
