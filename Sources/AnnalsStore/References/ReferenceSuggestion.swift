public import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// A reference that the schema probably means and does not declare.
public struct ReferenceSuggestion: Hashable, Sendable {
    public enum Strength: String, Hashable, Sendable {
        /// The columns are a reference, unless the names and values mislead.
        case strong
        /// They may be one.
        case weak
    }

    public var table: String
    public var columns: [String]
    public var target: ReferenceTarget
    /// The share of the sampled values that exist in the parent; nil if there are none.
    public var coverage: Double?
    /// What the suggestion is made from, as people read it.
    public var reason: String
    public var strength: Strength
    /// Whether a merge may renumber the parent's key. Without the reference, rows may then belong to another parent.
    public var isRenumbered: Bool

    /// The decision that follows the suggestion.
    public var setting: ReferenceSetting { ReferenceSetting(table: table, columns: columns, to: target) }
}

extension Store {
    /// Suggests references between tracked tables that the schema does not declare: by names such as `album_id`, `albumId` or `album`,
    /// by triggers that look up another table, and by values that all exist there. Columns that have a declared foreign key or a
    /// decision are left out.
    ///
    /// It reads a sample of the rows, so it takes no longer for a large file.
    public func suggestReferences() async throws -> [ReferenceSuggestion] {
        try await managed("reference") { db, step in
            guard try StoreSchema.exists(db) else { return [] }
            let tables = try step.tables()
            let names = tables.localNames
            return try ReferenceSuggesting(
                db: db, tables: tables.entries.map(\.definition), decided: tables.undeclared.map { $0.renamed(names) }
            ).suggestions()
        }
    }
}
