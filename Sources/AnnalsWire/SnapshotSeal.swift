package import AnnalsCore

/// What stands at the head of a sealed snapshot and cannot be altered.
package struct SnapshotSeal: Hashable, Sendable {
    static let magic = Array("ANNS".utf8)
    static let version: UInt8 = 1
    static let saltBytes = 32
    static let byteCount = 4 + 1 + 8 + 16 + 8 + Digest.byteCount + saltBytes
    /// Bytes of each piece but the last, before it is sealed.
    static let pieceBytes = 64 << 10

    package var keyID: UInt64
    package var lineage: Lineage
    /// The rows are the log's at this position.
    package var position: Position
    /// The log's running digest there; nil where its maker did not know it.
    package var logDigest: Digest?
    var salt: [UInt8]

    var bytes: [UInt8] {
        var writer = ByteWriter(capacity: Self.byteCount)
        writer.bytes(Self.magic)
        writer.byte(Self.version)
        writer.fixed64LE(keyID)
        writer.identifier(lineage)
        writer.fixed64LE(UInt64(bitPattern: position.rawValue))
        writer.digest(logDigest ?? .zero)
        writer.bytes(salt)
        return writer.bytes
    }

    /// Of a snapshot that is to be sealed.
    ///
    /// - Parameter salt: 32 bytes that no other snapshot under this key has.
    package init(
        _ cipher: SpaceCipher, lineage: Lineage, position: Position, logDigest: Digest?, salt: [UInt8] = SnapshotSeal.randomSalt()
    ) {
        precondition(salt.count == Self.saltBytes, "a salt has 32 bytes")
        keyID = cipher.keyID
        self.lineage = lineage
        self.position = position
        self.logDigest = logDigest
        self.salt = salt
    }

    init(_ bytes: [UInt8]) throws(WireError) {
        var reader = ByteReader(bytes)
        guard bytes.starts(with: Self.magic) else { throw .badMagic }
        _ = try reader.readRange(Self.magic.count)
        let version = try reader.readByte()
        guard version == Self.version else { throw .newerVersion(version) }
        keyID = try reader.readFixed64LE()
        lineage = try reader.readIdentifier(Lineage.self)
        let position = Int64(bitPattern: try reader.readFixed64LE())
        guard (0...WireLimits.maximumPosition).contains(position) else { throw .badValue("position") }
        self.position = Position(position)
        let digest = try reader.readDigest()
        logDigest = digest == .zero ? nil : digest
        salt = Array(bytes[try reader.readRange(Self.saltBytes)])
    }

    package static func randomSalt() -> [UInt8] {
        (0..<saltBytes).map { _ in UInt8.random(in: 0 ... .max) }
    }

    /// The number of the piece, and whether it is the last: so none can be moved, left out or cut off.
    static func nonce(_ number: UInt64, isLast: Bool) -> [UInt8] {
        withUnsafeBytes(of: number.littleEndian, Array.init) + [0, 0, 0, isLast ? 1 : 0]
    }
}
