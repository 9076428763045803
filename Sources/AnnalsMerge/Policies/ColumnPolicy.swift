/// How a conflict of one column is resolved: two changes, each by an author that had not seen the other change.
///
/// "Stored" is the value in the log, "incoming" the value of the change that comes second.
package enum ColumnPolicy: Hashable, Sendable {
    /// The later hybrid logical time wins. `ReplicaID` breaks ties. This is the default.
    case lastWriterWins
    /// The stored value wins.
    case mergeByPropertyStoreTrump
    /// The incoming value wins.
    case mergeByPropertyObjectTrump
    /// The numeric differences of both sides are added.
    case sum
    case min
    case max
    /// A JSON array as a set, with the additions and removals of both sides.
    case union
    /// A three-way merge of JSON objects for each key, recursively.
    case json
    /// A three-way merge by lines.
    case text
    /// An SQL expression over `:base`, `:stored`, `:incoming` and the row.
    case sql(String)
}

extension ColumnPolicy: LosslessStringConvertible {
    private static let plain: [String: ColumnPolicy] = [
        "lastWriterWins": .lastWriterWins, "mergeByPropertyStoreTrump": .mergeByPropertyStoreTrump,
        "mergeByPropertyObjectTrump": .mergeByPropertyObjectTrump, "sum": .sum, "min": .min, "max": .max, "union": .union, "json": .json,
        "text": .text,
    ]

    /// Reads the name that policy files and the conflict journal use. nil if no policy has this name.
    package init?(_ description: String) {
        if let policy = Self.plain[description] {
            self = policy
        } else if description.hasPrefix("sql:") {
            let expression = description.dropFirst(4).drop { $0 == " " }
            guard !expression.isEmpty else { return nil }
            self = .sql(String(expression))
        } else {
            return nil
        }
    }

    package var description: String {
        if case .sql(let expression) = self { return "sql: \(expression)" }
        return Self.plain.first { $0.value == self }?.key ?? ""
    }
}
