public import AnnalsCore
public import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
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
    ///   - limit: at most so many.
    ///   - onlyUnresolved: only those that wait for a person: left to one by a policy, and not decided since.
    /// - Returns: none when there are no more, also for a store that was never joined.
    public func conflicts(after: Int64 = 0, limit: Int, onlyUnresolved: Bool = false) async throws -> [NamedConflict] {
        try await translated("conflicts") {
            try await database.reading { [schema] db in
                guard try StoreSchema.isReplica(db) else { return [] }
                let layouts = try TrackedTable.fetchAll(db).map(\.layout)
                let names = try schema.tables(db).ownNames
                return try ConflictJournal.page(db, names, after: after, limit: limit, onlyUnresolved: onlyUnresolved).map { conflict in
                    // The newest list of columns stands last.
                    NamedConflict(
                        conflict: conflict, layout: layouts.last { $0.name.isSameIdentifier(as: conflict.entry.table) })
                }
            }
        }
    }

    /// Notes that a person was shown these lines of the journal, so that they may go when they are old.
    ///
    /// It counts for this store alone: whoever works on another replica was shown nothing.
    ///
    /// - Throws: `AnnalsError.busy` at once where another program writes: whoever only looks does not wait for this.
    public func noteConflictsSeen(_ ids: [Int64]) async throws {
        try await translated("conflicts") {
            try await database.writeWithoutTransaction { [patience] db in
                try patience.suspended {
                    try db.inTransaction(.immediate) {
                        guard try StoreSchema.isReplica(db) else { return .rollback }
                        try ConflictJournal.noteSeen(db, ids)
                        return .commit
                    }
                }
            }
        }
    }

    /// Drops old lines of the conflict journal, with what lost in them, from this store.
    ///
    /// - Parameters:
    ///   - age: only those that the relay received longer ago than this.
    ///   - force: also those that nobody was shown, or that wait for a person. Without it they stay, however old.
    /// - Returns: how many went. The newest line always stays, so that no number ever names two.
    @discardableResult
    public func purgeConflicts(olderThan age: Duration, force: Bool = false) async throws -> Int {
        let limit = configuration.now() - Int64(age / .milliseconds(1))
        return try await managed("purge") { db, _ in
            try StoreSchema.isReplica(db) ? ConflictJournal.purge(db, before: limit, force: force) : 0
        }
    }
}
