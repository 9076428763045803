internal import Foundation
internal import JWTKit

/// The public keys of an identity provider that signatures can be checked with.
struct KeySet: Sendable {
    private var keys: [Key] = []

    private struct Key: Sendable {
        var id: String?
        /// By the name that a token's header has for it.
        var algorithms: [String: any JWTAlgorithm] = [:]
    }

    struct Unusable: Error, CustomStringConvertible {
        var description: String
    }

    /// Reads a JSON Web Key Set (RFC 7517). What it holds for other purposes, such as keys to encrypt with, and secrets that
    /// signatures are made with on both sides, is passed over.
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
        guard !keys.isEmpty else { throw Unusable(description: "it has no public key that signatures can be checked with") }
    }

    private static func key(_ jwk: JWK) async -> Key? {
        var key = Key(id: jwk.keyIdentifier?.string)
        var jwk = jwk
        // Only to check with, whatever else somebody put there.
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

    /// Which a key can be used with: the one that it names, or all of its kind. Never one of another kind.
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

    /// Signatures that are taken; among them none that is made with a secret that both sides have, and not `none`.
    static let algorithms: Set<String> = [
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    ]

    func has(_ id: String) -> Bool { keys.contains { $0.id == id } }

    /// What checks a token whose header has this. Without a key's id there must be no doubt which one is meant.
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
