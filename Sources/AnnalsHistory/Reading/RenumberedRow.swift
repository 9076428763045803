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
        var lineIndexes: [PersistentIdentifier: Int] = [:]
        for step in Dictionary(grouping: self, by: \.number).sorted(by: { $0.key < $1.key }).map(\.value) {
            // The rows with the old identifiers are all looked up before any row gets a new one.
            let found = step.map { lineIndexes.removeValue(forKey: $0.old) }
            for (row, index) in zip(step, found) {
                if let index {
                    lines[index] = RenumberedRow(old: lines[index].old, new: row.new, number: row.number)
                    lineIndexes[row.new] = index
                } else {
                    lines.append(row)
                    lineIndexes[row.new] = lines.count - 1
                }
            }
        }
        return lines
    }
}
