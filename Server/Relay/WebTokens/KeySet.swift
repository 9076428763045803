internal import Foundation
internal import JWTKit

/// The public keys of an identity provider for signature checks.
struct KeySet: Sendable {
    private var keys: [Key] = []

    private struct Key: Sendable {
        var id: String?
        /// By the algorithm's name in a token's header.
        var algorithms: [String: any JWTAlgorithm] = [:]
    }

    struct Unusable: Error, CustomStringConvertible {
        var description: String
    }

    /// Reads a JSON Web Key Set (RFC 7517). It skips keys for other purposes, such as encryption, and symmetric keys.
    init(json: [UInt8]) async throws {
        guard let set = try? JSONSerialization.jsonObject(with: Data(json)) as? [String: Any], let entries = set["keys"] as? [Any] else {
            throw Unusable(description: "it is not a JSON Web Key Set")
        }
        for case let entry as [String: Any] in entries {
            guard entry["use"] as? String ?? "sig" == "sig", (entry["key_ops"] as? [String])?.contains("verify") ?? true else { continue }
            guard let data = try? JSONSerialization.data(withJSONObject: entry),
                let jwk = try? JSONDecoder().decode(JWK.self, from: data)
            else { continue }
            if let key = await Self.key(jwk) { keys.append(key) }
        }
        guard !keys.isEmpty else { throw Unusable(description: "it has no public key for signature checks") }
    }

    private static func key(_ jwk: JWK) async -> Key? {
        var key = Key(id: jwk.keyIdentifier?.string)
        var jwk = jwk
        // Only for checking, so private parts are removed.
        (jwk.privateExponent, jwk.prime1, jwk.prime2) = (nil, nil, nil)
        jwk.keyIdentifier = "key"
        for algorithm in algorithms(of: jwk) {
            jwk.algorithm = algorithm
            let collection = JWTKeyCollection()
            guard (try? await collection.add(jwk: jwk)) != nil, let checking = try? await collection.getKey(for: "key") else { continue }
            key.algorithms[algorithm.rawValue] = checking
        }
        return key.algorithms.isEmpty ? nil : key
    }

    /// The algorithms for a key: the one that it names, or all of its type; never one of another type.
    private static func algorithms(of jwk: JWK) -> [JWK.Algorithm] {
        let possible: [JWK.Algorithm] =
            switch (jwk.keyType, jwk.curve?.rawValue) {
            case (.rsa, _): [.rs256, .rs384, .rs512, .ps256, .ps384, .ps512]
            case (.ecdsa, "P-256"): [.es256]
            case (.ecdsa, "P-384"): [.es384]
            case (.ecdsa, "P-521"): [.es512]
            case (.octetKeyPair, "Ed25519"): [.eddsa]
            default: []
            }
        guard let named = jwk.algorithm else { return possible }
        return possible.filter { $0 == named }
    }

    /// Accepted signature algorithms. Symmetric algorithms and `none` are not accepted.
    static let algorithms: Set<String> = [
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    ]

    func has(_ id: String) -> Bool { keys.contains { $0.id == id } }

    /// The key for a token with this header. Without a key id the set must have exactly one key.
    func check(id: String?, algorithm: String) -> Result<any JWTAlgorithm, WebTokenRefusal> {
        guard Self.algorithms.contains(algorithm) else { return .failure(.algorithm) }
        let named: [Key]
        if let id {
            named = keys.filter { $0.id == id }
            if named.isEmpty { return .failure(.unknownKey) }
        } else {
            guard keys.count == 1 else { return .failure(.keyNotNamed) }
            named = keys
        }
        guard let found = named.compactMap({ $0.algorithms[algorithm] }).first else { return .failure(.algorithm) }
        return .success(found)
    }
}
