public import AnnalsCore
public import Foundation

/// What one writer committed at once, as history keeps it. Its changes are read separately, however many they are.
public struct HistoryTransaction: Identifiable, Hashable, Sendable {
    /// Where a transaction came from.
    public enum Origin: Hashable, Sendable {
        /// `Store.write` and the like.
        case local
        /// Another program's commits between two recordings.
        case external
        /// A schema change.
        case migration
        /// Another replica's, applied at its position in the space.
        case imported(replica: ReplicaID, position: Position)
        /// This replica's own work, undone or laid on top again around what was pulled.
        case rebase

        /// The word that `annals history` prints and takes.
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

    /// Its place in this store's order: 1, 2, 3, …
    public var number: Int64
    /// The same transaction has the same identity on every replica.
    public var id: TransactionID
    /// The point right after it.
    public var token: HistoryToken
    /// When its author committed it, by the author's clock, to the millisecond.
    public var timestamp: Date
    public var author: String?
    public var contextName: String?
    /// What the process that recorded it here called itself.
    public var process: String?
    public var origin: Origin
    /// Names of the tables it changed.
    public var tables: [String]
}

/// Which origins a request asks for.
public struct HistoryOriginFilter: OptionSet, Hashable, Sendable {
    public let rawValue: Int

    public init(rawValue: Int) {
        self.rawValue = rawValue
    }

    public static let local = Self(rawValue: 1 << TransactionOrigin.local.rawValue)
    public static let external = Self(rawValue: 1 << TransactionOrigin.external.rawValue)
    public static let migration = Self(rawValue: 1 << TransactionOrigin.migration.rawValue)
    public static let imported = Self(rawValue: 1 << TransactionOrigin.imported.rawValue)
    public static let rebase = Self(rawValue: 1 << TransactionOrigin.rebase.rawValue)

    /// The filter for the word `local`, `external`, `migration`, `imported` or `rebase`; nil for any other.
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
