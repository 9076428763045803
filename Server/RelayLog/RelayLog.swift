package import AnnalsCore
package import AnnalsWire
internal import Dispatch
package import Logging
internal import Synchronization

/// The log of a relay: spaces, each with one totally ordered log of batches, stored in a directory or in PostgreSQL.
///
///     let log = try RelayLog(directory: "relay-data", logger: logger)
///     _ = try await log.createSpace(space)
///     let answer = try await log.push(batch, header: try BatchHeader.parse(batch), to: space, as: nil)
///     let page = try await log.pull(from: space, after: .zero)
///
/// The relay log never reads a payload. One process at a time serves a directory; any number of processes can serve a
/// PostgreSQL database. Other processes can create and revoke tokens.
package final class RelayLog: Sendable {
    package let tokens: TokenStore
    package let snapshots: SnapshotStore
    package let reserve: DiskReserve
    private let jobs: SnapshotJobs
    let probe: StorageProbe
    let database: RelayDatabase
    private let lock: DirectoryLock?
    private let watch: HeadWatch
    let writer: LogWriter
    let limits: RelayLogLimits
    package let clock: RelayClock
    let logger: Logger
    /// The number of owners after which a reported entry is voided automatically; 0 disables it.
    let autoVoid: Int
    private let acknowledgements: Mutex<ReplicaAcknowledgements>
    private let newLineage: @Sendable () -> Lineage

    /// Opens or creates the log in `directory` and takes the lock for serving it.
    ///
    /// Throws `AnnalsError`: `.busy` when another relay serves the directory, and what opening the database throws.
    package convenience init(
        directory: String, limits: RelayLogLimits = RelayLogLimits(), clock: RelayClock = .system, logger: Logger
    ) throws {
        let database = try RelayDatabase(directory: directory, readers: limits.readers, reserveBytes: limits.diskReserveBytes)
        try self.init(database: database, limits: limits, clock: clock, logger: logger)
    }

    /// Opens the log in a database. `close` also closes the database.
    ///
    /// - Parameters:
    ///   - autoVoid: the number of owners, without the author's, after which a reported entry is voided; 0 disables it.
    ///   - freeBytes: returns the free bytes of the disk; nil: asks the file system of the folder.
    ///   - lineage: makes the lineage of each new space.
    package init(
        database: RelayDatabase, limits: RelayLogLimits = RelayLogLimits(), autoVoid: Int = 0, clock: RelayClock = .system, logger: Logger,
        freeBytes: (@Sendable () -> Int64?)? = nil, lineage: @escaping @Sendable () -> Lineage = { .random() }
    ) throws {
        self.database = database
        newLineage = lineage
        lock = try database.lockForServing()
        watch = HeadWatch(limits: limits)
        let reserve = DiskReserve(limits: limits, clock: clock, look: freeBytes ?? { database.freeBytes() })
        self.reserve = reserve
        writer = LogWriter(database: database, watch: watch, reserve: reserve, limits: limits, clock: clock, logger: logger)
        tokens = TokenStore(database: database, limits: limits, clock: clock)
        jobs = SnapshotJobs(limits: limits) { reserve.holds($0) }
        probe = StorageProbe(limits: limits, clock: clock)
        snapshots = try SnapshotStore(database: database, jobs: jobs, reserve: reserve, limits: limits, clock: clock, logger: logger)
        acknowledgements = Mutex(ReplicaAcknowledgements(now: clock.monotonic()))
        self.limits = limits
        self.autoVoid = autoVoid
        self.clock = clock
        self.logger = logger
        database.storage.listen { [watch] in watch.publish($1, of: $0) }
    }

    // MARK: Spaces

    /// Creates a space with an empty log and a new lineage. Throws `.spaceExists`, `.tooManySpaces`,
    /// `.tooManySpacesOfToken`, `.diskReserved`.
    ///
    /// - Parameter owner: the owner that the space counts for; nil: it counts for none.
    package func createSpace(_ name: SpaceName, by owner: ReplicaOwner? = nil) async throws -> SpaceDescription {
        let lineage = newLineage()
        let now = clock.wall()
        try await writing { [limits, reserve] db in
            // If this runs again after a lost connection, it finds its own space.
            if try LogStorage.space(name, in: db) == nil {
                try reserve.check()
                guard try LogStorage.spaceCount(in: db) < limits.spaces else { throw RelayLogError.tooManySpaces(limit: limits.spaces) }
                if let owner, try LogStorage.spaceCount(of: owner, in: db) >= limits.spacesPerToken {
                    throw RelayLogError.tooManySpacesOfToken(limit: limits.spacesPerToken)
                }
            }
            guard try LogStorage.createSpace(name, lineage: lineage, at: now, by: owner, in: db) else { throw RelayLogError.spaceExists }
        }
        forget(name)
        return try await describe(name)
    }

    /// Drops cached state of a deleted space with this name.
    func forget(_ name: SpaceName) {
        jobs.forget(name)
        watch.publish(.zero, of: name)
    }

    /// Ends a comparison of a snapshot, so that another replica can be asked to compare or to make one.
    func noteChecked(_ name: SpaceName) async {
        jobs.endCheck(in: name)
        try? await noteSnapshots(of: name)
    }

    /// Wakes the requests that wait for this head.
    func publish(_ head: Position, of name: SpaceName) { watch.publish(head, of: name) }

    package func has(_ name: SpaceName) async throws -> Bool {
        try await reading { try LogStorage.space(name, in: $0) != nil }
    }

    /// Throws `.spaceNotFound`.
    package func describe(_ name: SpaceName) async throws -> SpaceDescription {
        var description = try await reading { db in
            guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
            let usable = try self.snapshots.usable(of: space.id, name, in: db)
            let newest = try SpaceSnapshots(of: space.id, horizon: space.horizon, in: db).only(usable).preferred
            // A space that has only its first entry and no snapshot can be created by anyone. This space has a
            // snapshot, so name it, even if its file is lost.
            let named = try newest ?? (space.head > Position(1) ? nil : LogStorage.snapshot(of: space.id, in: db))
            return try LogStorage.describe(name, space, named, in: db)
        }
        description.time = clock.wall()
        return description
    }

    /// All spaces by name.
    package func spaces() async throws -> [SpaceName] {
        try await reading { try LogStorage.names(in: $0) }
    }

    /// Throws `.spaceNotFound`, and `.logRolledBack` if the caller saw another log of the space.
    package func require(_ name: SpaceName, seen: LogMark?) async throws {
        try await reading { db in _ = try Self.find(name, seen: seen, in: db) }
    }

    /// Throws unless the storage answers in time and the relay accepts pushes.
    package func check() async throws {
        guard !writer.isClosed else { throw RelayLogError.closing }
        try await probe.answer { try await self.reading { db in _ = try db.rows("SELECT 1", []) } }
    }

    /// For monitoring: throws `.storage` if the storage does not answer in time.
    package func answerInTime<Answer: Sendable>(_ ask: @escaping @Sendable () async throws -> Answer) async throws -> Answer {
        try await probe.answer(ask)
    }

    /// Refuses a batch with a signed statement about another log, because every receiver compares the statement with
    /// this log. The certifier refuses a batch with another lineage.
    private func requireSigned(_ signed: SeenLog, lineage: Lineage, in name: SpaceName) async throws {
        guard let digest = signed.digest, signed.position > .zero else { return }
        try await reading { db in
            let space = try Self.find(name, in: db)
            guard space.lineage == lineage else { return }
            let here = signed.position > space.head ? nil : try RunningDigests.at(signed.position, of: space.id, in: db)
            // Before the horizon no digest is known, and the certifier accepts no such base.
            guard here == digest || (here == nil && signed.position < space.horizon) else {
                throw RelayLogError.logRolledBack(head: space.head)
            }
        }
    }

    // MARK: Push

    /// Certifies a batch and appends its longest acceptable prefix; returns when that is durable.
    ///
    /// Buffers the parts of a transaction until the last one comes, and then appends all of them at once.
    ///
    /// The same bytes always get the same answer. If the relay stopped at a transaction, the answer carries the log
    /// after the base of that transaction, up to `inlineBytes`.
    ///
    /// - Parameters:
    ///   - displayName: the name that the replica gives itself.
    ///   - program: the program that it runs.
    ///   - owner: who pushes. The first owner that pushes as a replica owns it.
    ///   - seen: what the author has seen of the log. A push is refused if that is another log.
    /// - Throws: `RelayLogError`: `.spaceNotFound`, `.replicaOwnedElsewhere`, `.quarantined`, `.notForReplicas`,
    ///   `.badSignature`, `.logRolledBack`, `.overloaded`, `.closing`, `.transactionTooLarge`, `.spaceFull`,
    ///   `.diskReserved`, `.diskFull` or `.storage`.
    package func push(
        _ batch: [UInt8], header: BatchHeader, to space: SpaceName, as displayName: String? = nil, program: String? = nil,
        by owner: ReplicaOwner? = nil, seen: LogMark? = nil, inlineBytes: Int = WireLimits.inlinePageBytes
    ) async throws -> PushAnswer {
        // Only an operator writes entries of the relay, and voids.
        guard header.replica != .relay, !header.isVoided else { throw RelayLogError.notForReplicas }
        do {
            try header.checkSignature(in: batch)
        } catch {
            throw RelayLogError.badSignature
        }
        // The log only grows, so a check now stays valid.
        if seen?.digest != nil { try await require(space, seen: seen) }
        let isChecked = header.seen.position == seen?.position && header.seen.digest == seen?.digest
        if !isChecked { try await requireSigned(header.seen, lineage: header.lineage, in: space) }
        let committed = try await writer.push(LogWriter.Push(space: space, header: header, batch: batch, owner: owner))
        let verdict = committed.verdict
        if verdict.outcome != .logRolledBack, let base = header.certificates.first?.base {
            note(header.replica, named: displayName, program: program, at: base, in: space, by: owner)
        }
        var answer = PushAnswer(
            outcome: verdict.outcome, to: header.pushName, positions: header.part.isWhole ? verdict.positions : verdict.positions.suffix(1),
            lineage: committed.lineage, head: committed.head, receivedAt: committed.receivedAt)
        if let base = verdict.stoppedBase, verdict.outcome.carriesPage {
            // A base before the horizon has no page; the author learns that when it pulls.
            answer.page = try? await pull(from: space, after: base, byteLimit: inlineBytes)
            // The answer has its own time.
            answer.page?.relayTime = nil
        }
        if let replica = seen?.replica, verdict.outcome == .accepted, verdict.accepted > 0 {
            if !jobs.knows(space) { try? await noteSnapshots(of: space) }
            answer.isSnapshotDue = jobs.gives(
                to: replica, by: owner, in: space, head: committed.head, logBytes: committed.logBytes, now: clock.monotonic())
            if !answer.isSnapshotDue, let owner, jobs.mayNeedCheck(by: owner, in: space) {
                answer.snapshotToCheck = try? await snapshotToCheck(by: replica, owner, in: space)
            }
        }
        return answer
    }

    /// A snapshot that this replica should compare with its rows.
    private func snapshotToCheck(by replica: ReplicaID, _ owner: ReplicaOwner?, in name: SpaceName) async throws -> Position? {
        let found = try await reading { db -> Position? in
            guard let space = try LogStorage.space(name, in: db) else { return nil }
            let snapshots = try SpaceSnapshots(of: space.id, horizon: space.horizon, in: db)
            return try CheckStorage.open(to: owner, of: snapshots, space.id, in: db)?.position
        }
        guard let found, jobs.givesCheck(to: replica, in: name, now: clock.monotonic()) else { return nil }
        return found
    }

    /// Loads the snapshots of a space into the cache. A restarted relay needs this for replicas that only push, and a
    /// check by another owner changes what the snapshots count for.
    private func noteSnapshots(of name: SpaceName) async throws {
        let found = try await reading { db in
            try LogStorage.space(name, in: db).map { try SpaceSnapshots(of: $0.id, horizon: $0.horizon, in: db) }
        }
        if let found { snapshots.note(found, of: name) }
    }

    // MARK: Pull

    /// The log after a position: at least one frame if there is one, and up to about `byteLimit` of batches.
    ///
    /// The first frame may begin before `after`, if `after` lies within a batch. If there is no entry after it, the
    /// pull waits up to `wait` for one, and then returns an empty page.
    ///
    /// The page can ask a replica that may write to compare a snapshot of another owner than `owner` with its rows. A
    /// replica of a quarantined owner gets no such request.
    ///
    /// Throws `RelayLogError`: `.spaceNotFound`, `.expired`, `.logRolledBack`, `.beyondHead`, `.overloaded` or
    /// `.storage`.
    package func pull(
        from name: SpaceName, after: Position, byteLimit: Int = WireLimits.pageTargetBytes, seen: LogMark? = nil,
        wait: Duration = .zero, by owner: ReplicaOwner? = nil
    ) async throws -> Page {
        try await pullOutlined(from: name, after: after, byteLimit: byteLimit, seen: seen, wait: wait, by: owner).page
    }

    /// The same with its outline, which names the page for caches.
    package func pullOutlined(
        from name: SpaceName, after: Position, byteLimit: Int, seen: LogMark?, wait: Duration, by owner: ReplicaOwner?
    ) async throws -> (page: Page, outline: PageOutline) {
        let first = try await page(of: name, after: after, byteLimit: byteLimit, seen: seen, owner)
        guard first.page.frames.isEmpty, wait > .zero else { return first }
        do {
            let head = try await watch.wait(for: name, after: after, known: first.page.head, until: Self.deadline(wait))
            guard head > after else { return first }
        } catch RelayLogError.closing {
            return first
        }
        return try await self.page(of: name, after: after, byteLimit: byteLimit, seen: seen, owner)
    }

    private func page(
        of name: SpaceName, after: Position, byteLimit: Int, seen: LogMark?, _ owner: ReplicaOwner?
    ) async throws -> (page: Page, outline: PageOutline) {
        let now = clock.monotonic()
        var (page, logDigest, logBytes, found, toCheck) = try await reading { [jobs] db in
            let space = try Self.find(name, after: after, seen: seen, in: db)
            let runs = try LogStorage.runs(of: space.id, after: after, byteLimit: byteLimit, in: db)
            let (page, logDigest) = try Self.page(of: space, after: after, runs.map { $0.frame() }, in: db)
            var (found, toCheck): (SpaceSnapshots?, Position?)
            if page.isLast, seen?.replica != nil,
                jobs.needsLook(for: owner, in: name, head: space.head, logBytes: space.logBytes, now: now),
                try !QuarantineStorage.holds(owner, in: space.id, db: db)
            {
                let snapshots = try SpaceSnapshots(of: space.id, horizon: space.horizon, in: db)
                (found, toCheck) = (snapshots, try CheckStorage.open(to: owner, of: snapshots, space.id, in: db)?.position)
            }
            return (page, logDigest, space.logBytes, found, toCheck)
        }
        page.relayTime = clock.wall()
        if let found, let replica = seen?.replica {
            snapshots.note(found, of: name)
            jobs.noteLook(in: name, at: now)
            page.isSnapshotDue = jobs.gives(to: replica, by: owner, in: name, head: page.head, logBytes: logBytes, now: now)
            if !page.isSnapshotDue, let toCheck, jobs.givesCheck(to: replica, in: name, now: now) { page.snapshotToCheck = toCheck }
        }
        return (page, PageOutline(page, logDigest: logDigest))
    }

    /// What a pull would get now, without the batches. It never waits, and asks for no snapshot.
    ///
    /// Throws `RelayLogError`: `.spaceNotFound`, `.expired`, `.logRolledBack`, `.beyondHead` or `.storage`.
    package func outline(
        of name: SpaceName, after: Position, byteLimit: Int = WireLimits.pageTargetBytes, seen: LogMark? = nil
    ) async throws -> PageOutline {
        var outline = try await reading { db in
            let space = try Self.find(name, after: after, seen: seen, in: db)
            let (frames, lengths) = try LogStorage.outlines(of: space.id, after: after, byteLimit: byteLimit, in: db)
            let (page, logDigest) = try Self.page(of: space, after: after, frames, in: db)
            return PageOutline(page, lengths: lengths, logDigest: logDigest)
        }
        outline.page.relayTime = clock.wall()
        return outline
    }

    /// A page of the log with the running digest at its last position.
    private static func page(
        of space: LogStorage.Space, after: Position, _ frames: [LogFrame], in db: any LogConnection
    ) throws -> (page: Page, logDigest: Digest?) {
        var page = Page(lineage: space.lineage, head: space.head, horizon: space.horizon, after: after, frames: frames, isLast: false)
        page.isLast = page.lastPosition == space.head
        // The page that ends at the head has no name, so this query is not for every pull.
        return (page, page.isLast ? nil : try LogStorage.run(of: space.id, at: page.lastPosition, in: db)?.logDigest)
    }

    /// Waits until the head is beyond `after`, for at most `wait`, and returns the head.
    ///
    /// `known` is the newest head that the caller has seen; it saves a query to the database. Throws `.closing` when
    /// the relay stops, `.overloaded`, and CancellationError.
    package func head(of name: SpaceName, after: Position, known: Position, wait: Duration) async throws -> Position {
        try await watch.wait(for: name, after: after, known: known, until: Self.deadline(wait))
    }

    /// The number of requests and streams that wait for a head.
    package var waiterCount: Int { watch.count }

    /// Commits with pushes since the start.
    package var commitCount: Int { writer.commitCount }

    private static func deadline(_ wait: Duration) -> DispatchTime {
        let seconds = min(max(wait, .zero), .seconds(86_400)) / .seconds(1)
        return .now() + seconds
    }

    // MARK: Replicas

    /// Notes that a replica has everything up to `position`. Ignored if the replica belongs to another owner than
    /// `owner`.
    ///
    /// - Parameter mayWrite: whether the caller may write to the space. A replica that only read-only callers named
    ///   holds back no purge.
    package func note(
        _ replica: ReplicaID, named name: String?, program: String? = nil, at position: Position, in space: SpaceName,
        by owner: ReplicaOwner? = nil, mayWrite: Bool = true
    ) {
        let cut = { [limits] (text: String?) in String((text ?? "").prefix(limits.nameCharacters)) }
        let acknowledgement = ReplicaAcknowledgement(
            name: cut(name), program: cut(program), position: position, time: clock.wall(), holdsBack: mayWrite)
        let key = ReplicaAcknowledgements.Key(space: space, replica: replica, owner: owner)
        let (isDue, isFirst) = acknowledgements.withLock { acknowledgements in
            let isFirst = acknowledgements.isEmpty
            return (acknowledgements.note(acknowledgement, of: key, now: clock.monotonic(), limits: limits), isFirst)
        }
        if isDue {
            database.storage.schedule { db in self.saveAcknowledgements(db) }
        } else if isFirst {
            saveAcknowledgementsLater()
        }
    }

    /// Writes the last acknowledgements if no further request comes.
    private func saveAcknowledgementsLater() {
        Task { [weak self, limits, clock] in
            try await clock.sleep(.milliseconds(limits.acknowledgementMilliseconds))
            guard let self, !self.acknowledgements.withLock({ $0.isEmpty }) else { return }
            await self.database.storage.scheduled { self.saveAcknowledgements($0) }
        }
    }

    /// The replicas that pushed to a space or pulled from it. Throws `.spaceNotFound`.
    package func replicas(of name: SpaceName) async throws -> [ReplicaRecord] {
        await database.storage.scheduled { self.saveAcknowledgements($0) }
        return try await reading { db in
            try LogStorage.replicas(of: Self.find(name, in: db).id, in: db)
        }
    }

    /// Writes the pending acknowledgements to the database.
    func saveAcknowledgements(_ db: any LogConnection) {
        let unsaved = acknowledgements.withLock { $0.take(now: clock.monotonic(), limits: limits) }
        guard !unsaved.isEmpty else { return }
        do {
            try db.transaction {
                for (space, group) in unsaved {
                    for (key, acknowledgement) in group { try AcknowledgementStorage.save(acknowledgement, of: key, db: db) }
                    let owners = Set(group.compactMap(\.key.owner))
                    if !owners.isEmpty { try AcknowledgementStorage.trim(space, of: owners, limits: limits, db: db) }
                }
            }
        } catch {
            logger.warning("positions of replicas were not saved", metadata: ["reason": "\(RelayLogError.wrapping(error))"])
        }
    }

    /// Returns after all writes that were scheduled so far.
    package func finishScheduled() async {
        await database.storage.scheduled { _ in }
    }

    // MARK: Closing

    /// Ends all waits, so that event streams and waiting pulls end.
    package func endWaits() {
        watch.close()
    }

    /// Refuses further requests, finishes the commits under way and closes the files.
    package func close() async {
        endWaits()
        writer.close()
        await snapshots.close()
        do {
            // The queue is serial, so this runs after the commits queued before. The loop is needed because a group may
            // leave pushes for the next group.
            while writer.isBusy { await database.storage.scheduled { _ in } }
            await database.storage.scheduled { self.saveAcknowledgements($0) }
            try database.close()
        } catch {
            logger.warning("the log was not closed cleanly", metadata: ["reason": "\(RelayLogError.wrapping(error))"])
        }
        lock?.release()
    }

    // MARK: Access

    private static func find(_ name: SpaceName, seen: LogMark? = nil, in db: any LogConnection) throws -> LogStorage.Space {
        guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
        guard let seen else { return space }
        guard seen.lineage == space.lineage, seen.position <= space.head else { throw RelayLogError.logRolledBack(head: space.head) }
        if let digest = seen.digest, let here = try RunningDigests.at(seen.position, of: space.id, in: db), here != digest {
            throw RelayLogError.logRolledBack(head: space.head)
        }
        return space
    }

    /// The space, if its log can be pulled after this position.
    private static func find(_ name: SpaceName, after: Position, seen: LogMark?, in db: any LogConnection) throws -> LogStorage.Space {
        let space = try find(name, seen: seen, in: db)
        guard after <= space.head else { throw RelayLogError.beyondHead(space.head) }
        guard after >= space.horizon else { throw RelayLogError.expired(horizon: space.horizon) }
        return space
    }

    func reading<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        try await RelayLogError.wrapped { try await database.storage.read(body) }
    }

    private func writing<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        try await RelayLogError.wrapped { try await database.storage.write(body) }
    }
}

extension PushAnswer.Outcome {
    /// Whether an answer with this outcome carries the entries that the author lacks.
    package var carriesPage: Bool {
        switch self {
        case .stale, .identityConflict, .gap: true
        case .accepted, .logRolledBack, .wait, .partsMissing: false
        }
    }
}
