/// How two changes of one column are settled when neither author had seen the other's.
///
/// "Stored" is what the log holds, "incoming" the change that comes second.
package enum ColumnPolicy: Hashable, Sendable {
    /// The later hybrid logical time; ties by ReplicaID. The default.
    case lastWriterWins
    /// Stored wins.
    case mergeByPropertyStoreTrump
    /// Incoming wins.
    case mergeByPropertyObjectTrump
    /// Numeric differences add up.
    case sum
    case min
    case max
    /// A JSON array as a set: adds and removes of both.
    case union
    /// A JSON object, three-way per key, recursively.
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

    /// Reads the name under which it stands in a policy file and in the conflict journal; nil when there is none of that name.
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
