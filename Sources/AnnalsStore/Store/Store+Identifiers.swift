import AnnalsCore
public import AnnalsHistory
import AnnalsSQLite
import GRDB

extension Store {
    /// The current identifier of a row that had this identifier.
    ///
    ///     let id = try await store.current(noted, since: token)
    ///
    /// An integer key that the space has not ordered yet is provisional: if another replica used the number first, a sync gives the
    /// row another one. Then the old identifier means another row. So pass the time of your identifier.
    ///
    /// - Parameters:
    ///   - identifier: the row's identifier at that time.
    ///   - token: the point of history at which the identifier meant the row. Without it, the identifier counts as older than every
    ///     renumbering in history.
    /// - Returns: the identifier itself if nothing changed. The row may not exist.
    /// - Throws: `AnnalsError`: `tokenExpired`, `tokenUnknown` for a token of another store.
    public func current(_ identifier: PersistentIdentifier, since token: HistoryToken? = nil) async throws -> PersistentIdentifier {
        try await translated("identifier") {
            try await database.reading { db in
                if let token { try HistoryBounds(db).check(token) }
                return try RenumberedRows.load(db, after: token?.number ?? 0).current(identifier, since: token?.number ?? 0)
            }
        }
    }
}
