import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

extension Store {
    /// Replaces the stored facts about authors with those of a copy of the space.
    ///
    /// - Parameters:
    ///   - copy: a store made from another snapshot and brought to this replica's position.
    ///   - path: a path for scratch files, which get suffixes.
    /// - Returns: false if the copy has other rows or another position; nothing was changed then.
    package func adoptAuthors(from copy: Store, scratch path: String) async throws -> Bool {
        // The rows can be compared only if no own entries are ahead of the position. Otherwise the next comparison finds
        // differences.
        if let own = try await logContents(scratch: path + "-own"),
            let there = try await copy.logContents(scratch: path + "-there")
        {
            guard (own.position, own.rows) == (there.position, there.rows) else { return false }
        }
        return try await managed("sync") { db, _ in
            try copy.database.reading { other in
                guard let state = try ReplicaState.load(db), try ReplicaState.load(other)?.position == state.position else { return false }
                try AuthorChains.replaceAll(db, with: AuthorChains.all(other))
                try UnconfirmedAuthors.copy(from: other, to: db)
                return true
            }
        }
    }
}
