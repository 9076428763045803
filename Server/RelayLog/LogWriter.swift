internal import AnnalsCore
internal import AnnalsWire
internal import Logging
internal import Synchronization

/// The only writer of the log, with group commit: pushes queue up during a commit, and the next commit stores all of
/// them, of any space, with one fsync. Each push is answered after its commit.
///
/// The writer runs on the serial queue of the database and needs no task. So a client that disconnects cancels nothing
/// for others. The queue is bounded, and one space can use a share of it; a push above these bounds is refused before
/// it is processed. The queue is fair between spaces.
final class LogWriter: Sendable {
    struct Push: Sendable {
        var space: SpaceName
        var header: BatchHeader
        var batch: [UInt8]
        /// The owner that pushes; nil on an open relay.
        var owner: ReplicaOwner?
    }

    /// The result of a committed push.
    struct Committed: Sendable {
        var verdict: Certifier.Verdict
        var lineage: Lineage
        var head: Position
        var receivedAt: Int64
        /// Bytes of all batches since the space was created.
        var logBytes: Int64
    }

    private final class Pending: Sendable {
        let push: Push
        let continuation: CheckedContinuation<Committed, any Error>

        init(push: Push, continuation: CheckedContinuation<Committed, any Error>) {
            self.push = push
            self.continuation = continuation
        }
    }

    private struct Queue {
        var pending = PushQueue<Pending>()
        var isScheduled = false
        var isClosed = false
    }

    private let database: RelayDatabase
    private let watch: HeadWatch
    private let reserve: DiskReserve
    private let limits: RelayLogLimits
    private let clock: RelayClock
    private let logger: Logger
    private let queue = Mutex(Queue())
    /// Locked only on the write queue of the database, so nothing waits for it.
    private let spaces = Mutex(LoadedSpaces())
    private let groups = Mutex(0)

    init(
        database: RelayDatabase, watch: HeadWatch, reserve: DiskReserve, limits: RelayLogLimits, clock: RelayClock, logger: Logger
    ) {
        self.database = database
        self.watch = watch
        self.reserve = reserve
        self.limits = limits
        self.clock = clock
        self.logger = logger
    }

    /// Commits with pushes since the start.
    var commitCount: Int { groups.withLock { $0 } }

    /// Certifies and stores a push; returns when its commit is durable.
    ///
    /// Throws `RelayLogError`: `.spaceNotFound`, `.replicaOwnedElsewhere`, `.quarantined`, `.overloaded`, `.closing`,
    /// `.transactionTooLarge`, `.spaceFull`, `.diskReserved`, `.diskFull` or `.storage`.
    func push(_ push: Push) async throws -> Committed {
        try await withCheckedThrowingContinuation { continuation in
            enqueue(Pending(push: push, continuation: continuation))
        }
    }

    /// Refuses pushes from now on. Queued pushes are still committed.
    func close() {
        queue.withLock { $0.isClosed = true }
    }

    /// Queued pushes that are not in a commit yet.
    var pendingCount: Int { queue.withLock { $0.pending.count } }

    /// Whether pushes are queued or being committed.
    var isBusy: Bool { queue.withLock { $0.isScheduled } }

    var isClosed: Bool { queue.withLock { $0.isClosed } }

    // MARK: The queue

    private func enqueue(_ pending: Pending) {
        let size = pending.push.batch.count
        let (refusal, schedules) = queue.withLock { queue -> (RelayLogError?, Bool) in
            if queue.isClosed { return (.closing, false) }
            if let bound = fullBound(queue.pending, pending.push.space, size) {
                return (.quota(.pendingPushes, bound, retryAfterSeconds: 1), false)
            }
            queue.pending.append(pending, of: pending.push.space, size: size)
            let schedules = !queue.isScheduled
            queue.isScheduled = true
            return (nil, schedules)
        }
        if let refusal { pending.continuation.resume(throwing: refusal) }
        if schedules { schedule() }
    }

    /// The bound that a push would exceed. A single push always fits.
    private func fullBound(_ queue: PushQueue<Pending>, _ space: SpaceName, _ size: Int) -> QuotaBound? {
        if !queue.isEmpty, queue.count >= limits.pendingPushes || queue.byteCount + size > limits.pendingBytes { return .relay }
        let (count, bytes) = (queue.count(of: space), queue.byteCount(of: space))
        let most = { [limits] (total: Int) in limits.shares.of(total, .space) }
        return count > 0 && (count >= most(limits.pendingPushes) || bytes + size > most(limits.pendingBytes)) ? .space : nil
    }

    private func schedule() {
        database.storage.schedule { db in self.commitNextGroup(db) }
    }

    private func commitNextGroup(_ db: any LogConnection) {
        let group = takeGroup()
        let outcomes = commit(group.map(\.push), db)
        for (pending, outcome) in zip(group, outcomes) {
            if case .success(let committed) = outcome, committed.verdict.accepted > 0 {
                watch.publish(committed.head, of: pending.push.space)
            }
        }
        for (pending, outcome) in zip(group, outcomes) { pending.continuation.resume(with: outcome.mapError { $0 }) }
        let goesOn = queue.withLock { queue in
            queue.isScheduled = !queue.pending.isEmpty
            return queue.isScheduled
        }
        // Scheduled again, without a loop, so that other writes can run between two groups.
        if goesOn { schedule() }
    }

    private func takeGroup() -> [Pending] {
        queue.withLock { $0.pending.takeGroup(limits: limits) }
    }

    // MARK: The commit

    /// Commits all pushes in one transaction. If it fails, each push is tried alone, so that one bad push does not fail
    /// the others.
    private func commit(_ pushes: [Push], _ db: any LogConnection, attempt: Int = 1) -> [Result<Committed, RelayLogError>] {
        do {
            var files: [String] = []
            let outcomes = try spaces.withLock { spaces in
                try commit(pushes, spaces: &spaces, files: &files, db)
            }
            groups.withLock { $0 += 1 }
            for file in files { database.snapshots.remove(file) }
            return outcomes
        } catch {
            // The changes in memory were not stored. Drop them; the next push loads the state of the log.
            spaces.withLock { spaces in
                for push in pushes { spaces.forget(push.space) }
            }
            // The commit may have taken place although it failed here. The retry then finds the push in the log.
            if (error as? any StorageFailure)?.isTransient == true, attempt < limits.commitAttempts {
                return commit(pushes, db, attempt: attempt + 1)
            }
            guard pushes.count == 1 else { return pushes.flatMap { commit([$0], db, attempt: attempt) } }
            let failure = RelayLogError.wrapping(error)
            logger.error("push failed", metadata: ["space": "\(pushes[0].space)", "reason": "\(failure)"])
            return [.failure(failure)]
        }
    }

    /// - Parameter files: collects files that no snapshot uses any more.
    private func commit(
        _ pushes: [Push], spaces: inout LoadedSpaces, files: inout [String], _ db: any LogConnection
    ) throws -> [Result<Committed, RelayLogError>] {
        var outcomes: [Result<Committed, RelayLogError>] = []
        try db.transaction {
            var stored: [SpaceName: LogStorage.Space] = [:]
            var open: [SpaceName: LoadedSpace] = [:]
            // Locks are taken in the order of names, so that two relays of one database cannot deadlock.
            for name in Set(pushes.map(\.space)).sorted(by: { $0.description < $1.description }) {
                stored[name] = try LogStorage.space(name, in: db, locking: true)
                open[name] = try stored[name].map { try spaces.take(name, as: $0, in: db, limits: limits, logger: logger) }
            }
            for push in pushes {
                guard var space = open.removeValue(forKey: push.space) else {
                    outcomes.append(.failure(.spaceNotFound))
                    continue
                }
                if let refusal = try refusal(of: push, in: &space, files: &files, db) {
                    outcomes.append(.failure(refusal))
                } else {
                    outcomes.append(.success(try write(push, to: &space, db)))
                }
                open[push.space] = space
            }
            for (name, space) in open {
                try save(space, name, over: stored[name], db)
                spaces.putBack(space, as: name, limit: limits.residentSpaces)
            }
        }
        return outcomes
    }

    private func save(_ space: LoadedSpace, _ name: SpaceName, over stored: LogStorage.Space?, _ db: any LogConnection) throws {
        let (head, floor) = (space.certifier.head, space.certifier.floor)
        // A risen floor is saved in the commit before the first answer that depends on it.
        guard let stored,
            head != stored.head || floor > stored.floor || space.partChanges != stored.partChanges
                || space.ownerChanges != stored.ownerChanges
        else { return }
        try LogStorage.save(space, in: db)
        guard head != stored.head else { return }
        try SummaryStorage.addGrowth(
            bytes: space.logBytes - stored.logBytes, positions: head.rawValue - stored.head.rawValue, of: space.id, at: clock.wall(), in: db
        )
        try db.announce(head, of: name)
    }

    private func write(_ push: Push, to space: inout LoadedSpace, _ db: any LogConnection) throws -> Committed {
        let replica = push.header.replica
        var finder = AcceptedFinder(replica: space.replicas[replica], db: db)
        let receivedAt = clock.wall()
        let verdict: Certifier.Verdict
        if push.header.part.isWhole {
            try drop(of: replica, in: &space, db)
            verdict = try space.certifier.certify(push.header, now: clock.monotonic()) { try finder.find($0) }
            if verdict.accepted > 0 { try append(push, verdict, to: &space, at: receivedAt, db) }
        } else {
            verdict = try space.certifier.certifyPart(push.header, pending: space.pending[replica], now: clock.monotonic()) {
                try finder.find($0)
            }
            try keepPart(push, verdict, in: &space, at: receivedAt, db)
        }
        if verdict.accepted > 0 || space.pending[replica] != nil { try claim(push, in: &space, at: receivedAt, db) }
        return Committed(
            verdict: verdict, lineage: space.certifier.lineage, head: space.certifier.head, receivedAt: receivedAt, logBytes: space.logBytes
        )
    }

    private func append(
        _ push: Push, _ verdict: Certifier.Verdict, to space: inout LoadedSpace, at receivedAt: Int64, _ db: any LogConnection
    ) throws {
        let row = try noteLast(of: push.header.replica, in: &space, at: receivedAt, db)
        let run = LogStorage.Run(
            firstPosition: verdict.firstPosition, count: verdict.accepted, firstIndex: verdict.known.count, received: receivedAt,
            batch: push.batch)
        let counter = push.header.counter(of: verdict.known.count)
        let digests = push.header.certificates[run.firstIndex...].prefix(run.count).map(\.digest)
        space.logDigest = digests.reduce(space.logDigest) { $0.following($1) }
        space.logBytes += Int64(push.batch.count)
        try LogStorage.append(run, counter: counter, replica: row, digest: space.logDigest, to: space.id, db: db)
    }

    /// Stores the replica's last accepted transaction and returns its row id.
    private func noteLast(of replica: ReplicaID, in space: inout LoadedSpace, at now: Int64, _ db: any LogConnection) throws -> Int64 {
        let last = space.certifier.last(of: replica) ?? .none
        if let known = space.replicas[replica] {
            try LogStorage.setLast(last, ofReplica: known, at: now, db: db)
            return known
        }
        let row = try LogStorage.setLast(last, of: replica, in: space.id, at: now, db: db)
        space.replicas[replica] = row
        return row
    }

    /// Loads the replica's last transaction and row id from the log, until both are known. After this relay refused the
    /// replica's first push, another relay may have accepted it and recorded an owner.
    private func recall(_ replica: ReplicaID, in space: inout LoadedSpace, _ db: any LogConnection) throws {
        guard space.certifier.last(of: replica) == nil || space.replicas[replica] == nil else { return }
        let stored = try LogStorage.replica(replica, of: space.id, in: db)
        space.replicas[replica] = stored?.id
        space.certifier.setLast(stored?.last ?? .none, of: replica)
    }

    // MARK: Refusals

    private func refusal(
        of push: Push, in space: inout LoadedSpace, files: inout [String], _ db: any LogConnection
    ) throws -> RelayLogError? {
        try recall(push.header.replica, in: &space, db)
        guard try mayPush(push, in: &space, db) else { return .replicaOwnedElsewhere(push.header.replica) }
        // A push that is in the log adds nothing. So it gets its answer again, even for a quarantined owner or a full
        // space.
        guard !isKnown(push.header, in: space) else { return nil }
        if let owner = push.owner, try isQuarantined(owner, &space, db) { return .quarantined(owner.text, push.space) }
        if reserve.isReached { return .diskReserved(bytes: limits.diskReserveBytes) }
        guard try makeRoom(for: push, in: &space, db) else { return .transactionTooLarge(limit: limits.pendingPartBytes) }
        guard try fits(push, in: &space, files: &files, db) else { return .spaceFull(limit: limits.spaceBytes) }
        return try quotaRefusal(of: push, in: &space, db)
    }

    private func isQuarantined(_ owner: ReplicaOwner, _ space: inout LoadedSpace, _ db: any LogConnection) throws -> Bool {
        let all = try space.quarantined ?? Set(QuarantineStorage.all(of: space.id, in: db).map(\.owner))
        space.quarantined = all
        return all.contains(owner.text)
    }

    /// Refuses a push above the limits for replicas and buffered parts of one owner, or for buffered parts of the
    /// space.
    private func quotaRefusal(of push: Push, in space: inout LoadedSpace, _ db: any LogConnection) throws -> RelayLogError? {
        if let owner = push.owner, try self.owner(of: push.header.replica, in: &space, db) != owner.text {
            let live = try OwnerStorage.liveCount(of: owner, in: space.id, since: clock.wall() - PurgeRules().silence, db)
            guard live < limits.replicasPerToken else { return .tooManyReplicas(limit: limits.replicasPerToken) }
        }
        // The last part ends the buffering of all parts.
        guard !push.header.part.isLast else { return nil }
        let size = Int64(push.batch.count)
        guard space.partBytes + size <= limits.spacePartBytes else { return Self.tooManyParts(.space) }
        guard let owner = push.owner else { return nil }
        var ofOwner = size
        for (replica, parts) in space.pending where try self.owner(of: replica, in: &space, db) == owner.text { ofOwner += parts.byteCount }
        return ofOwner <= limits.tokenPartBytes ? nil : Self.tooManyParts(.token)
    }

    private static func tooManyParts(_ bound: QuotaBound) -> RelayLogError { .quota(.parts, bound, retryAfterSeconds: 60) }

    /// Whether the replica's last counter, or the buffered parts, cover the whole push. Then the push adds nothing to the log.
    private func isKnown(_ header: BatchHeader, in space: LoadedSpace) -> Bool {
        let newest = space.certifier.last(of: header.replica)?.counter ?? .zero
        if header.counter(of: header.certificates.count - 1) <= newest { return true }
        return !header.part.isWhole && space.pending[header.replica]?.holds(header) == true
    }

    /// Whether the push fits into the limit of the space. The size of the snapshots is read at intervals; above the
    /// limit, snapshots that do not count are dropped.
    private func fits(_ push: Push, in space: inout LoadedSpace, files: inout [String], _ db: any LogConnection) throws -> Bool {
        let (now, size) = (clock.monotonic(), Int64(push.batch.count))
        if now >= space.snapshotBytesUntil {
            space.snapshotBytes = try LogStorage.snapshotBytes(of: space.id, in: db)
            space.snapshotBytesUntil = now + limits.spaceUseMilliseconds
        }
        guard space.byteCount + size > limits.spaceBytes, space.snapshotBytes > 0 else {
            return space.byteCount + size <= limits.spaceBytes
        }
        files += try LogStorage.dropUncounted(of: space.id, in: db)
        space.snapshotBytes = try LogStorage.snapshotBytes(of: space.id, in: db)
        return space.byteCount + size <= limits.spaceBytes
    }

    /// Whether the replica belongs to the sender, or its owner holds it no more.
    private func mayPush(_ push: Push, in space: inout LoadedSpace, _ db: any LogConnection) throws -> Bool {
        guard let owner = push.owner else { return true }
        guard let known = try self.owner(of: push.header.replica, in: &space, db), known != owner.text else { return true }
        return try !OwnerStorage.isHeld(by: known, at: clock.wall(), in: db)
    }

    /// The replica's owner; nil if it has none.
    private func owner(of replica: ReplicaID, in space: inout LoadedSpace, _ db: any LogConnection) throws -> String? {
        if space.owners[replica] == nil {
            if space.replicas[replica] == nil { space.replicas[replica] = try LogStorage.replica(replica, of: space.id, in: db)?.id }
            if let row = space.replicas[replica] { space.owners[replica] = try OwnerStorage.owner(ofReplica: row, in: db) }
        }
        return space.owners[replica]
    }

    /// Makes the sender the owner of the replica.
    private func claim(_ push: Push, in space: inout LoadedSpace, at now: Int64, _ db: any LogConnection) throws {
        let replica = push.header.replica
        guard let owner = push.owner, space.owners[replica] != owner.text else { return }
        let row = try space.replicas[replica] ?? noteLast(of: replica, in: &space, at: now, db)
        try OwnerStorage.setOwner(owner, ofReplica: row, in: db)
        if space.owners.updateValue(owner.text, forKey: replica) != nil { space.ownerChanges += 1 }
    }

    // MARK: Transactions in parts

    /// Returns false, and drops the buffered parts, if a part exceeds the limit for one transaction.
    private func makeRoom(for push: Push, in space: inout LoadedSpace, _ db: any LogConnection) throws -> Bool {
        guard !push.header.part.isWhole, push.header.part.number > 0, let pending = space.pending[push.header.replica],
            pending.isFollowed(by: push.header), pending.byteCount + Int64(push.batch.count) > limits.pendingPartBytes
        else { return true }
        try drop(of: push.header.replica, in: &space, db)
        return false
    }

    /// Buffers a part. The last part moves all of them into the log.
    private func keepPart(
        _ push: Push, _ verdict: Certifier.Verdict, in space: inout LoadedSpace, at receivedAt: Int64, _ db: any LogConnection
    ) throws {
        let replica = push.header.replica
        switch verdict.outcome {
        case .accepted where !verdict.known.isEmpty, .wait, .partsMissing: return
        case .accepted: break
        default: return try drop(of: replica, in: &space, db)
        }
        if space.pending[replica]?.holds(push.header) != true {
            if push.header.part.number == 0 {
                try drop(of: replica, in: &space, db)
                space.pending[replica] = PendingParts(first: push.header, byteCount: push.batch.count)
            } else {
                space.pending[replica]?.append(push.header, byteCount: push.batch.count)
            }
            try PartStorage.append(push.header, push.batch, to: space.id, at: receivedAt, db: db)
            space.partChanges += 1
        }
        guard verdict.accepted > 0, let parts = space.pending[replica] else { return }
        let digests = parts.digests
        space.logBytes += parts.byteCount
        let row = try noteLast(of: replica, in: &space, at: receivedAt, db)
        for (part, digest) in digests.enumerated() {
            space.logDigest = space.logDigest.following(digest)
            try PartStorage.move(
                part, of: replica, row: row, in: space.id, to: verdict.firstPosition.advanced(by: part), digest: space.logDigest,
                at: receivedAt, db: db)
        }
        try drop(of: replica, in: &space, db)
    }

    private func drop(of replica: ReplicaID, in space: inout LoadedSpace, _ db: any LogConnection) throws {
        guard space.pending.removeValue(forKey: replica) != nil else { return }
        space.partChanges += 1
        try PartStorage.drop(of: replica, in: space.id, db: db)
    }
}

/// Finds a replica's transactions in the log. A repeated batch asks for consecutive counters, so the last run is kept
/// and its header is parsed once.
private struct AcceptedFinder {
    let replica: Int64?
    let db: any LogConnection
    private var found: (run: LogStorage.Run, firstCounter: Counter, header: BatchHeader)?

    init(replica: Int64?, db: any LogConnection) {
        self.replica = replica
        self.db = db
    }

    mutating func find(_ counter: Counter) throws -> Certifier.Accepted? {
        if let accepted = accepted(counter) { return accepted }
        guard let replica, let (run, firstCounter) = try LogStorage.run(of: replica, holding: counter, in: db) else { return nil }
        found = (run, firstCounter, try run.header())
        return accepted(counter)
    }

    private func accepted(_ counter: Counter) -> Certifier.Accepted? {
        guard let found else { return nil }
        let offset = counter.rawValue - found.firstCounter.rawValue
        guard offset >= 0, offset < Int64(found.run.count) else { return nil }
        return Certifier.Accepted(
            digest: found.header.certificates[found.run.firstIndex + Int(offset)].digest,
            position: found.run.firstPosition.advanced(by: Int(offset)))
    }
}

/// The spaces in memory; the least recently used one is evicted.
private struct LoadedSpaces: Sendable {
    private var spaces: [SpaceName: LoadedSpace] = [:]
    private var uses = 0

    /// Removes the space from the cache, so that a change copies nothing, and updates it from the database.
    mutating func take(
        _ name: SpaceName, as stored: LogStorage.Space, in db: any LogConnection, limits: RelayLogLimits, logger: Logger
    ) throws -> LoadedSpace {
        if var space = spaces.removeValue(forKey: name), try space.follow(stored, in: db) { return space }
        return try LoadedSpace.load(stored, from: db, limits: limits) { position in
            logger.error("a stored batch is corrupt", metadata: ["space": "\(name)", "position": "\(position)"])
        }
    }

    mutating func putBack(_ space: LoadedSpace, as name: SpaceName, limit: Int) {
        uses += 1
        spaces[name] = space
        spaces[name]?.lastUse = uses
        if spaces.count > limit, let oldest = spaces.min(by: { $0.value.lastUse < $1.value.lastUse })?.key {
            spaces[oldest] = nil
        }
    }

    mutating func forget(_ name: SpaceName) {
        spaces[name] = nil
    }
}
