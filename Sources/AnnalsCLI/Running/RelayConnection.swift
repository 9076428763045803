import AnnalsCore
import AnnalsHTTP
import AnnalsStore
import AnnalsSync
import Foundation

/// Makes the way to a relay for one store.
enum RelayConnection {
    /// For a store that is joined already.
    ///
    /// Throws `AnnalsError` with `.notJoined`, or what reading the credential throws.
    static func open(for store: Store, client: HTTPClient, credential: CredentialOptions) async throws -> HTTPRelay {
        guard let state = try await store.replicaState() else {
            throw AnnalsError(.notJoined, operation: "sync", "\(store.path) is not joined to a space", hint: "Run annals join first")
        }
        // Names are not for the relay of a sealed space.
        return try HTTPRelay(
            address: state.relay, space: state.space,
            identity: .init(
                name: state.sealedUnder == nil ? state.name : "", credential: try credential.token(remembered: state.credentialFile)),
            client: client)
    }
}
