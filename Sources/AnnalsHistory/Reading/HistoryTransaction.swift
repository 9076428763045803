public import AnnalsCore
public import Foundation

/// A transaction of history. Its changes are read separately, because there may be many.
public struct HistoryTransaction: Identifiable, Hashable, Sendable {
    /// The source of a transaction.
    public enum Origin: Hashable, Sendable {
        /// `Store.write` and similar methods.
        case local
        /// Another program's commits between two recordings.
        case external
        /// A schema change.
        case migration
        /// A transaction of another replica, applied at its position in the space.
        case imported(replica: ReplicaID, position: Position)
        /// This replica's own transactions, undone or repeated in a rebase.
        case rebase

        /// The word that `annals history` prints and accepts.
        public var name: String {
            switch self {
            case .local: "local"
            case .external: "external"
            case .migration: "migration"
            case .imported: "imported"
            case .rebase: "rebase"
            }
        }
    }

    /// Its number in this store's order: 1, 2, 3, …
    public var number: Int64
    /// The transaction's identity, which is the same on every replica.
    public var id: TransactionID
    /// The point directly after it.
    public var token: HistoryToken
    /// The time of its author's commit by the author's clock, in milliseconds.
    public var timestamp: Date
    public var author: String?
    public var contextName: String?
    /// The name of the process that recorded it in this store.
    public var process: String?
    public var origin: Origin
    /// Names of the tables that it changed.
    public var tables: [String]
}

/// The origins that a request selects.
public struct HistoryOriginFilter: OptionSet, Hashable, Sendable {
    public let rawValue: Int

    public init(rawValue: Int) {
        self.rawValue = rawValue
    }

    public static let local = Self(rawValue: 1 << TransactionOrigin.local.rawValue | 1 << TransactionOrigin.undo.rawValue)
    public static let external = Self(rawValue: 1 << TransactionOrigin.external.rawValue)
    public static let migration = Self(rawValue: 1 << TransactionOrigin.migration.rawValue)
    public static let imported = Self(rawValue: 1 << TransactionOrigin.imported.rawValue)
    public static let rebase = Self(rawValue: 1 << TransactionOrigin.rebase.rawValue)

    /// The filter for the word `local`, `external`, `migration`, `imported` or `rebase`; nil for any other word.
    package init?(name: String) {
        switch name {
        case "local": self = .local
        case "external": self = .external
        case "migration": self = .migration
        case "imported": self = .imported
        case "rebase": self = .rebase
        default: return nil
        }
    }
}
