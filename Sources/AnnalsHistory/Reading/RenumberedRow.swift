/// A row of this store that got another key in a sync: its old and its new identifier.
///
/// Another row may have the old identifier from then on.
public struct RenumberedRow: Hashable, Sendable {
    public let old: PersistentIdentifier
    public let new: PersistentIdentifier
    /// The transaction of history that gave the row the new key.
    package let number: Int64

    package init(old: PersistentIdentifier, new: PersistentIdentifier, number: Int64) {
        self.old = old
        self.new = new
        self.number = number
    }
}

extension Sequence<RenumberedRow> {
    /// A row's identifier after these changes, oldest first. Changes of one transaction are simultaneous and count as one step.
    package func current(_ identifier: PersistentIdentifier, since number: Int64 = 0) -> PersistentIdentifier {
        var current = identifier
        var last = number
        for row in self where row.number > last && row.old == current {
            current = row.new
            last = row.number
        }
        return current
    }

    /// One element for each row, from its first identifier to its last.
    package func composed() -> [RenumberedRow] {
        var lines: [RenumberedRow] = []
        var places: [PersistentIdentifier: Int] = [:]
        for step in Dictionary(grouping: self, by: \.number).sorted(by: { $0.key < $1.key }).map(\.value) {
            // The rows with the old identifiers are all looked up before any row gets a new one.
            let found = step.map { places.removeValue(forKey: $0.old) }
            for (row, place) in zip(step, found) {
                if let place {
                    lines[place] = RenumberedRow(old: lines[place].old, new: row.new, number: row.number)
                    places[row.new] = place
                } else {
                    lines.append(row)
                    places[row.new] = lines.count - 1
                }
            }
        }
        return lines
    }
}
