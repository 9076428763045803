package import AnnalsCore
package import AnnalsWire

/// New identities, from the configuration's source of randomness.
package struct NewIdentities: Sendable {
    package let random: @Sendable () -> UInt64

    package init(random: @escaping @Sendable () -> UInt64) {
        self.random = random
    }

    package func next<Kind>() -> Identifier<Kind> {
        var source = Source(draw: random)
        return Identifier(using: &source)
    }

    /// A key pair for a new replica.
    package func key() throws -> ReplicaKey {
        let bytes = (0..<ReplicaKey.byteCount / 8).flatMap { _ in withUnsafeBytes(of: random().littleEndian, Array.init) }
        guard let key = ReplicaKey(bytes: bytes) else {
            throw AnnalsError(.defect, operation: "join", "internal error: a signing key cannot be created")
        }
        return key
    }

    private struct Source: RandomNumberGenerator {
        var draw: @Sendable () -> UInt64

        func next() -> UInt64 { draw() }
    }
}
