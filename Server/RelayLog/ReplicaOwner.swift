/// Whose a replica is: the credential that was the first to push as it. Nobody else may push as it, or say how far it has come.
package enum ReplicaOwner: Sendable, Hashable {
    /// A bearer token, by its number; one that renews another stands for that. The replica is free again when no such token is valid
    /// any more, so that whoever gets a new one just goes on.
    case token(Int64)
    /// A subject of an identity provider, whose tokens come and go.
    case subject(String, issuer: String)

    static let tokenPrefix = "token "
    /// Stands where an owner does for what the relay itself decided. No owner is written down like that.
    static let relayText = "relay"

    /// How it is written down, and shown to the operator.
    package var text: String {
        switch self {
        case .token(let id): "\(Self.tokenPrefix)\(id)"
        // Neither has a control character, so no two pairs look alike.
        case .subject(let subject, let issuer): "subject \(subject)\n\(issuer)"
        }
    }
}
