package import AnnalsCore
package import AnnalsSchema
import AnnalsWire

/// The data that every replica of a space has at one position of the log. A clone takes it from a snapshot.
package struct LogContents: Sendable {
    package var position: Position
    /// The digest of the rows, without outbox transactions, as `annals digest` defines it.
    package var rows: Digest
    package var tables: TrackedTables
    package var space: SpaceSchema
    package var policies: Set<PolicySetting>
    package var references: [ReferenceSetting]
    package var authors: [ReplicaID: AuthorChains.Link?]

    package init(
        position: Position, rows: Digest, tables: TrackedTables, space: SpaceSchema, policies: Set<PolicySetting>,
        references: [ReferenceSetting], authors: [ReplicaID: AuthorChains.Link?]
    ) {
        self.position = position
        self.rows = rows
        self.tables = tables
        self.space = space
        self.policies = policies
        self.references = references
        self.authors = authors
    }

    /// The differences to a clone at the same position, except differences of rows; empty if there are none.
    ///
    /// Differences that honest replicas have are left out. Highest keys also count unsent rows, and a wrong one loses no row. Each store
    /// deletes conflicts from its journal by its own rule, after its users have seen them. Defaults of columns that the space began with,
    /// indexes that are not unique, views, triggers and untracked tables belong to each store. A clone limits its clock by the relay's.
    package func differences(of clone: LogContents) -> [String] {
        var differences: [String] = []
        if let difference = declaration(of: clone) { differences.append(difference) }
        if (space.version, added, space.names ?? [:], space.defaults) != (
            clone.space.version, clone.added, clone.space.names ?? [:], clone.space.defaults
        ) {
            differences.append("the history of the space's schema")
        }
        if space.removed ?? [:] != clone.space.removed ?? [:] || space.removedTables ?? [] != clone.space.removedTables ?? [] {
            differences.append("the tables and columns that the space removed")
        }
        if policies != clone.policies { differences.append("the space's policies") }
        if references != clone.references { differences.append("the references that the space added") }
        if !Set(authors.keys).union(clone.authors.keys).allSatisfy({ isAlike(authors[$0], clone.authors[$0]) }) {
            differences.append("the newest entries of authors")
        }
        return differences
    }

    /// Columns that were added after the first schema, by folded table names.
    private var added: [String: Set<String>] { space.added.mapValues { Set($0) } }

    /// A clone with fewer or other constraints could write rows that others cannot store, and would compute other footprints.
    private func declaration(of clone: LogContents) -> String? {
        do {
            return try SchemaComparison(tables, clone.space, missingSchema: MissingSchema()).isAlike
                ? nil : "tables or columns that the space does not have"
        } catch {
            return (error as? AnnalsError)?.message ?? "the declaration of its tables"
        }
    }

    /// If one side does not know the newest entry, as after a change of identity, it accepts the author's next entry. An author that only
    /// one side has is a difference.
    private func isAlike(_ one: AuthorChains.Link??, _ other: AuthorChains.Link??) -> Bool {
        let isUnknown = one == .some(nil) || other == .some(nil)
        guard !isUnknown, let one = one ?? nil, let other = other ?? nil else { return isUnknown }
        return one.counter == other.counter && (one.digest == other.digest || one.digest == .zero || other.digest == .zero)
    }
}
