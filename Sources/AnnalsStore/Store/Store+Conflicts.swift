public import AnnalsCore
import Foundation
import GRDB

/// A line of the conflict journal together with the names of what it holds.
public struct NamedConflict: Sendable {
    public var conflict: Conflict
    /// The table's columns and key; nil when the store never tracked a table of that name.
    public var layout: TableLayout?
}

extension Store {
    /// The conflict journal, oldest first, in pages.
    ///
    /// - Parameters:
    ///   - after: the id of the last line of the page before.
    ///   - onlyUnresolved: only those that wait for a person: left to one by a policy, and not decided since.
    /// - Returns: none when there are no more, also for a store that was never joined.
    public func conflicts(after: Int64 = 0, limit: Int, onlyUnresolved: Bool = false) async throws -> [NamedConflict] {
        try await translated("conflicts") {
            try await database.read { db in
                guard try ReplicaTables.exist(db) else { return [] }
                let layouts = try LayoutNames(db).all.sorted { $0.key < $1.key }.map(\.value)
                return try ConflictJournal.page(db, after: after, limit: limit, onlyUnresolved: onlyUnresolved).map { conflict in
                    // The newest list of columns stands last.
                    NamedConflict(
                        conflict: conflict, layout: layouts.last { $0.name.isSameIdentifier(as: conflict.entry.table) })
                }
            }
        }
    }
}

extension ConflictJournal {
    static func page(_ db: Database, after: Int64, limit: Int, onlyUnresolved: Bool) throws -> [Conflict] {
        try GRDB.Row.fetchAll(
            db,
            sql: """
                SELECT * FROM annals_conflicts
                WHERE id > ? AND (waits AND resolved = 0 OR NOT ?)
                ORDER BY id LIMIT ?
                """, arguments: [after, onlyUnresolved, limit]
        ).map(conflict)
    }
}
