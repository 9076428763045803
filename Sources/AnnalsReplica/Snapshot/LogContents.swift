package import AnnalsCore
package import AnnalsSchema
import AnnalsWire

/// What every replica of a space has at one position of the log: what a clone takes from a snapshot.
package struct LogContents: Sendable {
    package var position: Position
    /// Of the rows, without what waits in the outbox, as `annals digest` defines it.
    package var rows: Digest
    package var tables: TrackedTables
    package var space: SpaceSchema
    package var policies: Set<PolicySetting>
    package var authors: [ReplicaID: AuthorChains.Link?]

    package init(
        position: Position, rows: Digest, tables: TrackedTables, space: SpaceSchema, policies: Set<PolicySetting>,
        authors: [ReplicaID: AuthorChains.Link?]
    ) {
        self.position = position
        self.rows = rows
        self.tables = tables
        self.space = space
        self.policies = policies
        self.authors = authors
    }

    /// What of a clone's standing at the same position is not as it is here, beyond the rows; empty where everything is.
    ///
    /// Left out is what honest replicas have otherwise: highest keys count work that was not sent, and one that is wrong costs no row; each
    /// store drops lines of the conflict journal by its own rule, once its people have seen them; defaults of columns that the space began
    /// with, indexes that are not unique, views, triggers and untracked tables are each store's own. A clone bounds the clock by the relay's.
    package func differences(of clone: LogContents) -> [String] {
        var differences: [String] = []
        if let difference = declaration(of: clone) { differences.append(difference) }
        if (space.version, added, space.names ?? [:]) != (clone.space.version, clone.added, clone.space.names ?? [:]) {
            differences.append("the history of the space's schema")
        }
        if policies != clone.policies { differences.append("the space's policies") }
        if !Set(authors.keys).union(clone.authors.keys).allSatisfy({ isAlike(authors[$0], clone.authors[$0]) }) {
            differences.append("the newest entries of authors")
        }
        return differences
    }

    /// Columns that came after the first schema, by folded names of tables.
    private var added: [String: Set<String>] { space.added.mapValues { Set($0) } }

    /// A clone with fewer constraints, or other ones, writes what others cannot hold, and computes other footprints.
    private func declaration(of clone: LogContents) -> String? {
        do {
            return try SchemaComparison(tables, clone.space, missingSchema: MissingSchema()).isAlike
                ? nil : "tables or columns that the space lacks"
        } catch {
            return (error as? AnnalsError)?.message ?? "the declaration of its tables"
        }
    }

    /// Where one of them does not know the newest entry, as of an identity that it gave up, the author's next one is believed. An author that
    /// only one of them has is none.
    private func isAlike(_ one: AuthorChains.Link??, _ other: AuthorChains.Link??) -> Bool {
        let isUnknown = one == .some(nil) || other == .some(nil)
        guard !isUnknown, let one = one ?? nil, let other = other ?? nil else { return isUnknown }
        return one.counter == other.counter && (one.digest == other.digest || one.digest == .zero || other.digest == .zero)
    }
}
