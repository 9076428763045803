public import AnnalsCore

/// A batch ready to be sent.
public struct EncodedBatch: Hashable, Sendable {
    public var bytes: [UInt8]
    /// Each transaction's digest, in the order of their counters.
    public var digests: [Digest]
}

/// Strings bodies together into a batch, compresses and signs them off.
///
///     var batch = BatchEncoder(lineage: lineage, replica: replica, firstCounter: counter, previousDigest: digest, schemaVersion: 1)
///     batch.layout(ref: 3, layout)
///     batch.append(body: body, base: position, footprint: footprint)
///     let encoded = try batch.finish()
public struct BatchEncoder: Sendable {
    private struct Item {
        var base: Position
        var footprint: [UInt8]
        var bodyLength: Int
    }

    private let lineage: Lineage
    private let replica: ReplicaID
    private let firstCounter: Counter
    private let previousDigest: Digest
    private let schemaVersion: Int64
    private let codec: Codec
    private let level: Int
    private var layouts: [Int: TableLayout] = [:]
    private var items: [Item] = []
    private var bodies = ByteWriter()

    /// - Parameters:
    ///   - firstCounter: the counter of the first transaction that is appended.
    ///   - previousDigest: the digest of the replica's transaction before that; zero for counter 1.
    ///   - codec: how to pack; what does not shrink travels plain.
    ///   - level: zstd's level.
    public init(
        lineage: Lineage, replica: ReplicaID, firstCounter: Counter, previousDigest: Digest, schemaVersion: Int64,
        codec: Codec = .zstd, level: Int = Compression.batchLevel
    ) {
        precondition(firstCounter > .zero, "counters begin at 1")
        self.lineage = lineage
        self.replica = replica
        self.firstCounter = firstCounter
        self.previousDigest = previousDigest
        self.schemaVersion = max(schemaVersion, 0)
        self.codec = codec
        self.level = level
    }

    /// How many transactions were appended.
    public var transactionCount: Int { items.count }

    /// Bytes of bodies so far; see `WireLimits.batchTargetBytes`.
    public var plainBytes: Int { bodies.count }

    /// Gives the layout of a table that bodies call by this number; before or after those bodies.
    public mutating func layout(ref: Int, _ layout: TableLayout) {
        layouts[ref] = layout
    }

    /// Appends the transaction with the next counter.
    public mutating func append(body: [UInt8], base: Position, footprint: Footprint) {
        items.append(Item(base: base, footprint: footprint.encode(), bodyLength: body.count))
        bodies.bytes(body)
    }

    /// The batch's bytes. The encoder is used up afterwards.
    ///
    /// Throws `tooLarge` when a limit is passed, and `badValue` when there is no transaction, a body is none or names a
    /// table whose layout was not given.
    public mutating func finish() throws(WireError) -> EncodedBatch {
        guard !items.isEmpty else { throw .badValue("counter") }
        guard items.count <= WireLimits.maximumTransactions else { throw .tooLarge("transactions") }
        var plain = ByteWriter(capacity: bodies.count + 64 * layouts.count)
        let dictionary = BatchDictionary.write(layouts, into: &plain)
        var start = plain.count
        plain.bytes(bodies.bytes)
        // A large transaction is not held twice while it is packed; the encoder is done.
        bodies = ByteWriter()
        guard plain.count <= WireLimits.maximumPlainBytes else { throw .tooLarge("payload") }

        let digester = BatchDigest(replica: replica, firstCounter: firstCounter, schemaVersion: schemaVersion)
        var digests: [Digest] = []
        for (index, item) in items.enumerated() {
            let range = start..<start + item.bodyLength
            let layouts = try dictionary.digests(of: try BodyReader(bytes: plain.bytes, range: range).tables)
            digests.append(
                digester.digest(
                    index: index, previous: digests.last ?? previousDigest, base: item.base, footprint: item.footprint[...],
                    layouts: layouts, body: range, in: plain.bytes))
            start = range.upperBound
        }
        return EncodedBatch(bytes: try envelope(plain: plain.bytes, digests: digests), digests: digests)
    }

    private func envelope(plain: [UInt8], digests: [Digest]) throws(WireError) -> [UInt8] {
        var codec = codec
        var stored = plain
        if codec == .zstd {
            let packed = try Compression.compress(plain, level: level)
            if packed.count < plain.count { stored = packed } else { codec = .plain }
        }
        let certificates = items.reduce(0) { $0 + $1.footprint.count + 64 }
        var writer = ByteWriter(capacity: stored.count + certificates + 256)
        writer.magic(BatchHeader.magic, version: BatchHeader.currentVersion)
        writer.byte(codec.rawValue)
        writer.fixed64LE(0)  // Sealed under no key.
        writer.identifier(lineage)
        writer.identifier(replica)
        writer.varint(UInt64(firstCounter.rawValue))
        writer.varint(UInt64(schemaVersion))
        writer.varint(0)  // The only part …
        writer.varint(1)  // … of one.
        writer.varint(items.count)
        writer.digest(previousDigest)
        for (index, item) in items.enumerated() {
            writer.position(item.base)
            writer.digest(digests[index])
            writer.lengthPrefixed(item.footprint)
            writer.varint(item.bodyLength)
        }
        writer.varint(plain.count)
        writer.lengthPrefixed(stored)
        writer.checksum()
        guard writer.count <= WireLimits.maximumBatchBytes else { throw .tooLarge("batch") }
        return writer.bytes
    }
}
