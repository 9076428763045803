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
    /// remembers new trust options after a relay was reached with them, and a new credential file after the relay accepted its
    /// token.
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
        let newFile = credential.absoluteFile.flatMap { $0 == state.credentialFile ? nil : $0 }
        guard trusted != state.trust || newFile != nil else { return relay }
        let (isTrusted, isPermitted) = await Self.look(relay)
        if trusted != state.trust, isTrusted { try await store.remember(trusted) }
        if let newFile, isPermitted { try await store.remember(credentialFile: newFile) }
        return relay
    }

    /// Whether a relay that is trusted answers, with any answer, and whether it accepts the token.
    private static func look(_ relay: HTTPRelay) async -> (isTrusted: Bool, isPermitted: Bool) {
        do {
            _ = try await relay.describe()
            return (true, true)
        } catch {
            if case .problem = error { return (true, false) }
            return (false, false)
        }
    }

    private mutating func client(_ trust: RelayTrust) throws -> HTTPClient {
        if let known = clients[trust] { return known }
        let new = try HTTPClient(.init(trust: trust))
        clients[trust] = new
        return new
    }
}
