internal import AnnalsCore
internal import Foundation
internal import JWTKit
internal import Logging
internal import RelayLog
internal import Synchronization

/// Verifies JSON Web Tokens (RFC 7519): the signature, issuer, audience, expiry and permissions.
///
/// A token's header only selects one of the provider's keys; the key decides which algorithms are allowed. Valid tokens
/// are cached until they expire or the keys are read again, because a signature check costs more than the answer to
/// most requests.
final class WebTokenVerifier: Sendable {
    private let settings: WebTokenSettings
    private let source: KeySource
    private let clock: RelayClock
    private let believed = Mutex(Believed())

    private struct Believed {
        var grants: [AnnalsCore.Digest: WebTokenGrant] = [:]
        var generation = 0
    }

    private static let tokensBelieved = 4096
    /// Characters of a token; the headers of a request are limited too.
    private static let longest = 8192

    init(_ settings: WebTokenSettings, source: KeySource, clock: RelayClock = .system) {
        self.settings = settings
        self.source = source
        self.clock = clock
    }

    /// Reads the keys. Throws `AnnalsError` with `.configuration` if a key file cannot be read.
    static func start(_ settings: WebTokenSettings, logger: Logger) async throws -> WebTokenVerifier {
        let source = KeySource(settings, logger: logger)
        try await source.start(settings.keys, isRequired: !settings.isAddress)
        return WebTokenVerifier(settings, source: source)
    }

    /// Whether the text has the three parts of a JSON Web Token; the relay's own tokens have no dots.
    static func looksLikeOne(_ text: String) -> Bool {
        text.utf8.count { $0 == UInt8(ascii: ".") } == 2
    }

    /// The current permissions of a token. Throws `WebTokenRefusal`.
    func verify(_ token: String) async throws(WebTokenRefusal) -> WebTokenGrant {
        guard token.utf8.count <= Self.longest else { throw .malformed }
        let bytes = Array(token.utf8)
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.decode(Header.self, parts[0]) else { throw .malformed }
        // `crit` lists extensions that must be understood; none is supported.
        guard header.crit == nil, let algorithm = header.alg, KeySet.algorithms.contains(algorithm) else { throw .algorithm }
        var found = await source.keys(with: header.kid)
        let digest = AnnalsCore.Digest.sha256(bytes[...])
        if let current = found.current, let grant = known(digest, current.generation) { return try judged(grant) }
        let signed = bytes[..<(parts[1].endIndex)]
        guard let signature = Self.base64URL(parts[2]) else { throw .signature }
        if try !Self.isSigned(signed, signature, header.kid, algorithm, found) {
            // A new key may have replaced one with the same id or without an id.
            if !found.isFresh { found = await source.keysReadAnew() }
            guard try Self.isSigned(signed, signature, header.kid, algorithm, found) else {
                guard header.kid == nil, !found.isFresh else { throw .signature }
                throw .keysAway(retryAfterSeconds: found.retryAfterSeconds)
            }
        }
        guard let current = found.current else { throw .keysAway(retryAfterSeconds: found.retryAfterSeconds) }
        guard let claims = Self.decode(WebTokenClaims.self, parts[1], claim: settings.claim) else { throw .malformed }
        let grant = try judged(try grant(claims))
        remember(grant, digest, current.generation)
        return grant
    }

    /// Whether a matching key signed the token.
    private static func isSigned(
        _ signed: ArraySlice<UInt8>, _ signature: [UInt8], _ id: String?, _ algorithm: String, _ found: KeySource.Found
    ) throws(WebTokenRefusal) -> Bool {
        guard let current = found.current else { throw .keysAway(retryAfterSeconds: found.retryAfterSeconds) }
        switch current.keys.check(id: id, algorithm: algorithm) {
        case .success(let check): return (try? check.verify(signature, signs: signed)) == true
        // Before a fresh read the key may exist, so the client can try again. After it the key does not exist.
        case .failure(.unknownKey) where !found.isFresh: throw .keysAway(retryAfterSeconds: found.retryAfterSeconds)
        case .failure(let refusal): throw refusal
        }
    }

    /// The permissions in verified claims.
    private func grant(_ claims: WebTokenClaims) throws(WebTokenRefusal) -> WebTokenGrant {
        guard claims.issuer == settings.issuer else { throw claims.issuer == nil ? .missing("iss") : .issuer }
        guard claims.audiences.contains(settings.audience) else { throw claims.audiences.isEmpty ? .missing("aud") : .audience }
        guard let expires = claims.expires else { throw .missing("exp") }
        guard let subject = claims.subject, !subject.isEmpty, !subject.unicodeScalars.contains(where: { $0.value < 0x20 }) else {
            throw .missing("sub")
        }
        let leeway = Double(settings.leewaySeconds)
        if let notBefore = claims.notBefore, Double(clock.wall()) / 1000 < notBefore - leeway { throw .notYetValid }
        guard claims.listsSpaces else { throw .missing(settings.claim) }
        let end = ((expires + leeway) * 1000).rounded(.down)
        return WebTokenGrant(
            issuer: settings.issuer, subject: subject, expires: Int64(exactly: min(max(end, 0), 9e15)) ?? 0, everywhere: claims.everywhere,
            spaces: claims.spaces)
    }

    private func judged(_ grant: WebTokenGrant) throws(WebTokenRefusal) -> WebTokenGrant {
        guard clock.wall() < grant.expires else { throw .expired }
        return grant
    }

    // MARK: The cache

    private func known(_ digest: AnnalsCore.Digest, _ generation: Int) -> WebTokenGrant? {
        believed.withLock { $0.generation == generation ? $0.grants[digest] : nil }
    }

    private func remember(_ grant: WebTokenGrant, _ digest: AnnalsCore.Digest, _ generation: Int) {
        believed.withLock { believed in
            if believed.generation != generation || believed.grants.count >= Self.tokensBelieved {
                believed.grants.removeAll(keepingCapacity: true)
                believed.generation = generation
            }
            believed.grants[digest] = grant
        }
    }

    // MARK: Decoding

    private struct Header: Decodable {
        var alg: String?
        var kid: String?
        var crit: [String]?
    }

    private static func decode<Value: Decodable>(_ type: Value.Type, _ part: ArraySlice<UInt8>, claim: String = "") -> Value? {
        guard let json = base64URL(part) else { return nil }
        let decoder = JSONDecoder()
        if let key = WebTokenClaims.claimName { decoder.userInfo[key] = claim }
        return try? decoder.decode(type, from: Data(json))
    }

    /// Decodes Base64 with `-` and `_`, without padding; nil for anything else.
    private static func base64URL(_ part: ArraySlice<UInt8>) -> [UInt8]? {
        guard !part.isEmpty, !part.contains(where: { "+/=".utf8.contains($0) }) else { return nil }
        var text = part.map { $0 == UInt8(ascii: "-") ? UInt8(ascii: "+") : $0 == UInt8(ascii: "_") ? UInt8(ascii: "/") : $0 }
        text += [UInt8](repeating: UInt8(ascii: "="), count: (4 - text.count % 4) % 4)
        return Data(base64Encoded: Data(text)).map { Array($0) }
    }
}
