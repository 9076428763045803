import AnnalsCore
package import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

extension Store {
    /// The proof that the relay served different logs; nil if there is none.
    package func logEvidence() async throws -> LogEvidence? {
        try await translated("verify") {
            try await database.reading { db in try StoreSchema.exists(db) ? LogEvidence.load(db) : nil }
        }
    }

    /// Stores the proof, which ends the exchange with the relay.
    func keep(_ evidence: LogEvidence) async throws {
        try await managed("sync") { db, _ in
            guard try ReplicaState.load(db)?.hasEvidence == false else { return }
            try evidence.save(db)
        }
    }
}
