import Crypto
import CryptoExtras
import Foundation
import JWTKit
import RelayLog
import RelayTestSupport
import Synchronization

@testable import Relay

/// An identity provider: keys of every kind, and tokens signed with them.
struct TestProvider {
    struct Key {
        var id: String
        var algorithm: String
        /// Makes signatures.
        var signing: any JWTAlgorithm
        /// The public half of the key.
        var jwk: [String: String]
    }

    static let issuer = "https://id.example.org"
    static let audience = "annals"
    var now: Int64

    /// - Parameter clock: The clock for the times in the tokens.
    init(_ clock: TestClock) { now = clock.now / 1000 }

    // MARK: Keys

    static func es256(_ id: String) async throws -> Key {
        let key = ES256PrivateKey()
        let parameters = try required(key.publicKey.parameters)
        return Key(
            id: id, algorithm: "ES256", signing: try await JWTKeyCollection().add(ecdsa: key, kid: "key").getKey(for: "key"),
            jwk: ["kty": "EC", "crv": "P-256", "x": url(parameters.x), "y": url(parameters.y), "kid": id, "use": "sig"])
    }

    static func es384(_ id: String) async throws -> Key {
        let key = ES384PrivateKey()
        let parameters = try required(key.publicKey.parameters)
        return Key(
            id: id, algorithm: "ES384", signing: try await JWTKeyCollection().add(ecdsa: key, kid: "key").getKey(for: "key"),
            jwk: ["kty": "EC", "crv": "P-384", "x": url(parameters.x), "y": url(parameters.y), "kid": id])
    }

    static func eddsa(_ id: String) async throws -> Key {
        let key = try EdDSA.PrivateKey(curve: .ed25519)
        return Key(
            id: id, algorithm: "EdDSA", signing: try await JWTKeyCollection().add(eddsa: key, kid: "key").getKey(for: "key"),
            jwk: ["kty": "OKP", "crv": "Ed25519", "x": url(key.publicKey.rawRepresentation.base64EncodedString()), "kid": id])
    }

    /// One key with two signature algorithms.
    static func rsa(_ id: String) async throws -> [Key] {
        let backing = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let key = try Insecure.RSA.PrivateKey(backing: backing)
        let (modulus, exponent) = try key.publicKey.getKeyPrimitives()
        let jwk = [
            "kty": "RSA", "n": url(modulus.base64EncodedString()), "e": url(exponent.base64EncodedString()), "kid": id,
        ]
        let collection = JWTKeyCollection()
        await collection.add(rsa: key, digestAlgorithm: .sha256, kid: "pkcs").add(pss: key, digestAlgorithm: .sha512, kid: "pss")
        return [
            Key(id: id, algorithm: "RS256", signing: try await collection.getKey(for: "pkcs"), jwk: jwk),
            Key(id: id, algorithm: "PS512", signing: try await collection.getKey(for: "pss"), jwk: jwk),
        ]
    }

    static func set(_ keys: [Key], and others: [[String: String]] = []) throws -> [UInt8] {
        Array(try JSONSerialization.data(withJSONObject: ["keys": keys.map(\.jwk) + others]))
    }

    // MARK: Tokens

    /// The claims of a good token. `changes` overrides them; NSNull removes one.
    func claims(_ changes: [String: Any] = [:]) -> [String: Any] {
        var claims: [String: Any] = [
            "iss": Self.issuer, "aud": Self.audience, "sub": "ann", "exp": now + 600, "iat": now, "annals": ["shop": "write"],
        ]
        for (name, value) in changes { claims[name] = value is NSNull ? nil : value }
        return claims
    }

    func token(_ key: Key, _ changes: [String: Any] = [:], header: [String: Any] = [:]) throws -> String {
        var fields: [String: Any] = ["alg": key.algorithm, "kid": key.id, "typ": "JWT"]
        for (name, value) in header { fields[name] = value is NSNull ? nil : value }
        let signed = try Self.part(fields) + "." + Self.part(claims(changes))
        return signed + "." + Self.url(Data(try key.signing.sign(Array(signed.utf8))).base64EncodedString())
    }

    static func part(_ object: [String: Any]) throws -> String {
        url(try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys]).base64EncodedString())
    }

    static func url(_ base64: String) -> String {
        base64.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    private static func required<T>(_ value: T?) throws -> T {
        guard let value else { throw CocoaError(.coderValueNotFound) }
        return value
    }
}

/// Keys that a test changes, and the number of times that they were read.
final class PublishedKeys: Sendable {
    struct Away: Error {}

    private let state = Mutex<(keys: [UInt8]?, reads: Int)>((nil, 0))

    init(_ keys: [UInt8]?) { publish(keys) }

    /// nil: the keys are not available.
    func publish(_ keys: [UInt8]?) { state.withLock { $0.keys = keys } }

    var reads: Int { state.withLock { $0.reads } }

    func read() throws -> [UInt8] {
        let keys = state.withLock { state in
            state.reads += 1
            return state.keys
        }
        guard let keys else { throw Away() }
        return keys
    }

    func verifier(_ clock: TestClock, claim: String = "annals") async throws -> WebTokenVerifier {
        let source = KeySource(clock: clock.clock, logger: .silent) { try self.read() }
        try await source.start("the test", isRequired: false)
        let settings = WebTokenSettings(keys: "-", issuer: TestProvider.issuer, audience: TestProvider.audience, claim: claim)
        return WebTokenVerifier(settings, source: source, clock: clock.clock)
    }
}
