import AnnalsCore
public import AnnalsHistory
import AnnalsSQLite
import GRDB

extension Store {
    /// What a row is called now that was called by this identifier.
    ///
    ///     let id = try await store.current(noted, since: token)
    ///
    /// An integer key that the space has not ordered yet is provisional: a sync gives the row another one where another replica
    /// took the number first. Then the old identifier is that of another row, so say from when yours is.
    ///
    /// - Parameters:
    ///   - identifier: as the row was called once.
    ///   - token: the point of history at which the identifier meant the row. Without it the identifier counts as one
    ///     from before every renumbering that history still knows.
    /// - Returns: the identifier itself where nothing changed. It does not say that there is such a row.
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
