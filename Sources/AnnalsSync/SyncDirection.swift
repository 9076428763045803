/// What to do if the relay was restored from a backup and has a shorter log or another one.
public enum RestoredRelay: Sendable {
    /// Nothing is exchanged, and an error reports it.
    case refuse
    /// The entries that the relay lost are sent again from the log that the store keeps. Each transaction is recorded
    /// once, whichever replica sends it.
    case follow
}

/// The direction of an exchange.
public enum SyncDirection: Sendable {
    case both, pushOnly, pullOnly

    var exchange: Exchange.Direction {
        switch self {
        case .both: .both
        case .pushOnly: .pushOnly
        case .pullOnly: .pullOnly
        }
    }
}
