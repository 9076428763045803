package import AnnalsCore

/// How two changes of one row are settled where the row is the unit, and not each column.
package enum RowPolicy: Hashable, Sendable {
    /// Incoming wins, with its whole row.
    case overwrite
    /// Stored wins; the incoming changes to the row are dropped.
    case rollback
    /// Stored wins, and the conflict waits for a person.
    case manual
    /// A closure of the program's own, by the name under which it was handed in.
    case custom(String)
}

extension RowPolicy: LosslessStringConvertible {
    /// Reads the name under which it stands in a policy file and in the conflict journal; nil when there is none of that name.
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

/// A row that two authors changed, as a custom policy sees it. Rows hold all stored columns, in the order of `columns`.
package struct RowConflict: Sendable {
    package var table: String
    package var columns: [String]
    /// Places of the columns that the incoming transaction changed.
    package var changed: [Int]
    /// The row as the incoming transaction found it; nil where it believed that there was none.
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

/// What a custom policy makes of a row.
package enum RowResolution: Sendable {
    /// Stored stands, and the conflict waits for a person.
    case unresolved
    case keepStored
    /// The incoming whole row stands.
    case keepIncoming
    /// The stored row with these columns, by name.
    case values([String: Value])
    /// Neither: the row is deleted.
    case delete
}
