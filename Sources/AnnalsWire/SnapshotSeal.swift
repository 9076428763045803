package import AnnalsCore

/// The authenticated head of a sealed snapshot.
package struct SnapshotSeal: Hashable, Sendable {
    static let magic = Array("ANNS".utf8)
    static let version: UInt8 = 1
    static let saltBytes = 32
    static let byteCount = 4 + 1 + 8 + 16 + 8 + Digest.byteCount + saltBytes
    /// The size of each piece except the last before it is sealed, in bytes.
    static let pieceBytes = 64 << 10

    package var keyID: UInt64
    package var lineage: Lineage
    /// The position of the snapshot's rows in the log.
    package var position: Position
    /// The log's running digest at the position. nil if the replica that made the snapshot did not know it.
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

    /// The head of a new sealed snapshot.
    ///
    /// - Parameter salt: 32 bytes that are unique among the snapshots under this key.
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

    /// The nonce has the number of the piece and whether it is the last. So no piece can be moved, left out or cut off.
    static func nonce(_ number: UInt64, isLast: Bool) -> [UInt8] {
        withUnsafeBytes(of: number.littleEndian, Array.init) + [0, 0, 0, isLast ? 1 : 0]
    }
}
