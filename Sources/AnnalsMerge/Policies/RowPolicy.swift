package import AnnalsCore

/// How a conflict of one row is resolved as a whole, instead of column by column.
package enum RowPolicy: Hashable, Sendable {
    /// The incoming row wins, with all its columns.
    case overwrite
    /// The stored row wins. The incoming changes of the row are dropped.
    case rollback
    /// The stored row wins, and the conflict waits for a user's decision.
    case manual
    /// A closure of the program, by the name under which it was registered. Only code of this package can register one.
    case custom(String)

    /// The name of the closure that the policy needs; nil if it needs none.
    package var closureName: String? {
        if case .custom(let name) = self { name } else { nil }
    }
}

extension RowPolicy: LosslessStringConvertible {
    /// Reads the name that policy files and the conflict journal use. nil if no policy has this name.
    package init?(_ description: String) {
        switch description {
        case "overwrite": self = .overwrite
        case "rollback": self = .rollback
        case "manual": self = .manual
        default:
            guard description.hasPrefix("custom:") else { return nil }
            let name = description.dropFirst(7).drop { $0 == " " }
            guard !name.isEmpty else { return nil }
            self = .custom(String(name))
        }
    }

    package var description: String {
        switch self {
        case .overwrite: "overwrite"
        case .rollback: "rollback"
        case .manual: "manual"
        case .custom(let name): "custom: \(name)"
        }
    }
}

/// A row that two authors changed, as a custom policy gets it. Rows have all stored columns, in the order of `columns`.
package struct RowConflict: Sendable {
    package var table: String
    package var columns: [String]
    /// The indexes of the columns that the incoming transaction changed.
    package var changed: [Int]
    /// The row before the incoming transaction. nil if the transaction assumed that the row did not exist.
    package var base: [Value]?
    package var stored: [Value]
    package var incoming: [Value]

    package init(table: String, columns: [String], changed: [Int], base: [Value]?, stored: [Value], incoming: [Value]) {
        self.table = table
        self.columns = columns
        self.changed = changed
        self.base = base
        self.stored = stored
        self.incoming = incoming
    }
}

/// The decision of a custom policy about a row.
package enum RowResolution: Sendable {
    /// The stored row stays, and the conflict waits for a user's decision.
    case unresolved
    case keepStored
    /// The whole incoming row wins.
    case keepIncoming
    /// The stored row with these values, by column name.
    case values([String: Value])
    /// The row is deleted.
    case delete
}
