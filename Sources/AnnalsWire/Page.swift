public import AnnalsCore

/// The answer to a pull: the log after a position, up to a size.
///
/// All numbers come first and have a checksum. The batches follow as they were pushed, each with its own checksum. So a
/// relay copies batches without reading them.
public struct Page: Hashable, Sendable {
    package static let currentVersion: UInt8 = 1
    static let magic: StaticString = "ANNP"

    public var lineage: Lineage
    /// The newest position of the log.
    public var head: Position
    /// The oldest position after which the log can be pulled.
    public var horizon: Position
    /// The position that was asked for. The first frame contains the next position.
    public var after: Position
    public var frames: [LogFrame]
    /// Whether there is nothing more to pull at the moment.
    public var isLast: Bool
    /// Asks the replica to make a snapshot after it has applied everything. It is in an HTTP header, not in the page's
    /// bytes.
    public var isSnapshotDue = false
    /// Asks the replica to compare the snapshot at this position with its rows after it has applied everything. It is
    /// in the same header.
    public var snapshotToCheck: Position?
    /// The relay's clock when it answered, in milliseconds since 1970. nil if the relay did not send it. It is not in
    /// the page's bytes.
    public var relayTime: Int64?

    public init(lineage: Lineage, head: Position, horizon: Position, after: Position, frames: [LogFrame] = [], isLast: Bool) {
        self.lineage = lineage
        self.head = head
        self.horizon = horizon
        self.after = after
        self.frames = frames
        self.isLast = isLast
    }

    /// The position after which to pull next.
    public var lastPosition: Position {
        frames.last?.lastPosition ?? after
    }
}

extension Page {
    public func encode() -> [UInt8] {
        var writer = ByteWriter(capacity: frames.reduce(256) { $0 + $1.batch.count + 32 })
        encode(into: &writer)
        return writer.bytes
    }

    /// Encodes everything before the batches. The batches follow directly, without separators.
    package func encodeHead() -> [UInt8] {
        encodeHead(lengths: frames.map(\.batch.count))
    }

    /// The same for a page whose batches were not read.
    func encodeHead(lengths: [Int]) -> [UInt8] {
        var writer = ByteWriter(capacity: 256 + 32 * frames.count)
        encodeHead(into: &writer, lengths)
        return writer.bytes
    }

    func encode(into writer: inout ByteWriter) {
        encodeHead(into: &writer, frames.map(\.batch.count))
        for frame in frames { writer.bytes(frame.batch) }
    }

    private func encodeHead(into writer: inout ByteWriter, _ lengths: [Int]) {
        let start = writer.count
        writer.magic(Self.magic, version: Self.currentVersion)
        writer.identifier(lineage)
        writer.position(head)
        writer.position(horizon)
        writer.position(after)
        writer.byte(isLast ? 1 : 0)
        writer.varint(frames.count)
        for (frame, length) in zip(frames, lengths) { frame.encodeHead(into: &writer, batchLength: length) }
        writer.checksum(from: start)
    }

    /// Decodes a page that fills `bytes`. Batches are extracted but not opened.
    ///
    /// The frames must continue the log after `after` without gaps. The first frame may begin before it.
    public static func decode(_ bytes: [UInt8]) throws(WireError) -> Page {
        var reader = ByteReader(bytes)
        let page = try decode(from: &reader)
        try reader.expectEnd()
        return page
    }

    static func decode(from reader: inout ByteReader) throws(WireError) -> Page {
        guard reader.remaining <= WireLimits.maximumPageBytes else { throw .tooLarge("page") }
        let start = reader.offset
        try reader.readMagic(magic, version: currentVersion)
        let lineage = try reader.readIdentifier(Lineage.self)
        let head = try reader.readPosition()
        let horizon = try reader.readPosition()
        let after = try reader.readPosition()
        let isLast = try reader.readBool()
        let count = try reader.readCount(minimumBytes: LogFrame.minimumHeadBytes)
        guard count <= WireLimits.maximumFrames else { throw .tooLarge("frames") }
        var page = Page(lineage: lineage, head: head, horizon: horizon, after: after, isLast: isLast)
        var lengths: [Int] = []
        for index in 0..<count {
            let (frame, length) = try LogFrame.decodeHead(from: &reader)
            let expected = page.lastPosition.next
            let follows = index == 0 ? frame.firstPosition <= expected && frame.lastPosition >= expected : frame.firstPosition == expected
            guard follows, frame.lastPosition <= head else { throw .badValue("position") }
            page.frames.append(frame)
            lengths.append(length)
        }
        try reader.readChecksum(from: start)
        for (index, length) in lengths.enumerated() { page.frames[index].batch = try reader.readBytes(length) }
        return page
    }
}

extension ByteWriter {
    mutating func magic(_ magic: StaticString, version: UInt8) {
        bytes(UnsafeRawBufferPointer(start: magic.utf8Start, count: magic.utf8CodeUnitCount))
        byte(version)
    }
}
