import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

extension Store {
    /// Takes what a copy of the space knows of the authors, in the place of what is known here.
    ///
    /// - Parameters:
    ///   - copy: made from another snapshot, and brought to this replica's position.
    ///   - path: where scratch files can be made, by adding to its name.
    /// - Returns: false where the copy has other rows or another position; nothing was changed then.
    package func adoptAuthors(from copy: Store, scratch path: String) async throws -> Bool {
        // Without work that is ahead of the log the rows can be compared; otherwise the next comparison finds what differs.
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
