public import AnnalsStore

/// What a batch request is to tell.
public enum BatchResultType: Sendable {
    /// How many rows it changed.
    case count
    /// Which rows as well; they are held in memory, some hundred bytes each.
    case identifiers
}

/// What a batch request did.
public struct BatchResult: Sendable, Hashable {
    /// Rows inserted, updated or deleted. An upsert that would write what is there already does nothing, and is not counted.
    public var count = 0
    /// The rows, in the order in which they were written; empty unless asked for. A deleted row's is what it was called.
    public var identifiers: [PersistentIdentifier] = []
    /// Where history stands after it; nil where nothing tracked was changed.
    public var token: HistoryToken?
}
