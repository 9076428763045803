package import AnnalsCore
import AnnalsReplica

extension Store {
    /// The keys of the store's space; nil if the space is not encrypted or the store is not joined.
    ///
    /// - Throws: `AnnalsError` with code `missingKey`.
    package func spaceKeys() async throws -> SpaceKeyRing? {
        try await replicaState()?.ring(configuration.spaceKeys, operation: "sync")
    }
}
