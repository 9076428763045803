package import AnnalsCore
import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsWire
import GRDB

extension Store {
    /// The digest of the rows without this store's unpushed transactions. If nothing is ahead, it equals the digest of a fresh
    /// clone at the same position (law 3). Nothing is changed.
    package func digestOfLog() async throws -> Digest {
        try await merging("verify", commits: false) { db, step in
            try step.recordExternal()
            let tables = try step.tables()
            try step.filler().fill()
            let session = MergeSession(db, registry: tables)
            let rows = try Outbox.rows(db)
            let layouts = try LayoutNames(db).all
            let applier = EntryApplier(session: session, direction: .backward, position: nil)
            for row in rows.reversed() { try applier.apply(Outbox.content(db, of: row, layouts: layouts)) }
            return try StoreDigest.rows(db)
        }
    }
}
