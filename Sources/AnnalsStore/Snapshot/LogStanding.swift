package import AnnalsCore
import AnnalsWire

/// What every replica of a space has at one position of the log: what a clone takes from a snapshot.
package struct LogStanding: Sendable {
    package var position: Position
    /// Of the rows, without what waits in the outbox, as `annals digest` defines it.
    package var rows: Digest
    var schemaVersion: Int64
    /// Columns that came after the first schema, by folded names of tables.
    var added: [String: Set<String>]
    var names: [String: SpaceSchema.PresentNames]
    var policies: Set<PolicySetting>
    var authors: [ReplicaID: AuthorChains.Link?]

    /// What of a clone's standing at the same position is not as it is here, beyond the rows; empty where everything is.
    ///
    /// Highest keys are left out: they count work that was not sent, and one that is wrong costs no row. The clock is left out, since a clone
    /// bounds it by the relay's.
    package func differences(of clone: LogStanding) -> [String] {
        var differences: [String] = []
        if (schemaVersion, added, names) != (clone.schemaVersion, clone.added, clone.names) {
            differences.append("the history of the space's schema")
        }
        if policies != clone.policies { differences.append("the space's policies") }
        if !Set(authors.keys).union(clone.authors.keys).allSatisfy({ isAlike(authors[$0], clone.authors[$0]) }) {
            differences.append("the newest entries of authors")
        }
        return differences
    }

    /// Where one of them does not know the newest entry, as of an identity that it gave up, the author's next one is believed. An author that
    /// only one of them has is none.
    private func isAlike(_ one: AuthorChains.Link??, _ other: AuthorChains.Link??) -> Bool {
        let isUnknown = one == .some(nil) || other == .some(nil)
        guard !isUnknown, let one = one ?? nil, let other = other ?? nil else { return isUnknown }
        return one.counter == other.counter && (one.digest == other.digest || one.digest == .zero || other.digest == .zero)
    }
}
