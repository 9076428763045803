public import AnnalsCore
public import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import Foundation
import GRDB

/// An entry of the conflict journal with the names of its columns.
public struct NamedConflict: Sendable {
    public var conflict: Conflict
    /// The table's columns and key; nil if the store never tracked a table of that name.
    public var layout: TableLayout?
}

extension Store {
    /// The conflict journal, oldest first, in pages.
    ///
    /// - Parameters:
    ///   - after: the id of the last entry of the page before.
    ///   - limit: the maximum number of entries.
    ///   - onlyUnresolved: only entries that wait for a person: a policy left them to a person, and they were not resolved since.
    /// - Returns: an empty list at the end, and for a store that was never joined.
    public func conflicts(after: Int64 = 0, limit: Int, onlyUnresolved: Bool = false) async throws -> [NamedConflict] {
        try await translated("conflicts") {
            try await database.reading { [schema] db in
                guard try StoreSchema.isReplica(db) else { return [] }
                let layouts = try TrackedTable.fetchAll(db).map(\.layout)
                let names = try schema.tables(db).ownNames
                return try ConflictJournal.page(db, names, after: after, limit: limit, onlyUnresolved: onlyUnresolved).map { conflict in
                    // The newest column list is the last one.
                    NamedConflict(
                        conflict: conflict, layout: layouts.last { $0.name.isSameIdentifier(as: conflict.entry.table) })
                }
            }
        }
    }

    /// Marks journal entries as shown to a person, so that they may be deleted when they are old.
    ///
    /// The mark is local to this store, because users of other replicas have not seen the entries here.
    ///
    /// - Throws: `AnnalsError.busy` at once if another program writes, because a reader should not wait for this.
    public func noteConflictsSeen(_ ids: [Int64]) async throws {
        try await translated("conflicts") {
            try await database.writeWithoutTransaction { [patience] db in
                try patience.suspended {
                    try db.inTransaction(.immediate) {
                        guard try StoreSchema.isReplica(db) else { return .rollback }
                        let statement = try db.cachedStatement(sql: "UPDATE annals_conflicts SET seen = 1 WHERE id = ? AND seen = 0")
                        for id in ids { try statement.execute(arguments: [id]) }
                        return .commit
                    }
                }
            }
        }
    }

    /// Deletes old entries of the conflict journal, with their losing values, from this store.
    ///
    /// - Parameters:
    ///   - age: only entries that the relay received longer ago than this.
    ///   - force: also entries that were never shown to a person, or that wait for a person. Without it these stay, however old
    ///     they are.
    /// - Returns: the number of deleted entries. The newest entry always stays, so that no number is used twice.
    @discardableResult
    public func purgeConflicts(olderThan age: Duration, force: Bool = false) async throws -> Int {
        let limit = configuration.now() - Int64(age / .milliseconds(1))
        return try await managed("purge") { db, _ in
            try StoreSchema.isReplica(db) ? ConflictJournal.purge(db, before: limit, force: force) : 0
        }
    }
}

extension ConflictJournal {
    /// Deletes entries that the relay received before a time, in milliseconds since 1970. A trial only counts them.
    static func purge(_ db: Database, before moment: Int64, force: Bool, isTrial: Bool = false) throws -> Int {
        let old = """
            FROM annals_conflicts
            WHERE received_at < ? AND (? OR seen AND NOT (waits AND resolved = 0)) AND id < (SELECT max(id) FROM annals_conflicts)
            """
        let count = try Int.fetchOne(db, sql: "SELECT count(*) \(old)", arguments: [moment, force]) ?? 0
        if !isTrial { try db.execute(sql: "DELETE \(old)", arguments: [moment, force]) }
        return count
    }

    static func page(_ db: Database, _ names: NameMap, after: Int64, limit: Int, onlyUnresolved: Bool) throws -> [Conflict] {
        try GRDB.Row.fetchAll(
            db,
            sql: """
                SELECT * FROM annals_conflicts
                WHERE id > ? AND (waits AND resolved = 0 OR NOT ?)
                ORDER BY id LIMIT ?
                """, arguments: [after, onlyUnresolved, limit]
        ).map { try conflict($0, names) }
    }
}
