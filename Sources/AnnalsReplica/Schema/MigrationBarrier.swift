import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
package import GRDB

/// Changes that must not be pushed before the store is migrated: deletes of rows, and changes of referenced columns, in tables that
/// the missing tables or columns refer to. The store cannot know which rows are referenced.
///
/// A replica that is behind pushes all other changes.
package struct MigrationBarrier {
    private let db: Database
    /// The referenced columns of each parent table.
    private let parents: [String: Set<String>]

    package init(_ db: Database) throws {
        self.db = db
        let missingSchema = try MissingSchema.load(db)
        guard !missingSchema.isEmpty, let space = try SpaceSchema.load(db) else {
            parents = [:]
            return
        }
        var parents: [String: Set<String>] = [:]
        for table in space.tables {
            for key in table.foreignKeys where key.columns.contains(where: { missingSchema.has($0, of: table.name) }) {
                guard !missingSchema.has(table: key.parentTable) else { continue }
                parents[key.parentTable.foldedIdentifier, default: []].formUnion(key.parentColumns.map(\.foldedIdentifier))
            }
        }
        self.parents = parents
    }

    /// The oldest outbox transaction that must wait. All later ones wait too.
    package func first() throws -> Int64? {
        guard !parents.isEmpty else { return nil }
        let layouts = try LayoutNames(db).all
        return try Outbox.rows(db).first { row in try waits(Outbox.content(db, of: row, layouts: layouts)) }?.sequence
    }

    private func waits(_ content: TransactionParts) throws -> Bool {
        var waits = false
        try content.forEachChange { layout, change in
            guard !waits, let columns = parents[layout.name.foldedIdentifier] else { return }
            switch change.change {
            case .insert: return
            case .delete: waits = true
            case .update(_, let changed): waits = changed.contains { columns.contains(layout.columns[$0.column].foldedIdentifier) }
            }
        }
        return waits
    }
}
