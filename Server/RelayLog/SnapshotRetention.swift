package import AnnalsCore

/// The snapshots of a space, and what each is worth to it now.
struct SpaceSnapshots: Sendable {
    /// Oldest first.
    let all: [SnapshotRecord]
    let owners: Owners
    let horizon: Position

    init(_ all: [SnapshotRecord], owners: Owners, horizon: Position) {
        self.all = all
        self.owners = owners
        self.horizon = horizon
    }

    init(of space: Int64, horizon: Position, in db: any LogConnection) throws {
        try self.init(LogStorage.snapshots(of: space, in: db), owners: Owners(of: space, in: db), horizon: horizon)
    }

    /// The same owners, and of the snapshots these.
    func only(_ snapshots: [SnapshotRecord]) -> SpaceSnapshots { SpaceSnapshots(snapshots, owners: owners, horizon: horizon) }

    func isTrusted(_ snapshot: SnapshotRecord) -> Bool { owners.trust(snapshot) }

    /// Whether it is one when it is decided whether another is due, and which one is in the way of another. One that a replica of another
    /// owner refuted is none, and neither is one of a quarantined owner, unless it is trusted all the same.
    func counts(_ snapshot: SnapshotRecord) -> Bool {
        isTrusted(snapshot) || (snapshot.verdict == .unchecked && !owners.isQuarantined(snapshot.owner))
    }

    /// What a clone begins with: the newest that may be believed. Without any it is the newest that counts, or the newest.
    var preferred: SnapshotRecord? { all.last(where: isTrusted) ?? newestThatCounts ?? all.last }

    var newestThatCounts: SnapshotRecord? { all.last(where: counts) }

    /// Those that a replica of another owner is to compare with its rows, the most useful first. One that nobody has compared goes before
    /// one that was refuted, whose maker may be right all the same.
    var toCompare: [SnapshotRecord] {
        let proven = all.last(where: owners.isProven)?.position
        let open = all.reversed().filter { snapshot in
            (proven.map { snapshot.position > $0 } ?? true) && !snapshot.owner.isEmpty && !owners.isQuarantined(snapshot.owner)
        }
        return open.filter { $0.verdict == .unchecked } + open.filter { $0.verdict == .refuted }
    }
}

/// Which snapshots of a space stay, and which make room.
///
/// The first and the newest that are trusted always stay: a clone begins with the newest, purges rest on trusted ones, and where a void
/// takes the newest the log is followed from the first.
struct SnapshotRetention {
    private let space: SpaceSnapshots
    private var rest: [SnapshotRecord]
    private(set) var dropped: [SnapshotRecord] = []
    /// What is being brought: it stays, and takes the place of what its owner brought before and nobody has confirmed.
    private let coming: (position: Position?, owner: String)?

    /// - Parameter coming: whose snapshot is on its way, and its position once it is recorded.
    init(_ space: SpaceSnapshots, coming: (position: Position?, owner: String)? = nil) {
        self.space = space
        self.coming = coming
        rest = space.all
    }

    /// Drops what nothing needs: snapshots before the horizon, where no log follows them, what its owner has replaced, what was refuted
    /// before the newest that is trusted, and of the others those between that come closest to their neighbours, beyond so many.
    mutating func dropUnneeded(kept: Int) {
        while rest.count > 1, rest[0].position < space.horizon { drop(rest[0]) }
        let newest = rest.last(where: space.isTrusted)
        for snapshot in rest where !isProtected(snapshot) && !space.isTrusted(snapshot) {
            let isOld = newest.map { snapshot.position < $0.position } ?? false
            if isReplaced(snapshot) || (isOld && !space.counts(snapshot)) { drop(snapshot) }
        }
        let old = SnapshotRecord.dispensable(rest.map(\.position), horizon: space.horizon, kept: kept, needed: newest?.position)
        for snapshot in rest where old.contains(snapshot.position) { drop(snapshot) }
    }

    /// Drops those that count as none.
    mutating func dropUncounted() {
        for snapshot in rest where !isProtected(snapshot) && !space.counts(snapshot) { drop(snapshot) }
    }

    /// Drops what can be spared, the least useful first, until the rest has no more than so many bytes. False where that cannot be.
    mutating func shrink(to bytes: Int64) -> Bool {
        while byteCount > bytes {
            guard let next = leastUseful else { return false }
            drop(next)
        }
        return true
    }

    private var byteCount: Int64 { rest.reduce(0) { $0 + $1.byteCount } }

    private var leastUseful: SnapshotRecord? {
        let spare = rest.filter { !isProtected($0) }
        let newest = rest.last(where: space.isTrusted)?.position ?? .zero
        return spare.first { !space.counts($0) } ?? spare.first(where: isReplaced)
            ?? spare.first { !space.isTrusted($0) && $0.position < newest } ?? closest(spare.filter(space.isTrusted))
    }

    /// That whose neighbours are closest to one another.
    private func closest(_ spare: [SnapshotRecord]) -> SnapshotRecord? {
        let gap = { [rest] (snapshot: SnapshotRecord) -> Int64 in
            guard let place = rest.firstIndex(of: snapshot) else { return .max }
            return rest[min(place + 1, rest.count - 1)].position.rawValue - rest[max(place - 1, 0)].position.rawValue
        }
        return spare.min { gap($0) < gap($1) }
    }

    private func isProtected(_ snapshot: SnapshotRecord) -> Bool {
        let first = rest.first(where: space.isTrusted) ?? rest.first
        return [coming?.position, first?.position, rest.last(where: space.isTrusted)?.position].contains(snapshot.position)
    }

    /// Of one owner one snapshot is kept that nobody has confirmed.
    private func isReplaced(_ snapshot: SnapshotRecord) -> Bool {
        guard let coming, snapshot.position != coming.position else { return false }
        return !snapshot.owner.isEmpty && snapshot.owner == coming.owner && !space.isTrusted(snapshot)
    }

    private mutating func drop(_ snapshot: SnapshotRecord) {
        rest.removeAll { $0.position == snapshot.position }
        dropped.append(snapshot)
    }
}

extension SnapshotRecord {
    /// The positions of snapshots that are not to be kept.
    ///
    /// - Parameter needed: one that stays wherever it is.
    package static func dispensable(_ positions: [Position], horizon: Position, kept: Int, needed: Position? = nil) -> Set<Position> {
        var rest = positions.sorted()
        var dropped: Set<Position> = []
        while rest.count > 1, rest[0] < horizon { dropped.insert(rest.removeFirst()) }
        while rest.count > max(kept, 2) {
            let gap = { (place: Int) in rest[place + 1].rawValue - rest[place - 1].rawValue }
            let places = (1..<rest.count - 1).filter { rest[$0] != needed }
            guard let place = places.min(by: { gap($0) < gap($1) }) else { break }
            dropped.insert(rest.remove(at: place))
        }
        return dropped
    }
}
