import AnnalsCore
import AnnalsWire
import Testing

@Suite struct BatchTests {
    @Test(arguments: [Codec.plain, .zstd])
    func `a batch comes back as it was`(codec: Codec) throws {
        let encoded = try Samples.batch(codec: codec)
        let batch = try Batch.open(encoded.bytes)
        let header = batch.header
        #expect(header.codec == codec)
        #expect(header.lineage == Samples.lineage)
        #expect(header.replica == Samples.replica)
        #expect(header.firstCounter == Counter(41))
        #expect(header.lastCounter == Counter(43))
        #expect(header.schemaVersion == 2)
        #expect(header.previousDigest == Digest.sha256([1, 2, 3]))
        #expect(header.certificates.map(\.digest) == encoded.digests)
        #expect(header.certificates.map(\.footprint) == Samples.footprints)
        #expect(header.certificates.map(\.base) == [Position(0), Position(1_000), Position(2_000)])
        #expect(batch.layouts == [3: Samples.people, 200: Samples.seats])
        #expect(batch.plain[batch.bodyRange(0)].elementsEqual(Samples.firstBody))
        #expect(batch.plain[batch.bodyRange(1)].elementsEqual(Samples.secondBody))
        #expect(batch.plain[batch.bodyRange(2)].elementsEqual(Samples.thirdBody))
        #expect(try batch.body(2).info == Samples.thirdInfo)
    }

    @Test func `a digest does not depend on the batch around the transaction`() throws {
        let whole = try Samples.batch(codec: .zstd)
        // The second and third alone, whose bodies name one table only.
        var tail = BatchEncoder(
            lineage: Samples.lineage, signer: Samples.key, firstCounter: Counter(42), previousDigest: whole.digests[0],
            schemaVersion: 2, codec: .plain)
        tail.layout(ref: 200, Samples.seats)
        tail.append(body: Samples.secondBody, base: Position(1_000), footprint: Samples.footprints[1])
        tail.append(body: Samples.thirdBody, base: Position(2_000), footprint: Samples.footprints[2])
        #expect(try tail.finish().digests == Array(whole.digests.dropFirst()))
    }

    @Test(arguments: [Codec.plain, .zstd])
    func `a body read piece by piece gives the same batch`(codec: Codec) throws {
        var large = BodyEncoder(info: Samples.firstInfo)
        large.beginTable(200)
        for number in 0..<20_000 { large.insert([.integer(Int64(number)), .text("seat \(number &* 7919)")]) }
        let body = large.finish()
        func batch(_ large: BatchBody) throws -> EncodedBatch {
            var batch = BatchEncoder(
                lineage: Samples.lineage, signer: Samples.key, firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1,
                codec: codec)
            batch.layout(ref: 200, Samples.seats)
            batch.append(body: Samples.secondBody, base: .zero, footprint: Samples.footprints[0])
            batch.append(large, base: .zero, footprint: Samples.footprints[1])
            return try batch.finish()
        }
        func inPieces(_ size: Int, byteCount: Int = body.count) -> BatchBody {
            BatchBody(head: Array(body[..<100]), byteCount: byteCount) { visit in
                for start in stride(from: 0, to: body.count, by: size) {
                    try body[start..<min(start + size, body.count)].withUnsafeBytes(visit)
                }
            }
        }
        let whole = try batch(BatchBody(body))
        for size in [1_000, 65_536, body.count] {
            let pieces = try batch(inPieces(size))
            #expect(pieces.digests == whole.digests)
            let opened = try Batch.open(pieces.bytes)
            #expect(opened.header.codec == codec)
            #expect(opened.plain[opened.bodyRange(0)].elementsEqual(Samples.secondBody))
            #expect(opened.plain[opened.bodyRange(1)].elementsEqual(body))
        }
        for wrong in [body.count - 1, body.count + 1] {
            #expect(throws: WireError.self) { try batch(inPieces(65_536, byteCount: wrong)) }
        }
    }

    @Test func `a digest covers everything the author said`() throws {
        struct Input {
            var counter = Counter(7)
            var previous = Digest.zero
            var schemaVersion: Int64 = 1
            var key = Samples.key
            var layout = Samples.seats
            var base = Position(9)
            var footprint = Samples.footprints[0]
            var body = Samples.secondBody

            func digest() throws -> Digest {
                var batch = BatchEncoder(
                    lineage: Samples.lineage, signer: key, firstCounter: counter, previousDigest: previous,
                    schemaVersion: schemaVersion)
                batch.layout(ref: 200, layout)
                batch.append(body: body, base: base, footprint: footprint)
                return try batch.finish().digests[0]
            }
        }
        let changes: [(inout Input) -> Void] = [
            { _ in }, { $0.counter = Counter(8) }, { $0.previous = Digest.sha256([]) }, { $0.schemaVersion = 2 },
            { $0.key = Samples.signingKey(0x51) }, { $0.layout.columns[0] = "seat" }, { $0.base = Position(10) },
            { $0.footprint = .everything }, { $0.body[0] ^= 1 },
        ]
        let digests = try changes.map { change in
            var input = Input()
            change(&input)
            return try input.digest()
        }
        #expect(Set(digests).count == changes.count)
    }

    @Test func `what does not shrink travels plain`() throws {
        var batch = BatchEncoder(
            lineage: Samples.lineage, signer: Samples.key, firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 0)
        var body = BodyEncoder(info: Samples.secondInfo)
        batch.append(body: body.finish(), base: .zero, footprint: Footprint())
        #expect(try BatchHeader.parse(batch.finish().bytes).codec == .plain)
    }

    @Test func `an encoder refuses a batch that no one could read`() {
        func encoder() -> BatchEncoder {
            BatchEncoder(
                lineage: Samples.lineage, signer: Samples.key, firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 0)
        }
        var batch = encoder()
        #expect(throws: WireError.badValue("counter")) { try batch.finish() }
        batch = encoder()
        batch.append(body: Samples.firstBody, base: .zero, footprint: Footprint())
        #expect(throws: WireError.badValue("table")) { try batch.finish() }
    }

    @Test func `a reader keeps to its limits`() throws {
        let bytes = try Samples.batch(codec: .zstd).bytes
        #expect(throws: WireError.tooLarge("batch")) { try Batch.open(bytes, limits: BatchLimits(batchBytes: 100)) }
        #expect(throws: WireError.tooLarge("payload")) { try Batch.open(bytes, limits: BatchLimits(plainBytes: 300)) }
        #expect(throws: WireError.tooLarge("transactions")) { try Batch.open(bytes, limits: BatchLimits(transactions: 2)) }
    }

    @Test func `a frame must not hand out more than its batch holds`() throws {
        let bytes = try Samples.batch(codec: .zstd).bytes
        var frame = LogFrame(firstPosition: Position(1), firstIndex: 1, acceptedCount: 2, receivedAt: 0, batch: bytes)
        #expect(try frame.open().header.certificates.count == 3)
        frame.acceptedCount = 3
        #expect(throws: WireError.badLength) { try frame.open() }
    }

    @Test func `other content under a digest is named by its transaction`() throws {
        let encoded = try Samples.batch(codec: .plain)
        let batch = try Batch.open(encoded.bytes)
        var bytes = encoded.bytes
        // A letter of the second transaction's long text.
        let place = try #require(bytes.firstRange(of: [UInt8](repeating: UInt8(ascii: "y"), count: 64))).lowerBound
        bytes[place] = UInt8(ascii: "z")
        #expect(throws: WireError.badChecksum) { try Batch.open(bytes) }
        Tampering.resign(&bytes)
        #expect(throws: WireError.badDigest(index: 1)) { try Batch.open(bytes) }
        #expect(batch.header.certificates.count == 3)
    }

    @Test func `a newer version is told apart from damage`() throws {
        var bytes = try Samples.batch(codec: .plain).bytes
        bytes[4] = 3
        #expect(throws: WireError.newerVersion(3)) { try BatchHeader.parse(bytes) }
        bytes[4] = 1
        #expect(throws: WireError.olderVersion(1)) { try BatchHeader.parse(bytes) }
        #expect(throws: WireError.badMagic) { try BatchHeader.parse(Array("<!doctype html>".utf8)) }
        #expect(throws: WireError.truncated) { try BatchHeader.parse([]) }
    }
}

/// Changes to a batch that an accident would not make.
enum Tampering {
    /// Gives the bytes a checksum that fits them.
    static func resign(_ bytes: inout [UInt8]) {
        bytes.removeLast(8)
        bytes += Digest.sha256(bytes[...]).bytes[..<8]
    }
}
