package import AnnalsCore
import AnnalsSchema
package import AnnalsWire
import GRDB

/// The entries of a page after a position, read from their clear parts only. Local certification needs them before any
/// body is opened.
///
/// The parts of a transaction that is too large for one batch are one entry, at the position of the last part.
package struct Entries {
    /// The content that is opened at once.
    package enum Source {
        /// Some transactions of a frame's batch.
        case batch(LogFrame, indices: Range<Int>)
        /// All parts of one transaction.
        case parts(Parts)
        /// Voided transactions, starting at the position `first`.
        case voided(LogFrame, indices: Range<Int>, first: Position, [Digest])
        /// A part of this replica's own transaction. The rows hold it already.
        case ownPart(Position, Digest)
    }

    package struct Parts {
        package var first: Position
        package var count: Int
        /// The parts that this page holds. Earlier parts are buffered.
        package var frames: [LogFrame] = []

        package var last: Position { first.advanced(by: count - 1) }
        package var isWhole: Bool { frames.last?.lastPosition == last }
    }

    package struct Entry {
        package var position: Position
        package var replica: ReplicaID
        package var footprint: Footprint
    }

    package private(set) var sources: [Source] = []
    package private(set) var list: [Entry] = []
    /// The parts of a transaction without its last part.
    package private(set) var unfinished: Parts?
    /// The authors of everything in the page, also of unfinished parts, with the positions.
    package private(set) var authors: [(replica: ReplicaID, position: Position)] = []
    /// The latest time of receipt of an entry by the relay's clock, in milliseconds since 1970. It can be long before the pull.
    private(set) var lastReceipt: Int64 = 0
    /// Each entry's link in the chain of its author.
    private var links: [(position: Position, replica: ReplicaID, link: AuthorChains.Link)] = []

    /// - Parameters:
    ///   - position: The position up to which the log is applied.
    ///   - kept: The newest buffered part after it.
    ///   - ahead: The positions of own entries that are ahead.
    ///   - digests: The digests of these entries. The log of a relay that was restored from an older backup has other entries
    ///     there. Then the page is refused.
    ///   - state: The replica. Its own entries are recognized by their digests.
    ///   - chains: The newest known entries of the authors.
    init(
        _ page: Page, after position: Position, kept: BufferedParts.Last?, ahead: Set<Position>, digests: [Position: Digest],
        _ state: ReplicaState, _ chains: AuthorChains
    ) throws {
        let pulled = kept?.position ?? position
        var chains = chains
        if let kept { chains.passed(kept.header) }
        var newest: [ReplicaID: (frame: LogFrame, header: BatchHeader)] = [:]
        if pulled > position { unfinished = Parts(first: position.next, count: .max) }
        for frame in page.frames where frame.lastPosition > pulled {
            let header = try BatchHeader.parse(frame.batch)
            if !digests.isEmpty { try Self.expectOwn(digests, in: frame, header) }
            if header.isVoided {
                // Buffered parts of it are discarded and pulled again. The page then holds their clear parts.
                guard unfinished == nil else { throw WireError.badValue("part") }
                addVoided(frame, header, after: pulled)
            } else if header.part.isWhole {
                guard unfinished == nil else { throw WireError.badValue("part") }
                add(frame, header, after: pulled)
            } else {
                if let kept, frame.firstPosition == pulled.next, !kept.isFollowed(by: header) { throw WireError.badValue("part") }
                try addPart(frame, header, ahead: ahead)
            }
            // Buffered parts may belong to a log that the relay lost. The checks above report that first.
            try follow(&chains, frame, header, after: pulled, state)
            newest[header.replica] = (frame, header)
            lastReceipt = max(lastReceipt, frame.receivedAt)
        }
        // Each digest covers the digest before it. So the signature of an author's newest entry covers all its entries in the page.
        for (frame, header) in newest.values { try header.checkSignature(in: frame.batch) }
    }

    /// Compares a frame's entries with the earlier entries of their author.
    private mutating func follow(
        _ chains: inout AuthorChains, _ frame: LogFrame, _ header: BatchHeader, after position: Position, _ state: ReplicaState
    ) throws {
        guard let indices = Self.indices(frame, header, after: position) else { return }
        for index in indices {
            guard let place = frame.position(of: index) else { continue }
            let known = try chains.newest(of: header.replica)
            let follows = try chains.follow(header, index)
            let link = AuthorChains.Link(counter: header.counter(of: index), digest: header.certificates[index].digest)
            links.append((place, header.replica, link))
            // Own entries are recognized by their digests. Entries of another copy of this file give this replica a new identity.
            guard !follows, header.replica != state.replica else { continue }
            try header.checkSignature(in: frame.batch)
            let isSeen = links.dropLast().contains { $0.replica == header.replica }
            if !isSeen, let snapshot = try chains.unconfirmedSnapshot(of: header.replica) {
                throw SuspectSnapshot(snapshot: snapshot, author: header.replica, position: place)
            }
            throw ContradictingLog(
                evidence: try state.evidence(
                    .missingEntry, of: header, in: frame.batch, at: place, about: position, known: known?.digest ?? .zero))
        }
    }

    /// Saves the authors' newest entries up to the position that was applied.
    func saveAuthors(_ db: Database, through position: Position, own: ReplicaID) throws {
        var newest: [ReplicaID: AuthorChains.Link] = [:]
        for entry in links where entry.position <= position && entry.replica != own { newest[entry.replica] = entry.link }
        for (replica, link) in newest.sorted(by: { $0.key < $1.key }) { try AuthorChains.save(db, link, of: replica) }
        try UnconfirmedAuthors.remove(newest.keys, db)
    }

    private static func expectOwn(_ digests: [Position: Digest], in frame: LogFrame, _ header: BatchHeader) throws {
        for (index, certificate) in header.certificates.enumerated() {
            guard let own = frame.position(of: index).flatMap({ digests[$0] }) else { continue }
            guard own == certificate.digest else { throw ReplicaExchange.logRolledBack }
        }
    }

    private mutating func add(_ frame: LogFrame, _ header: BatchHeader, after position: Position) {
        guard let indices = Self.indices(frame, header, after: position) else { return }
        sources.append(.batch(frame, indices: indices))
        for index in indices {
            guard let place = frame.position(of: index) else { continue }
            list.append(Entry(position: place, replica: header.replica, footprint: header.certificates[index].footprint))
            authors.append((header.replica, place))
        }
    }

    private mutating func addVoided(_ frame: LogFrame, _ header: BatchHeader, after position: Position) {
        guard let indices = Self.indices(frame, header, after: position), let first = frame.position(of: indices.lowerBound) else { return }
        sources.append(.voided(frame, indices: indices, first: first, indices.map { header.certificates[$0].digest }))
        authors += indices.compactMap { index in frame.position(of: index).map { (header.replica, $0) } }
    }

    /// The indexes of a frame's transactions after a position; nil if there are none.
    private static func indices(_ frame: LogFrame, _ header: BatchHeader, after position: Position) -> Range<Int>? {
        let first = frame.firstIndex + max(0, Int(position.rawValue - frame.firstPosition.rawValue) + 1)
        let end = frame.firstIndex + frame.acceptedCount
        return first < end && end <= header.certificates.count ? first..<end : nil
    }

    private mutating func addPart(_ frame: LogFrame, _ header: BatchHeader, ahead: Set<Position>) throws {
        guard frame.firstIndex == 0, frame.acceptedCount == 1 else { throw WireError.badValue("part") }
        let place = frame.firstPosition
        authors.append((header.replica, place))
        if ahead.contains(place) {
            guard unfinished == nil else { throw WireError.badValue("part") }
            return sources.append(.ownPart(place, header.certificates[0].digest))
        }
        var parts = unfinished ?? Parts(first: place, count: header.part.count)
        parts.count = header.part.count
        guard place == parts.first.advanced(by: header.part.number) else { throw WireError.badValue("part") }
        // No other entry can be between the parts of one transaction.
        guard !ahead.contains(where: { parts.first...parts.last ~= $0 }) else { throw ReplicaExchange.logRolledBack }
        parts.frames.append(frame)
        unfinished = parts.isWhole ? nil : parts
        guard parts.isWhole else { return }
        sources.append(.parts(parts))
        list.append(Entry(position: place, replica: header.replica, footprint: header.certificates[0].footprint))
    }
}
