import AnnalsCore
import AnnalsHTTP
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import Foundation

/// Creates connections to relays. Stores with the same trust settings share a client, and so its connections.
struct RelayConnections {
    private var clients: [RelayTrust: HTTPClient] = [:]

    /// Connects a store that is joined. `credentialFile` takes precedence over the file that the store remembers. The store
    /// remembers new trust options after a relay was reached with them.
    ///
    /// Throws `AnnalsError` with `.notJoined`, and errors of reading the credential and the certificates.
    mutating func open(
        for store: Store, credential: CredentialOptions, credentialFile: String? = nil, trust: TrustOptions
    ) async throws -> HTTPRelay {
        guard let state = try await store.replicaState() else {
            throw AnnalsError(.notJoined, operation: "sync", "\(store.path) is not joined to a space", hint: "Run annals join first")
        }
        let remembered = credentialFile ?? state.credentialFile
        let token = try credential.token(remembered: remembered)
        let trusted = try trust.trust(at: state.relay, remembered: state.trust)
        // The relay of an encrypted space must not know names.
        let relay = try HTTPRelay(
            address: state.relay, space: state.space,
            identity: .init(
                name: state.sealedUnder == nil ? state.name : "", credential: token,
                renewal: credential.renewal(remembered: remembered)),
            client: client(trusted))
        if trusted != state.trust, await Self.answers(relay) { try await store.remember(trusted) }
        return relay
    }

    /// Whether a relay that is trusted answers, with any answer.
    private static func answers(_ relay: HTTPRelay) async -> Bool {
        do {
            _ = try await relay.describe()
            return true
        } catch {
            if case .problem = error { return true }
            return false
        }
    }

    private mutating func client(_ trust: RelayTrust) throws -> HTTPClient {
        if let known = clients[trust] { return known }
        let new = try HTTPClient(.init(trust: trust))
        clients[trust] = new
        return new
    }
}
