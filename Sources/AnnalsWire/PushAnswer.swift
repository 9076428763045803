public import AnnalsCore

/// Identifies the push that an answer belongs to. The last digest covers everything that the author wrote, so the name
/// is unique.
public struct PushName: Hashable, Sendable {
    package var replica: ReplicaID
    /// The counter of the first transaction, or of the part.
    package var firstCounter: Counter
    /// The digest of the last transaction, or of the part.
    package var lastDigest: Digest

    /// The name of a batch. A transport that makes answers itself needs it.
    ///
    /// - Throws: `WireError` if the bytes are not a batch.
    public init(of batch: [UInt8]) throws(WireError) {
        self = try BatchHeader.parse(batch).pushName
    }

    package init(replica: ReplicaID, firstCounter: Counter, lastDigest: Digest) {
        self.replica = replica
        self.firstCounter = firstCounter
        self.lastDigest = lastDigest
    }
}

extension BatchHeader {
    /// The name of this batch in an answer.
    package var pushName: PushName {
        PushName(replica: replica, firstCounter: firstCounter, lastDigest: certificates.last?.digest ?? .zero)
    }
}

/// The relay's answer to a push.
///
/// All outcomes except `wait` and `partsMissing` are definite. Only after a definite outcome may the author rewrite the
/// transactions that were not accepted.
///
/// A part of a transaction is *accepted* without a position while the relay buffers it. When the last part arrives, all
/// parts get consecutive positions. The answer to the last part gives the position of the last part.
public struct PushAnswer: Hashable, Sendable {
    package static let currentVersion: UInt8 = 2
    static let magic: StaticString = "ANNA"

    public enum Outcome: Hashable, Sendable {
        /// The whole batch is in the log.
        case accepted
        /// The first transaction that was not accepted conflicts with the entry at this position. nil if its base is
        /// older than the kept footprints.
        case stale(at: Position?)
        /// The counter belongs to an entry with other content.
        case identityConflict
        /// The counter or the previous digest does not continue the last accepted transaction.
        case gap
        /// The lineage differs, or the base is beyond the head.
        case logRolledBack
        /// Not definite: another replica has the push lease. Send the same bytes again after this time.
        case wait(milliseconds: Int)
        /// Not definite: the relay does not have the earlier parts, or does not have them any more. Send all parts
        /// again from the first.
        case partsMissing
    }

    public var outcome: Outcome
    /// The push that this answer belongs to.
    public var push: PushName
    /// The positions of the accepted transactions, in the order of their counters and ascending. Transactions that were
    /// in the log before are included.
    public var positions: [Position]
    public var lineage: Lineage
    /// The newest position of the log.
    public var head: Position
    /// The relay's clock, in milliseconds since 1970.
    public var receivedAt: Int64
    /// The log after the base, up to a size.
    public var page: Page?
    /// Asks the author to make a snapshot after it has applied everything. It is in an HTTP header, not in the answer's
    /// bytes.
    public var isSnapshotDue = false
    /// Asks the author to compare the snapshot at this position with its rows. It is in the same header.
    public var snapshotToCheck: Position?

    public init(
        outcome: Outcome, to push: PushName, positions: [Position] = [], lineage: Lineage, head: Position, receivedAt: Int64,
        page: Page? = nil
    ) {
        self.outcome = outcome
        self.push = push
        self.positions = positions
        self.lineage = lineage
        self.head = head
        self.receivedAt = receivedAt
        self.page = page
    }
}

extension PushAnswer {
    /// Encodes the answer.
    ///
    /// - Throws: `WireError.badValue` if positions do not ascend.
    public func encode() throws(WireError) -> [UInt8] {
        var writer = ByteWriter()
        writer.magic(Self.magic, version: Self.currentVersion)
        writer.identifier(push.replica)
        writer.position(Position(push.firstCounter.rawValue))
        writer.digest(push.lastDigest)
        switch outcome {
        case .accepted: writer.byte(0)
        case .stale(let position):
            writer.byte(1)
            writer.position(position ?? .zero)
        case .identityConflict: writer.byte(2)
        case .gap: writer.byte(3)
        case .logRolledBack: writer.byte(4)
        case .wait(let milliseconds):
            writer.byte(5)
            writer.varint(milliseconds)
        case .partsMissing: writer.byte(6)
        }
        writer.identifier(lineage)
        writer.position(head)
        writer.milliseconds(receivedAt)
        writer.varint(positions.count)
        var last = Position.zero
        for position in positions {
            guard position > last else { throw .badValue("position") }
            writer.varint(UInt64(position.rawValue - last.rawValue))
            last = position
        }
        writer.byte(page == nil ? 0 : 1)
        writer.checksum()
        page?.encode(into: &writer)
        return writer.bytes
    }

    public static func decode(_ bytes: [UInt8]) throws(WireError) -> PushAnswer {
        var reader = ByteReader(bytes)
        try reader.readMagic(magic, version: currentVersion)
        let push = PushName(
            replica: try reader.readIdentifier(ReplicaID.self), firstCounter: Counter(try reader.readPosition().rawValue),
            lastDigest: try reader.readDigest())
        let outcome = try decodeOutcome(from: &reader)
        let lineage = try reader.readIdentifier(Lineage.self)
        let head = try reader.readPosition()
        let receivedAt = try reader.readMilliseconds()
        let positions = try decodePositions(from: &reader)
        let hasPage = try reader.readBool()
        try reader.readChecksum(from: 0)
        let page = hasPage ? try Page.decode(from: &reader) : nil
        try reader.expectEnd()
        return PushAnswer(
            outcome: outcome, to: push, positions: positions, lineage: lineage, head: head, receivedAt: receivedAt, page: page)
    }

    private static func decodeOutcome(from reader: inout ByteReader) throws(WireError) -> Outcome {
        switch try reader.readByte() {
        case 0: return .accepted
        case 1:
            let position = try reader.readPosition()
            return .stale(at: position == .zero ? nil : position)
        case 2: return .identityConflict
        case 3: return .gap
        case 4: return .logRolledBack
        case 5:
            let milliseconds = try reader.readInt()
            guard milliseconds <= WireLimits.maximumLeaseWaitMilliseconds else { throw .badValue("wait") }
            return .wait(milliseconds: milliseconds)
        case 6: return .partsMissing
        default: throw .badValue("outcome")
        }
    }

    private static func decodePositions(from reader: inout ByteReader) throws(WireError) -> [Position] {
        let count = try reader.readCount()
        guard count <= WireLimits.maximumTransactions else { throw .tooLarge("positions") }
        var positions: [Position] = []
        var last: Int64 = 0
        for _ in 0..<count {
            let step = try reader.readPosition().rawValue
            guard step > 0, step <= WireLimits.maximumPosition - last else { throw .badValue("position") }
            last += step
            positions.append(Position(last))
        }
        return positions
    }
}
