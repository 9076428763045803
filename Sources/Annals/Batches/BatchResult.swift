import AnnalsStore

/// What the result of a batch request contains.
public enum BatchResultType: Sendable {
    /// The number of changed rows.
    case count
    /// Also the identifiers of the rows. They are held in memory, some hundred bytes each.
    case identifiers
}

/// What a batch request did.
public struct BatchResult: Sendable, Hashable {
    /// Rows inserted, updated or deleted. An upsert that would write the stored values does nothing and is not counted. An update with
    /// the result type `count` counts each row that the request selects, also if it has the values already.
    public var count = 0
    /// The rows in the order in which they were written; empty unless requested. A deleted row has its last identifier.
    public var identifiers: [PersistentIdentifier] = []
    /// The point of history after the request; nil if no tracked row was changed.
    public var token: HistoryToken?
}
