import AnnalsCore
import AnnalsSchema
package import GRDB

/// A table that was tracked until another program replaced it by one that cannot be tracked, for example one without a primary key.
///
/// Writes to it are not captured. `Store.track(_:)` tracks it again once it can be tracked, and `Store.untrack(_:)` removes its history.
public struct EndedTable: Hashable, Sendable {
    public var table: String
    /// Why the table cannot be tracked as it is now.
    public var reason: Refusal

    package init(table: String, reason: Refusal) {
        self.table = table
        self.reason = reason
    }

    /// Such tables, sorted by name.
    package static func fetchAll(_ db: Database) throws -> [EndedTable] {
        let lists = try TrackedTable.fetchAll(db)
        let tracked = Set(lists.filter { $0.state == .tracked }.map(\.name.foldedIdentifier))
        let ended = Dictionary(lists.map { ($0.name.foldedIdentifier, $0.name) }) { $1 }.filter { !tracked.contains($0.key) }
        let reader = SchemaReader(db)
        return try ended.values.sorted().compactMap { name in
            guard let table = try reader.table(name), let reason = Refusal.ofTable(table) else { return nil }
            return EndedTable(table: table.name, reason: reason)
        }
    }
}
