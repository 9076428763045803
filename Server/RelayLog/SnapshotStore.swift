package import AnnalsCore
internal import AnnalsWire
internal import Logging
internal import Synchronization

/// Snapshots: their records are in the database, their bytes in a `SnapshotFiles`.
///
/// A complete and verified upload is made durable and then recorded; older snapshots that are not needed are removed.
/// So a recorded snapshot is always complete. Files without a record are leftovers, which the next start removes.
package final class SnapshotStore: Sendable {
    private let database: RelayDatabase
    private let jobs: SnapshotJobs
    let reserve: DiskReserve
    private let limits: RelayLogLimits
    private let clock: RelayClock
    private let logger: Logger
    /// Counts the uploads under way.
    private let uploads: Shares
    /// Counts the bytes of the uploads under way.
    private let room: SnapshotRoom
    private let state = Mutex(State())

    private struct State {
        /// Uploads in parts between two parts, with the time of the last part.
        var parked: [PartsKey: (upload: SnapshotUpload, at: Int64)] = [:]
        var isClosed = false
        /// Files that are missing or truncated, so that each is logged once.
        var lost: Set<String> = []
    }

    private struct PartsKey: Hashable {
        var space: SpaceName
        var position: Position
        var digest: Digest
    }

    /// The received bytes of an upload in parts. A query starts no upload, so it uses no resources. It is refused if the
    /// disk has no room for the announced size, so that no part is sent in vain.
    ///
    /// Throws what `begin` throws, except `.quota`.
    package func progress(
        _ space: SpaceName, position: Position, digest: Digest, of total: Int64? = nil, lineage: Lineage? = nil, by taker: Taker = Taker()
    ) async throws -> Int64 {
        _ = try await check(space, position: position, lineage: lineage, by: taker)
        let key = PartsKey(space: space, position: position, digest: digest)
        if let upload = state.withLock({ $0.parked[key]?.upload }) { return await upload.offset }
        guard reserve.holds(total ?? 0) else {
            let error = RelayLogError.diskReserved(bytes: limits.diskReserveBytes)
            noteRefusal(error, in: space, by: taker)
            throw error
        }
        return 0
    }

    /// Finds or starts the upload in parts for the next bytes. An upload waits `parkedUploadMilliseconds` for its next
    /// part; a restart of the relay drops it.
    ///
    /// Throws what `begin` throws.
    package func uploadInParts(
        _ space: SpaceName, position: Position, digest: Digest, of total: Int64? = nil, lineage: Lineage? = nil, by taker: Taker = Taker()
    ) async throws -> SnapshotUpload {
        let key = PartsKey(space: space, position: position, digest: digest)
        let now = clock.monotonic()
        let known = state.withLock { state in
            state.parked[key]?.at = now
            return state.parked[key]?.upload
        }
        if let known {
            _ = try await check(space, position: position, lineage: lineage, by: taker)
            return known
        }
        let upload = try await begin(space, position: position, of: total, lineage: lineage, by: taker)
        let other = state.withLock { state in
            if let other = state.parked[key]?.upload { return other }
            state.parked[key] = (upload, now)
            return upload
        }
        if other !== upload { await upload.abandon() }
        return other
    }

    /// Ends an upload in parts, successful or not.
    package func endParts(_ space: SpaceName, position: Position, digest: Digest) {
        _ = state.withLock { $0.parked.removeValue(forKey: PartsKey(space: space, position: position, digest: digest)) }
    }

    /// Drops uploads in parts that did not continue in time.
    func abandonStale() async {
        let now = clock.monotonic()
        let stale = state.withLock { state in
            let stale = state.parked.filter { $0.value.at <= now - limits.parkedUploadMilliseconds }
            for key in stale.keys { state.parked[key] = nil }
            return stale.values.map(\.upload)
        }
        for upload in stale { await upload.abandon() }
    }

    init(
        database: RelayDatabase, jobs: SnapshotJobs, reserve: DiskReserve, limits: RelayLogLimits, clock: RelayClock, logger: Logger
    ) throws {
        self.database = database
        self.jobs = jobs
        self.reserve = reserve
        self.limits = limits
        self.clock = clock
        self.logger = logger
        room = SnapshotRoom(limits: limits)
        uploads = Shares(.snapshotUploads, total: limits.snapshotUploads, percents: limits.shares, retryAfterSeconds: 10)
        do {
            let kept = Set(try database.storage.readNow { try LogStorage.snapshotFiles(in: $0) })
            for name in try database.snapshots.removeLeftovers(except: kept) {
                logger.info("removed an unfinished snapshot", metadata: ["file": "\(name)"])
            }
            try lookForLosses()
        } catch {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "cannot read the list of snapshots: \(RelayDatabase.reason(of: error))",
                underlying: error)
        }
    }

    /// Starts an upload of the rows at `position`.
    ///
    /// - Parameter total: the announced size. If that cannot fit, the upload is refused before its first byte. Otherwise
    ///   the room on the disk is promised to it.
    ///
    /// Throws `.spaceNotFound`, `.quarantined`, `.logRolledBack` if the lineage differs, `.beyondHead`,
    /// `.snapshotSuperseded` if a later snapshot counts (`finish` also throws it for another snapshot at the same
    /// position), `.snapshotTooLarge`, `.spaceFull`, `.quota`, `.closing`, `.diskReserved`.
    package func begin(
        _ space: SpaceName, position: Position, of total: Int64? = nil, lineage: Lineage? = nil, by taker: Taker = Taker()
    ) async throws -> SnapshotUpload {
        do {
            return try await start(space, position: position, of: total, lineage: lineage, by: taker)
        } catch {
            noteRefusal(error, in: space, by: taker)
            throw error
        }
    }

    private func start(
        _ space: SpaceName, position: Position, of total: Int64?, lineage: Lineage?, by taker: Taker
    ) async throws -> SnapshotUpload {
        try reserve.check()
        await abandonStale()
        let found = try await check(space, position: position, lineage: lineage, by: taker)
        guard state.withLock({ !$0.isClosed }) else { throw RelayLogError.closing }
        let limit = min(limits.snapshotBytes, limits.spaceBytes)
        if let total {
            guard total <= limit else { throw RelayLogError.snapshotTooLarge(limit: limit) }
            let mayFit = try await RelayLogError.wrapped {
                try await room.mayFit(total, in: found.id, of: taker.credential?.text ?? "", database)
            }
            guard mayFit else { throw RelayLogError.spaceFull(limit: limits.spaceBytes) }
        }
        try uploads.take(1, by: taker)
        let promised = total ?? 0
        do {
            try reserve.promise(promised)
        } catch {
            uploads.give(1, by: taker)
            throw error
        }
        do {
            let file = try database.snapshots.create()
            return SnapshotUpload(
                store: self, space: space, spaceID: found.id, position: position, file: file,
                container: SnapshotContainer(lineage: found.lineage, position: position),
                limit: limit, promised: promised, taker: taker)
        } catch {
            reserve.release(promised)
            uploads.give(1, by: taker)
            throw RelayLogError.wrapping(error)
        }
    }

    /// After a refusal for want of room, the owner is not asked for a snapshot of the space for a while. Otherwise each
    /// of its exchanges would begin the same upload again.
    func noteRefusal(_ error: any Error, in space: SpaceName, by taker: Taker) {
        guard let error = error as? RelayLogError else { return }
        switch error {
        case .diskReserved, .diskFull, .spaceFull, .snapshotTooLarge:
            jobs.noteRefusal(of: taker.credential, in: space, at: clock.monotonic())
        default: return
        }
    }

    /// Opens the newest trusted snapshot, or the newest trusted one that is not after `position`; without a trusted one
    /// the newest that counts, or the newest. It stays readable after it is dropped.
    ///
    /// - Parameter exact: only the snapshot at `position`, trusted or not: a replica compares it with its rows.
    ///
    /// Throws `.spaceNotFound`, `.noSnapshot`, `.expired` if the log begins after `position`, or `.storage`.
    package func open(_ space: SpaceName, atOrBefore position: Position? = nil, exact: Bool = false) async throws -> SnapshotFile {
        try await RelayLogError.wrapped {
            for _ in 0..<limits.snapshotOpenings {
                let record = try await database.storage.read { db in
                    guard let found = try LogStorage.space(space, in: db) else { throw RelayLogError.spaceNotFound }
                    if let position, position < found.horizon { throw RelayLogError.expired(horizon: found.horizon) }
                    if let position, position > found.head { throw RelayLogError.beyondHead(found.head) }
                    // A reader also needs the log after the snapshot.
                    let fitting = try self.usable(of: found.id, space, in: db).filter {
                        $0.position <= position ?? found.head && $0.position >= found.horizon && (!exact || $0.position == position)
                    }
                    if exact { return fitting.last }
                    return try SpaceSnapshots(of: found.id, horizon: found.horizon, in: db).only(fitting).preferred
                }
                guard let record else { throw RelayLogError.noSnapshot }
                // A purge or a newer snapshot may have removed the file since the lookup. Look up again.
                if let file = try? database.snapshots.open(record.file) { return SnapshotFile(record: record, file: file) }
            }
            throw RelayLogError.storage("the snapshot's file cannot be read")
        }
    }

    // MARK: Lost files

    /// The snapshots of a space that can be served, oldest first. If the newest that counts cannot be served, the next
    /// replica that has everything is asked for another one.
    func usable(of space: Int64, _ name: SpaceName, in db: any LogConnection) throws -> [SnapshotRecord] {
        try LogStorage.snapshots(of: space, in: db).filter { snapshot in
            let isUsable = isUsable(snapshot, name, in: db)
            if !isUsable { jobs.noteLoss(of: snapshot.position, in: name) }
            return isUsable
        }
    }

    /// Caches the snapshots of a space for the decision when the next one is due.
    func note(_ snapshots: SpaceSnapshots, of name: SpaceName) {
        let toCompare = Set(snapshots.toCompare.map(\.position))
        let known = snapshots.all.map { snapshot in
            var known = SnapshotJobs.Known(
                position: snapshot.position, byteCount: snapshot.byteCount, logBytes: snapshot.logBytes, isLost: isLost(snapshot))
            known.owner = snapshot.owner
            known.counts = snapshots.counts(snapshot)
            known.isToCompare = toCompare.contains(snapshot.position)
            return known
        }
        jobs.note(known, of: name)
    }

    /// Whether its file was found missing or truncated.
    private func isLost(_ record: SnapshotRecord) -> Bool { state.withLock { $0.lost.contains(record.file) } }

    private func isUsable(_ record: SnapshotRecord, _ space: SpaceName, in db: any LogConnection) -> Bool {
        let byteCount = database.snapshots.byteCount(of: record.file, in: db)
        guard byteCount != record.byteCount else {
            _ = state.withLock { $0.lost.remove(record.file) }
            return true
        }
        if state.withLock({ $0.lost.insert(record.file).inserted }) {
            logger.error(
                "a snapshot's file \(byteCount == nil ? "is missing" : "has a different length than recorded"); the snapshot is not used",
                metadata: ["space": "\(space)", "position": "\(record.position)", "file": "\(record.file)"])
        }
        return false
    }

    /// Logs lost files at the start, so that a replica is asked for another snapshot at once.
    private func lookForLosses() throws {
        try database.storage.readNow { db in
            for name in try LogStorage.names(in: db) {
                guard let space = try LogStorage.space(name, in: db) else { continue }
                _ = try usable(of: space.id, name, in: db)
            }
        }
    }

    /// Refuses uploads from now on.
    func close() async {
        let parked = state.withLock { state in
            state.isClosed = true
            defer { state.parked = [:] }
            return state.parked.values.map(\.upload)
        }
        for upload in parked { await upload.abandon() }
    }

    // MARK: Calls by uploads

    /// Names, keeps and records a complete upload, and removes the snapshots that it replaces.
    func record(_ upload: SnapshotUpload.Finished) async throws -> SnapshotRecord {
        // The name is unique also for the same position and bytes, so that a removal never affects another snapshot.
        let name = "\(upload.spaceID)-\(upload.position)-\(Self.randomText()).zst"
        let record = SnapshotRecord(
            position: upload.position, byteCount: upload.byteCount, digest: upload.digest, file: name, owner: upload.owner?.text ?? "")
        return try await RelayLogError.wrapped {
            try upload.file.keep(as: name)
            do {
                for file in try await add(record, of: upload) { database.snapshots.remove(file) }
            } catch {
                database.snapshots.remove(name)
                throw error
            }
            return record
        }
    }

    /// Returns the files that are not needed any more.
    private func add(_ record: SnapshotRecord, of upload: SnapshotUpload.Finished) async throws -> [String] {
        let (now, space) = (clock.wall(), upload.spaceID)
        // Other uploads under way keep their bytes.
        let bound = limits.spaceBytes - (room.bytes(of: space) - upload.granted)
        let (snapshots, files) = try await database.storage.write { [self, limits] db in
            guard let found = try LogStorage.space(upload.space, in: db, locking: true), found.id == space else {
                throw RelayLogError.spaceNotFound
            }
            var files: [String] = []
            // The owner may have been quarantined, or another snapshot recorded, during the upload.
            try Self.requireFree(upload.owner, in: space, upload.space, db)
            try requireNewest(record.position, digest: record.digest, of: upload.owner, in: found, upload.space, db)
            for other in try LogStorage.snapshots(of: space, in: db) where other.position <= record.position {
                let isSame = other.position == record.position
                // It replaces lost snapshots, and a snapshot at the same position that has the same bytes or does not
                // count.
                guard isLost(other) || isSame else { continue }
                // Checks of the same bytes stay valid.
                if !isSame || other.digest != record.digest { try LogStorage.dropSnapshot(at: other.position, of: space, in: db) }
                files.append(other.file)
            }
            _ = try LogStorage.addSnapshot(record, of: space, at: now, in: db)
            if try record.position <= Position(1) && record.owner == Owners(of: space, in: db).ofFirstEntry {
                // So it stays confirmed if its owner continues with another token.
                try CheckStorage.confirm(at: record.position, of: space, at: now, in: db)
            }
            guard let old = try LogStorage.dropOldSnapshots(of: space, behind: record, to: bound, limits: limits, in: db) else {
                throw RelayLogError.spaceFull(limit: limits.spaceBytes)
            }
            return (try SpaceSnapshots(of: space, horizon: found.horizon, in: db), files + old)
        }
        note(snapshots, of: upload.space)
        jobs.end(in: upload.space)
        jobs.endCheck(in: upload.space)
        return files
    }

    private static func randomText() -> String {
        String(UInt64.random(in: 0 ... .max), radix: 36)
    }

    /// Grants an upload this many bytes, or more. Throws `.spaceFull` and `.storage`.
    func grant(_ bytes: Int64, to taker: Taker, in space: Int64) async throws -> Int64 {
        try await RelayLogError.wrapped {
            let (granted, files) = try await room.grant(bytes, in: space, of: taker.credential?.text ?? "", database)
            for file in files { database.snapshots.remove(file) }
            return granted
        }
    }

    func takeBack(_ bytes: Int64, in space: Int64) { room.give(bytes, in: space) }

    func uploadEnded(_ taker: Taker, granted: Int64, in space: Int64) {
        room.give(granted, in: space)
        uploads.give(1, by: taker)
    }

    // MARK: Checks

    private static func requireFree(_ owner: ReplicaOwner?, in space: Int64, _ name: SpaceName, _ db: any LogConnection) throws {
        if let owner, try QuarantineStorage.holds(owner, in: space, db: db) { throw RelayLogError.quarantined(owner.text, name) }
    }

    private func check(
        _ name: SpaceName, position: Position, lineage: Lineage?, by taker: Taker
    ) async throws -> (id: Int64, lineage: Lineage) {
        try await RelayLogError.wrapped {
            try await database.storage.read { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                try Self.requireFree(taker.credential, in: space.id, name, db)
                guard lineage == nil || lineage == space.lineage else { throw RelayLogError.logRolledBack(head: space.head) }
                guard position <= space.head else { throw RelayLogError.beyondHead(space.head) }
                try self.requireNewest(position, of: taker.credential, in: space, name, db)
                return (space.id, space.lineage)
            }
        }
    }

    /// Throws `.snapshotSuperseded` if a void or a snapshot that counts has a later position, or if a snapshot at this
    /// position has other bytes.
    private func requireNewest(
        _ position: Position, digest: Digest? = nil, of owner: ReplicaOwner?, in space: LogStorage.Space, _ name: SpaceName,
        _ db: any LogConnection
    ) throws {
        // A snapshot before a void may hold the voided rows.
        if let void = try LogStorage.newestVoid(of: space.id, in: db), void > position {
            throw RelayLogError.snapshotSuperseded(by: void)
        }
        let snapshots = try SpaceSnapshots(of: space.id, horizon: space.horizon, in: db).only(usable(of: space.id, name, in: db))
        guard let newest = snapshots.newestThatCounts else { return }
        // Clones may have started from the existing snapshot, so one position has one set of rows. The owner of the
        // first entry decides the initial rows of the space.
        let isFirst = position <= Position(1) && owner != nil && owner?.text == snapshots.owners.ofFirstEntry
        let isFree = isFirst && !snapshots.isTrusted(newest)
        let isOther = newest.position == position && digest.map { $0 != newest.digest } ?? false && !isFree
        if newest.position > position || isOther { throw RelayLogError.snapshotSuperseded(by: newest.position) }
    }
}
