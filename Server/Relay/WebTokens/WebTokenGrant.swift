internal import AnnalsCore
internal import Foundation
internal import RelayLog

/// The permissions of a valid web token.
struct WebTokenGrant: Sendable, Hashable {
    var issuer: String
    var subject: String
    /// When the token is refused, with the leeway included; milliseconds since 1970.
    var expires: Int64
    /// The scope in all spaces; nil: only the listed spaces.
    var everywhere: TokenScope?
    var spaces: [SpaceName: TokenScope]

    /// Permissions add up: the entry of a space does not reduce the one for all spaces.
    func allows(_ needed: TokenScope, in space: SpaceName) -> Bool {
        if let everywhere, everywhere >= needed { return true }
        return spaces[space].map { $0 >= needed } ?? false
    }
}

/// Why a web token is refused. The description helps its holder or the provider's operator to fix it.
enum WebTokenRefusal: Error, Hashable, CustomStringConvertible {
    case malformed
    case algorithm
    case keyNotNamed
    case unknownKey
    case signature
    case expired
    case notYetValid
    case issuer
    case audience
    case missing(String)
    /// The provider's keys are not available; when to try again.
    case keysAway(retryAfterSeconds: Int)

    var description: String {
        switch self {
        case .malformed: "The token cannot be read"
        case .algorithm: "The signature algorithm of the token is not accepted"
        case .keyNotNamed: "The token does not name the key that signed it"
        case .unknownKey: "The identity provider does not have the key that signed the token"
        case .signature: "The token's signature is wrong"
        case .expired: "The access token has expired"
        case .notYetValid: "The token is not valid yet"
        case .issuer: "The token is from another issuer"
        case .audience: "The token is for another audience"
        case .missing(let claim): "The token lacks the claim \(claim)"
        case .keysAway: "The identity provider's keys are not available now"
        }
    }
}

/// The claims of a token that matter here.
struct WebTokenClaims: Decodable {
    var issuer: String?
    var subject: String?
    var audiences: [String]
    /// Seconds since 1970.
    var expires: Double?
    var notBefore: Double?
    var everywhere: TokenScope?
    var spaces: [SpaceName: TokenScope] = [:]
    var listsSpaces = false

    /// The key in the decoder's `userInfo` for the name of the claim that lists spaces.
    static let claimName = CodingUserInfoKey(rawValue: "claim")

    private struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }

        init(_ name: String) { stringValue = name }
        init?(stringValue: String) { self.init(stringValue) }
        init?(intValue: Int) { nil }
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        issuer = try container.decodeIfPresent(String.self, forKey: Key("iss"))
        subject = try container.decodeIfPresent(String.self, forKey: Key("sub"))
        let one = try? container.decode(String.self, forKey: Key("aud"))
        audiences = try one.map { [$0] } ?? container.decodeIfPresent([String].self, forKey: Key("aud")) ?? []
        expires = try container.decodeIfPresent(Double.self, forKey: Key("exp"))
        notBefore = try container.decodeIfPresent(Double.self, forKey: Key("nbf"))
        guard let name = Self.claimName.flatMap({ decoder.userInfo[$0] as? String }) else { return }
        if let scopes = try? container.decode([String: String].self, forKey: Key(name)) {
            listsSpaces = true
            for (space, scope) in scopes { grant(scope, in: space) }
        } else if let entries = try? container.decode([String].self, forKey: Key(name)) {
            listsSpaces = true
            for entry in entries {
                let halves = entry.split(separator: ":", omittingEmptySubsequences: false)
                if halves.count == 2 { grant(String(halves[1]), in: String(halves[0])) }
            }
        }
    }

    /// An unknown scope or an invalid space name grants nothing.
    private mutating func grant(_ scope: String, in space: String) {
        guard let scope = TokenScope(rawValue: scope) else { return }
        if space == "*" {
            everywhere = max(everywhere ?? scope, scope)
        } else if let space = SpaceName(space) {
            spaces[space] = max(spaces[space] ?? scope, scope)
        }
    }
}
