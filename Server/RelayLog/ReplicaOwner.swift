/// The owner of a replica: the first credential that pushed as it. No other owner can push as it or report its
/// position.
package enum ReplicaOwner: Sendable, Hashable {
    /// A bearer token, by its number. A token that renews another one counts as the first one. The replica is free when
    /// no such token is valid any more, so that a client with a new token can continue.
    case token(Int64)
    /// A subject of an identity provider, which issues the subject's tokens.
    case subject(String, issuer: String)

    static let tokenPrefix = "token "
    /// Used as the owner for decisions of the relay itself. No owner has this text.
    static let relayText = "relay"

    /// The text in the database and for the operator.
    package var text: String {
        switch self {
        case .token(let id): "\(Self.tokenPrefix)\(id)"
        // Subject and issuer have no control characters, so different pairs have different texts.
        case .subject(let subject, let issuer): "subject \(subject)\n\(issuer)"
        }
    }
}
