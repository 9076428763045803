package import AnnalsCore
import AnnalsSchema
package import AnnalsWire
import GRDB

/// A page's entries after a position, by their clear parts only: what local certification needs before anything is opened.
///
/// The parts of a transaction too large for one batch are one entry, at the position of the last of them.
package struct Entries {
    /// What is opened at once.
    package enum Source {
        /// These transactions of a frame's batch.
        case batch(LogFrame, indices: Range<Int>)
        /// All parts of one transaction.
        case parts(Parts)
        /// Voided transactions, from that position on.
        case voided(LogFrame, indices: Range<Int>, first: Position, [Digest])
        /// A part of this replica's own: it is in the rows already.
        case ownPart(Position, Digest)
    }

    package struct Parts {
        package var first: Position
        package var count: Int
        /// The parts that came with this page; those before are kept.
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
    /// Parts of a transaction whose last is not here yet.
    package private(set) var unfinished: Parts?
    /// Who is the author of anything here, unfinished parts included, and where.
    package private(set) var authors: [(replica: ReplicaID, position: Position)] = []
    /// The relay's clock at the last entry, in milliseconds since 1970. It can be long ago when the page comes.
    private(set) var lastReceipt: Int64 = 0
    /// Each entry's place in its author's chain.
    private var links: [(position: Position, replica: ReplicaID, link: AuthorChains.Link)] = []

    /// - Parameters:
    ///   - position: up to where the log is applied.
    ///   - kept: the newest of the parts that wait behind it.
    ///   - ahead: where entries of this replica's own stand.
    ///   - digests: which these are. In the log of a relay that was restored from an older backup others stand there; then
    ///     nothing of the page means anything here.
    ///   - state: the replica; its own entries are known by their digests.
    ///   - chains: what is known of the authors.
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
                // Parts of it that are kept are given up and pulled again: their clear parts come then.
                guard unfinished == nil else { throw WireError.badValue("part") }
                addVoided(frame, header, after: pulled)
            } else if header.part.isWhole {
                guard unfinished == nil else { throw WireError.badValue("part") }
                add(frame, header, after: pulled)
            } else {
                if let kept, frame.firstPosition == pulled.next, !kept.isFollowed(by: header) { throw WireError.badValue("part") }
                try addPart(frame, header, ahead: ahead)
            }
            // Kept parts may be of a log that the relay lost: the checks above report that first.
            try follow(&chains, frame, header, after: pulled, state)
            newest[header.replica] = (frame, header)
            lastReceipt = max(lastReceipt, frame.receivedAt)
        }
        // A digest covers those before it, so an author's newest signature speaks for all of its entries here.
        for (frame, header) in newest.values { try header.checkSignature(in: frame.batch) }
    }

    /// Holds a frame's entries against what their author wrote before.
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
            // Own entries are known by their digests, and those of another copy of this file make it a replica of its own.
            guard !follows, header.replica != state.replica else { continue }
            try header.checkSignature(in: frame.batch)
            let isSeen = links.dropLast().contains { $0.replica == header.replica }
            if !isSeen, let snapshot = try chains.snapshot(thatTold: header.replica) {
                throw SuspectSnapshot(snapshot: snapshot, author: header.replica, position: place)
            }
            throw ContradictingLog(
                evidence: try state.evidence(
                    .missingEntry, of: header, in: frame.batch, at: place, about: position, known: known?.digest ?? .zero))
        }
    }

    /// Keeps the authors' newest entries up to where the page was applied.
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

    /// Which of a frame's transactions come after a position; nil when none does.
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
        // Where one transaction stands nothing else does.
        guard !ahead.contains(where: { parts.first...parts.last ~= $0 }) else { throw ReplicaExchange.logRolledBack }
        parts.frames.append(frame)
        unfinished = parts.isWhole ? nil : parts
        guard parts.isWhole else { return }
        sources.append(.parts(parts))
        list.append(Entry(position: place, replica: header.replica, footprint: header.certificates[0].footprint))
    }
}
