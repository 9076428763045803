public import AnnalsCore

/// A run of consecutive entries of the log, as a pull returns it: a batch as its author sent it, and the positions of
/// the transactions that are in the log.
///
/// The transactions `firstIndex ..< firstIndex + acceptedCount` of the batch have the positions from `firstPosition`
/// on. Readers ignore the other transactions: those before were in the log already, and those after were not accepted.
public struct LogFrame: Hashable, Sendable {
    public var firstPosition: Position
    /// How many transactions at the beginning of the batch do not belong to this frame. Usually zero.
    public var firstIndex: Int
    public var acceptedCount: Int
    /// When the relay received them, in milliseconds since 1970.
    public var receivedAt: Int64
    public var batch: [UInt8]

    public init(firstPosition: Position, firstIndex: Int = 0, acceptedCount: Int, receivedAt: Int64, batch: [UInt8]) {
        self.firstPosition = firstPosition
        self.firstIndex = firstIndex
        self.acceptedCount = acceptedCount
        self.receivedAt = receivedAt
        self.batch = batch
    }

    public var lastPosition: Position {
        firstPosition.advanced(by: acceptedCount - 1)
    }

    /// The position of the transaction with this index in the batch. nil if it does not belong to this frame.
    public func position(of index: Int) -> Position? {
        (firstIndex..<firstIndex + acceptedCount).contains(index) ? firstPosition.advanced(by: index - firstIndex) : nil
    }
}

extension LogFrame {
    /// Position, index, count, receipt time and length take at least one byte each.
    static let minimumHeadBytes = 5

    func encodeHead(into writer: inout ByteWriter, batchLength: Int) {
        writer.position(firstPosition)
        writer.varint(firstIndex)
        writer.varint(acceptedCount)
        writer.milliseconds(receivedAt)
        writer.varint(batchLength)
    }

    /// Decodes everything except the batch, which stays empty, and returns the length of the batch.
    static func decodeHead(from reader: inout ByteReader) throws(WireError) -> (frame: LogFrame, batchLength: Int) {
        let firstPosition = try reader.readPosition()
        let firstIndex = try reader.readInt()
        let acceptedCount = try reader.readInt()
        let receivedAt = try reader.readMilliseconds()
        let length = try reader.readInt()
        guard firstPosition > .zero, acceptedCount > 0, firstIndex <= WireLimits.maximumTransactions,
            acceptedCount <= WireLimits.maximumTransactions
        else { throw .badValue("frame") }
        guard length <= WireLimits.maximumBatchBytes else { throw .tooLarge("batch") }
        let frame = LogFrame(
            firstPosition: firstPosition, firstIndex: firstIndex, acceptedCount: acceptedCount, receivedAt: receivedAt, batch: [])
        return (frame, length)
    }
}

extension LogFrame {
    /// Opens and verifies the batch, and checks that it contains the transactions of this frame.
    package func open(cipher: SpaceCipher? = nil, limits: BatchLimits = .standard) throws(WireError) -> Batch {
        let opened = try Batch.open(batch, cipher: cipher, limits: limits)
        guard firstIndex + acceptedCount <= opened.header.certificates.count else { throw .badLength }
        return opened
    }
}
