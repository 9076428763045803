package import AnnalsCore

/// The snapshots of a space, with what each one counts for.
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

    /// The same owners with these snapshots only.
    func only(_ snapshots: [SnapshotRecord]) -> SpaceSnapshots { SpaceSnapshots(snapshots, owners: owners, horizon: horizon) }

    func isTrusted(_ snapshot: SnapshotRecord) -> Bool { owners.trust(snapshot) }

    /// Whether the snapshot counts when the relay decides if another one is due or superseded. A snapshot does not
    /// count if a replica of another owner refuted it, or if its owner is quarantined, unless it is trusted.
    func counts(_ snapshot: SnapshotRecord) -> Bool {
        isTrusted(snapshot) || (snapshot.verdict == .unchecked && !owners.isQuarantined(snapshot.owner))
    }

    /// The snapshot for a clone: the newest trusted one, or else the newest that counts, or else the newest.
    var preferred: SnapshotRecord? { all.last(where: isTrusted) ?? newestThatCounts ?? all.last }

    var newestThatCounts: SnapshotRecord? { all.last(where: counts) }

    /// The snapshots that a replica of another owner should compare with its rows, most useful first. Unchecked
    /// snapshots come before refuted ones, which may be right.
    var toCompare: [SnapshotRecord] {
        let proven = all.last(where: owners.isProven)?.position
        let open = all.reversed().filter { snapshot in
            (proven.map { snapshot.position > $0 } ?? true) && !snapshot.owner.isEmpty && !owners.isQuarantined(snapshot.owner)
        }
        return open.filter { $0.verdict == .unchecked } + open.filter { $0.verdict == .refuted }
    }
}

/// Decides which snapshots of a space to keep.
///
/// The first and the newest trusted snapshot are always kept: a clone starts from the newest, purges need trusted ones,
/// and if a void removes the newest, a clone follows the log from the first.
struct SnapshotRetention {
    private let space: SpaceSnapshots
    private var rest: [SnapshotRecord]
    private(set) var dropped: [SnapshotRecord] = []
    /// The snapshot that is being uploaded. It is kept, and it replaces unconfirmed snapshots of its owner.
    private let coming: (position: Position?, owner: String)?

    /// - Parameter coming: the owner of the snapshot that is being uploaded, and its position once it is recorded.
    init(_ space: SpaceSnapshots, coming: (position: Position?, owner: String)? = nil) {
        self.space = space
        self.coming = coming
        rest = space.all
    }

    /// Drops snapshots that are not needed: those before the horizon, where no log follows; those that their owner
    /// replaced; and refuted ones before the newest trusted one. Of the others it keeps at most `kept`: it drops the
    /// ones with the closest neighbours.
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

    /// Drops snapshots that do not count.
    mutating func dropUncounted() {
        for snapshot in rest where !isProtected(snapshot) && !space.counts(snapshot) { drop(snapshot) }
    }

    /// Drops snapshots that are not needed, the least useful first, until the others have at most `bytes`. Returns
    /// false if that is not possible.
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

    /// The snapshot with the closest neighbours.
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

    /// One unconfirmed snapshot is kept for each owner.
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
    /// The positions of snapshots to drop.
    ///
    /// - Parameter needed: a position that is always kept.
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
