package import AnnalsCore
internal import Crypto
internal import Foundation

/// Seals and opens the content that a relay stores for one space. The keys are derived from the space's key.
///
/// A sealed payload depends only on the key and on the sealed content. So the same batch has the same bytes each time
/// it is sealed, and two different batches are sealed under different keys (`Documentation/encryption.md`).
package struct SpaceCipher: Sendable {
    /// The keys derived from one space key for one space, one for each purpose.
    struct Derived: Sendable {
        let authentication: SymmetricKey
        let message: SymmetricKey
        let snapshot: SymmetricKey
        /// A part of the digests of sealed content. A guess of the content cannot be tested against a digest without it.
        let digestSecret: [UInt8]
        let footprint: FootprintKey

        init(_ key: SpaceKey, _ space: SpaceName) {
            func bytes(_ purpose: String, _ count: Int = 32) -> [UInt8] {
                key.derive(info: "annals 1 \(purpose)\0\(space)", byteCount: count)
            }
            authentication = SymmetricKey(data: bytes("authentication"))
            message = SymmetricKey(data: bytes("message"))
            snapshot = SymmetricKey(data: bytes("snapshot"))
            digestSecret = bytes("digest")
            let halves = bytes("footprint", 16)
            func half(_ range: Range<Int>) -> UInt64 { halves[range].reversed().reduce(0) { $0 << 8 | UInt64($1) } }
            footprint = FootprintKey(id: key.id, low: half(0..<8), high: half(8..<16))
        }
    }

    /// How many bytes sealing adds to a payload.
    static let overhead = authenticatorBytes + tagBytes
    static let authenticatorBytes = 32
    static let tagBytes = 16

    package let ring: SpaceKeyRing
    package let space: SpaceName
    private let derived: [UInt64: Derived]
    private let sealing: Derived

    init(_ ring: SpaceKeyRing, _ space: SpaceName) {
        self.ring = ring
        self.space = space
        sealing = Derived(ring.sealing, space)
        var derived: [UInt64: Derived] = [:]
        for key in ring.keys { derived[key.id] = Derived(key, space) }
        self.derived = derived
    }

    /// The id of the key that seals.
    package var keyID: UInt64 { ring.sealing.id }

    /// The key for the hashes of new footprints.
    package var footprintKey: FootprintKey { sealing.footprint }

    var digestSecret: [UInt8] { sealing.digestSecret }

    /// - Throws: `WireError.missingKey`.
    func keys(_ id: UInt64) throws(WireError) -> Derived {
        guard let keys = derived[id] else { throw .missingKey(id) }
        return keys
    }

    /// Seals a payload. The result has authenticator, ciphertext and tag.
    ///
    /// - Parameter clear: bytes that are not encrypted but authenticated.
    func seal(_ payload: [[UInt8]], clear: [UInt8]) throws(WireError) -> [[UInt8]] {
        let payload = Self.joined(payload)
        let authenticator = Self.authenticator(of: payload[...], clear: clear[...], sealing)
        do {
            let box = try ChaChaPoly.seal(
                payload, using: Self.messageKey(authenticator, sealing), nonce: ChaChaPoly.Nonce(data: Self.nonce), authenticating: clear)
            return [authenticator, [UInt8](box.ciphertext), [UInt8](box.tag)]
        } catch {
            throw .tooLarge("payload")
        }
    }

    /// The cipher needs contiguous bytes.
    private static func joined(_ pieces: [[UInt8]]) -> [UInt8] {
        if pieces.count == 1 { return pieces[0] }
        var whole: [UInt8] = []
        whole.reserveCapacity(pieces.reduce(0) { $0 + $1.count })
        for piece in pieces { whole += piece }
        return whole
    }

    /// Opens the result of `seal`.
    ///
    /// - Throws: `WireError.missingKey`, or `badSeal` if a bit of the sealed or the clear part was changed.
    func open(_ sealed: ArraySlice<UInt8>, clear: ArraySlice<UInt8>, keyID: UInt64) throws(WireError) -> [UInt8] {
        let keys = try keys(keyID)
        guard sealed.count >= Self.overhead else { throw .badSeal }
        let authenticator = sealed.prefix(Self.authenticatorBytes)
        let ciphertext = sealed.dropFirst(Self.authenticatorBytes).dropLast(Self.tagBytes)
        let payload: [UInt8]
        do {
            let box = try ChaChaPoly.SealedBox(
                nonce: ChaChaPoly.Nonce(data: Self.nonce), ciphertext: ciphertext, tag: sealed.suffix(Self.tagBytes))
            payload = [UInt8](try ChaChaPoly.open(box, using: Self.messageKey(Array(authenticator), keys), authenticating: clear))
        } catch {
            throw .badSeal
        }
        let expected = Self.authenticator(of: payload[...], clear: clear, keys)
        // The comparison takes constant time, so its duration does not reveal how many bytes are correct.
        guard zip(expected, authenticator).reduce(0, { $0 | ($1.0 ^ $1.1) }) == 0 else { throw .badSeal }
        return payload
    }

    /// The nonce is constant because every message has its own key.
    private static let nonce = [UInt8](repeating: 0, count: 12)

    private static func authenticator(of payload: ArraySlice<UInt8>, clear: ArraySlice<UInt8>, _ keys: Derived) -> [UInt8] {
        var mac = HMAC<SHA256>(key: keys.authentication)
        mac.update(data: withUnsafeBytes(of: UInt64(clear.count).littleEndian, Array.init))
        mac.update(data: clear)
        mac.update(data: payload)
        return Array(mac.finalize())
    }

    private static func messageKey(_ authenticator: [UInt8], _ keys: Derived) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: keys.message, salt: authenticator, info: Array("annals 1 message".utf8), outputByteCount: 32)
    }
}

extension SpaceKeyRing {
    /// The cipher that seals and opens in one space.
    package func cipher(for space: SpaceName) -> SpaceCipher { SpaceCipher(self, space) }
}
