package import AnnalsCore

/// An encoded batch, ready to be sent.
package struct EncodedBatch: Hashable, Sendable {
    /// The bytes in pieces, because a batch can have many megabytes.
    package var pieces: [[UInt8]]
    /// The digest of each transaction, in the order of their counters.
    package var digests: [Digest]

    package var bytes: [UInt8] { Array(pieces.joined()) }
}

/// Concatenates bodies to a batch, compresses the payload, seals it if the space is sealed, and signs the batch.
///
///     var batch = BatchEncoder(lineage: lineage, signer: key, firstCounter: counter, previousDigest: digest, schemaVersion: 1)
///     batch.layout(ref: 3, layout)
///     batch.append(body: body, base: position, footprint: footprint)
///     let encoded = try batch.finish()
package struct BatchEncoder {
    private struct Item {
        var base: Position
        var footprint: [UInt8]
        var body: BatchBody
    }

    private let lineage: Lineage
    private let signer: ReplicaKey?
    private let seen: SeenLog?
    private let firstCounter: Counter
    private let previousDigest: Digest
    private let schemaVersion: Int64
    private let codec: Codec
    private let level: Int
    private let part: BatchPart
    private let cipher: SpaceCipher?
    private var layouts: [Int: TableLayout] = [:]
    private var items: [Item] = []

    private var replica: ReplicaID { signer?.replica ?? .relay }

    /// - Parameters:
    ///   - signer: the author of the batch. nil for the relay's own entries.
    ///   - seen: what the author has seen of the log. nil means the newest base, without a running digest.
    ///   - firstCounter: the counter of the first transaction that is appended.
    ///   - previousDigest: the digest of the replica's transaction before that. Zero for counter 1.
    ///   - part: which part of a transaction is appended. A batch with a part contains nothing else.
    ///   - codec: how to pack. A payload that does not shrink is sent unpacked.
    ///   - level: the compression level of zstd.
    ///   - cipher: seals the payload. nil if the space is not sealed.
    package init(
        lineage: Lineage, signer: ReplicaKey?, seen: SeenLog? = nil, firstCounter: Counter, previousDigest: Digest,
        schemaVersion: Int64, part: BatchPart = .whole, codec: Codec = .zstd, level: Int = Compression.batchLevel,
        cipher: SpaceCipher? = nil
    ) {
        precondition(firstCounter > .zero, "counters begin at 1")
        precondition((0..<part.count).contains(part.number), "parts are numbered from 0")
        self.part = part
        self.cipher = cipher
        self.lineage = lineage
        self.signer = signer
        self.seen = seen
        self.firstCounter = firstCounter
        self.previousDigest = previousDigest
        self.schemaVersion = max(schemaVersion, 0)
        self.codec = codec
        self.level = level
    }

    /// The number of appended transactions.
    package var transactionCount: Int { items.count }

    /// The size of the bodies so far, in bytes.
    package private(set) var plainBytes = 0

    /// Adds the layout of a table that bodies refer to by this number. The order of layouts and bodies does not matter.
    package mutating func layout(ref: Int, _ layout: TableLayout) {
        layouts[ref] = layout
    }

    /// Appends the transaction with the next counter.
    package mutating func append(body: [UInt8], base: Position, footprint: Footprint) {
        append(BatchBody(body), base: base, footprint: footprint)
    }

    /// Appends a transaction with a body that is read only by `finish`.
    package mutating func append(_ body: BatchBody, base: Position, footprint: Footprint) {
        items.append(Item(base: base, footprint: footprint.encode(), body: body))
        plainBytes += body.byteCount
    }

    /// Encodes the batch.
    ///
    /// Throws `WireError.tooLarge` if a limit is exceeded. Throws `WireError.badValue` if there is no transaction, if a
    /// body is invalid, or if a body refers to a table without a layout. Also throws the errors of reading a body.
    package func finish() throws -> EncodedBatch {
        guard !items.isEmpty else { throw WireError.badValue("counter") }
        guard part.isWhole || items.count == 1 else { throw WireError.badValue("part") }
        guard part.count <= WireLimits.maximumParts else { throw WireError.tooLarge("parts") }
        guard items.count <= WireLimits.maximumTransactions else { throw WireError.tooLarge("transactions") }
        guard layouts.count <= WireLimits.maximumTables else { throw WireError.tooLarge("tables") }
        var head = ByteWriter()
        let dictionary = BatchDictionary.write(layouts, into: &head)
        let byteCount = head.count + plainBytes
        guard byteCount <= WireLimits.maximumPlainBytes else { throw WireError.tooLarge("payload") }
        var payload = Payload(codec: codec, plainLength: byteCount)
        if codec == .zstd {
            var compressor = try StreamCompressor(level: level, expecting: byteCount)
            payload.digests = try visitPayload(head.bytes, dictionary) { piece in
                try compressor.write(piece) { payload.stored.append($0) }
            }
            try compressor.finish { payload.stored.append($0) }
        }
        if codec == .plain || payload.stored.count >= byteCount {
            payload = Payload(codec: .plain, plainLength: byteCount)
            payload.digests = try visitPayload(head.bytes, dictionary) { payload.stored.append($0) }
        }
        return EncodedBatch(pieces: try envelope(payload), digests: payload.digests)
    }

    private struct Payload {
        var codec: Codec
        var plainLength: Int
        var stored = BytePieces()
        var digests: [Digest] = []
    }

    /// Passes the dictionary and all bodies to `visit`, in pieces. Returns the digests of the transactions.
    private func visitPayload(
        _ head: [UInt8], _ dictionary: BatchDictionary, _ visit: (UnsafeRawBufferPointer) throws -> Void
    ) throws -> [Digest] {
        let digester = BatchDigest(
            replica: replica, firstCounter: firstCounter, schemaVersion: schemaVersion, part: part, secret: cipher?.digestSecret ?? [])
        var digests: [Digest] = []
        try head.withUnsafeBytes(visit)
        for (index, item) in items.enumerated() {
            let layouts = try dictionary.digests(of: try BodyReader(bytes: item.body.head).tables)
            var hasher = digester.hasher(
                index: index, previous: digests.last ?? previousDigest, base: item.base, footprint: item.footprint[...], layouts: layouts)
            var rest = item.body.byteCount
            try item.body.forEachPiece { piece in
                rest -= piece.count
                hasher.update(piece)
                try visit(piece)
            }
            guard rest == 0 else { throw WireError.badLength }
            digests.append(hasher.finish())
        }
        return digests
    }

    private func envelope(_ payload: Payload) throws(WireError) -> [[UInt8]] {
        var writer = ByteWriter(capacity: items.reduce(256) { $0 + $1.footprint.count + 64 })
        writer.magic(BatchHeader.magic, version: BatchHeader.currentVersion)
        writer.byte(payload.codec.rawValue)
        writer.fixed64LE(cipher?.keyID ?? 0)
        writer.identifier(lineage)
        writer.bytes(signer?.publicBytes ?? [UInt8](repeating: 0, count: ReplicaKey.publicByteCount))
        writer.varint(UInt64(firstCounter.rawValue))
        writer.varint(UInt64(schemaVersion))
        writer.varint(part.number)
        writer.varint(part.count)
        writer.varint(items.count)
        let newestBase = items.map(\.base).max() ?? .zero
        (seen ?? SeenLog(position: newestBase, digest: nil)).encode(into: &writer)
        writer.digest(previousDigest)
        for (index, item) in items.enumerated() {
            writer.position(item.base)
            writer.digest(payload.digests[index])
            writer.lengthPrefixed(item.footprint)
            writer.varint(item.body.byteCount)
        }
        writer.varint(payload.plainLength)
        let stored = try cipher?.seal(payload.stored.pieces, clear: writer.bytes) ?? payload.stored.pieces
        let storedBytes = payload.stored.count + (cipher == nil ? 0 : SpaceCipher.overhead)
        writer.bytes(try signature(of: writer.bytes))
        writer.varint(storedBytes)
        let pieces = [writer.bytes] + stored
        guard writer.count + storedBytes + Checksum.byteCount <= WireLimits.maximumBatchBytes else { throw .tooLarge("batch") }
        return pieces + [Checksum.of(pieces)]
    }

    private func signature(of clear: [UInt8]) throws(WireError) -> [UInt8] {
        try signer?.sign(BatchSignature.message(clear: clear[...])) ?? [UInt8](repeating: 0, count: ReplicaKey.signatureByteCount)
    }
}
