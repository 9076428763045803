import AnnalsCore
package import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

extension Store {
    /// What proves that the relay showed different logs; nil where nothing does.
    package func logEvidence() async throws -> LogEvidence? {
        try await translated("verify") {
            try await database.reading { db in try StoreSchema.exists(db) ? LogEvidence.load(db) : nil }
        }
    }

    /// Keeps what contradicts, which ends the exchange with the relay.
    func keep(_ evidence: LogEvidence) async throws {
        try await managed("sync") { db, _ in
            guard try ReplicaState.load(db)?.hasEvidence == false else { return }
            try evidence.save(db)
        }
    }
}
