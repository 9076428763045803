package import AnnalsCore
internal import AnnalsWire
internal import Logging
internal import Synchronization

/// Snapshots, recorded in the database with their positions, their bytes beside it.
///
/// An upload that is whole and verified is made durable and then recorded; older ones that nothing needs are removed. So a
/// snapshot that is recorded is always whole, and what no record names are leftovers, removed at the next start.
package final class SnapshotStore: Sendable {
    private let database: RelayDatabase
    private let jobs: SnapshotJobs
    let reserve: DiskReserve
    private let limits: RelayLogLimits
    private let clock: RelayClock
    private let logger: Logger
    /// Uploads under way, which are counted until they end.
    private let uploads: Shares
    /// The bytes of those under way.
    private let room: SnapshotRoom
    private let state = Mutex(State())

    private struct State {
        /// Uploads in parts, between one part and the next, and when the last came.
        var parked: [PartsKey: (upload: SnapshotUpload, at: Int64)] = [:]
        var isClosed = false
        /// Files that are gone or cut off, each told of once.
        var lost: Set<String> = []
    }

    private struct PartsKey: Hashable {
        var space: SpaceName
        var position: Position
        var digest: Digest
    }

    /// How many bytes of an upload in parts are here. Asking begins none, so that it takes nobody's room.
    ///
    /// Throws what `begin` throws, but for `.quota`.
    package func progress(
        _ space: SpaceName, position: Position, digest: Digest, lineage: Lineage? = nil, by taker: Taker = Taker()
    ) async throws -> Int64 {
        _ = try await check(space, position: position, lineage: lineage, by: taker)
        let key = PartsKey(space: space, position: position, digest: digest)
        return await state.withLock { $0.parked[key]?.upload }?.offset ?? 0
    }

    /// The upload in parts to which bytes are to be added now. It waits so long for the next ones as `parkedUploadMilliseconds` says; a
    /// relay that starts anew has forgotten it.
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

    /// The upload has ended, well or not.
    package func endParts(_ space: SpaceName, position: Position, digest: Digest) {
        _ = state.withLock { $0.parked.removeValue(forKey: PartsKey(space: space, position: position, digest: digest)) }
    }

    /// Lets go of uploads in parts that did not go on.
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
                .cannotCreate, operation: "relay", "cannot look through the snapshots: \(RelayDatabase.reason(of: error))",
                underlying: error)
        }
    }

    /// Begins an upload of the rows at `position`.
    ///
    /// - Parameter total: the bytes that its sender means to bring. Where there can be no room for them it is refused before the first.
    ///
    /// Throws `.spaceNotFound`, `.quarantined`, `.wentBack` when the position is beyond the head or the lineage another,
    /// `.snapshotSuperseded` when a later one is there that counts; `finish` throws it also when another one of that position is,
    /// `.snapshotTooLarge`, `.spaceFull`, `.quota`, `.closing`, `.diskReserved`.
    package func begin(
        _ space: SpaceName, position: Position, of total: Int64? = nil, lineage: Lineage? = nil, by taker: Taker = Taker()
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
        do {
            let file = try database.snapshots.create()
            return SnapshotUpload(
                store: self, space: space, spaceID: found.id, position: position, file: file,
                container: SnapshotContainer(lineage: found.lineage, position: position),
                limit: limit, taker: taker)
        } catch {
            uploads.give(1, by: taker)
            throw RelayLogError.wrapping(error)
        }
    }

    /// The newest snapshot that may be trusted, or the newest such of no later position than that, open for reading; it stays readable
    /// when it is dropped. Where none may be trusted it is the newest.
    ///
    /// - Parameter exact: only the one at that position, whatever is known of it: a replica compares it with its rows.
    ///
    /// Throws `.spaceNotFound`, `.noSnapshot`, `.expired` where the log begins later than that position, or `.storage`.
    package func open(_ space: SpaceName, atOrBefore position: Position? = nil, exact: Bool = false) async throws -> SnapshotFile {
        try await RelayLogError.wrapped {
            for _ in 0..<limits.snapshotOpenings {
                let record = try await database.storage.read { db in
                    guard let found = try LogStorage.space(space, in: db) else { throw RelayLogError.spaceNotFound }
                    if let position, position < found.horizon { throw RelayLogError.expired(horizon: found.horizon) }
                    if let position, position > found.head { throw RelayLogError.wentBack(head: found.head) }
                    // The log after it is needed, too.
                    let fitting = try self.usable(of: found.id, space, in: db).filter {
                        $0.position <= position ?? found.head && $0.position >= found.horizon && (!exact || $0.position == position)
                    }
                    if exact { return fitting.last }
                    return try SpaceSnapshots(of: found.id, horizon: found.horizon, in: db).only(fitting).preferred
                }
                guard let record else { throw RelayLogError.noSnapshot }
                // A purge, or a newer snapshot, may have removed the file since the look: look again.
                if let file = try? database.snapshots.open(record.file) { return SnapshotFile(record: record, file: file) }
            }
            throw RelayLogError.storage("the snapshot's file cannot be read")
        }
    }

    // MARK: Files that were lost

    /// The snapshots of a space that can be handed out, oldest first. Where the newest that counts cannot, the next replica that has
    /// everything is asked for another.
    func usable(of space: Int64, _ name: SpaceName, in db: any LogConnection) throws -> [SnapshotRecord] {
        try LogStorage.snapshots(of: space, in: db).filter { snapshot in
            let isUsable = isUsable(snapshot, name, in: db)
            if !isUsable { jobs.noteLoss(of: snapshot.position, in: name) }
            return isUsable
        }
    }

    /// Remembers the snapshots of a space for when the next is due.
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

    /// Whether its file was found to be gone or cut off.
    private func isLost(_ record: SnapshotRecord) -> Bool { state.withLock { $0.lost.contains(record.file) } }

    private func isUsable(_ record: SnapshotRecord, _ space: SpaceName, in db: any LogConnection) -> Bool {
        let byteCount = database.snapshots.byteCount(of: record.file, in: db)
        guard byteCount != record.byteCount else {
            _ = state.withLock { $0.lost.remove(record.file) }
            return true
        }
        if state.withLock({ $0.lost.insert(record.file).inserted }) {
            logger.error(
                "a snapshot's file \(byteCount == nil ? "is missing" : "has another length than when it came"): it counts as none",
                metadata: ["space": "\(space)", "position": "\(record.position)", "file": "\(record.file)"])
        }
        return false
    }

    /// Tells at the start of what was lost meanwhile, so that another is asked for at once.
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

    // MARK: What an upload calls

    /// Names, keeps and records a finished upload, and removes the one before.
    func record(_ upload: SnapshotUpload.Finished) async throws -> SnapshotRecord {
        // A name of its own even for the same position and bytes, so that removing one never hits another.
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

    /// Returns the files that are of no more use.
    private func add(_ record: SnapshotRecord, of upload: SnapshotUpload.Finished) async throws -> [String] {
        let (now, space) = (clock.wall(), upload.spaceID)
        // What else is on its way has its room.
        let bound = limits.spaceBytes - (room.bytes(of: space) - upload.granted)
        let (snapshots, files) = try await database.storage.write { [self, limits] db in
            guard let found = try LogStorage.space(upload.space, in: db, locking: true), found.id == space else {
                throw RelayLogError.spaceNotFound
            }
            var files: [String] = []
            // It may have come to that while the bytes were on their way.
            try Self.requireFree(upload.owner, in: space, upload.space, db)
            try requireNewest(record.position, digest: record.digest, of: upload.owner, in: found, upload.space, db)
            for other in try LogStorage.snapshots(of: space, in: db) where other.position <= record.position {
                let isSame = other.position == record.position
                // It takes the place of those that were lost, and of one that has the same bytes or does not count.
                guard isLost(other) || isSame else { continue }
                // What was said of the same bytes stays said.
                if !isSame || other.digest != record.digest { try LogStorage.dropSnapshot(at: other.position, of: space, in: db) }
                files.append(other.file)
            }
            _ = try LogStorage.addSnapshot(record, of: space, at: now, in: db)
            if try record.position <= Position(1) && record.owner == Owners(of: space, in: db).ofFirstEntry {
                // Also when its maker goes on with another token.
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

    /// Room for so many more bytes of an upload, or for some more than that. Throws `.spaceFull` and `.storage`.
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
                guard position <= space.head, lineage == nil || lineage == space.lineage else {
                    throw RelayLogError.wentBack(head: space.head)
                }
                try self.requireNewest(position, of: taker.credential, in: space, name, db)
                return (space.id, space.lineage)
            }
        }
    }

    /// Throws `.snapshotSuperseded` where a void, or a snapshot that counts, is of a later position, or has the position with other bytes.
    private func requireNewest(
        _ position: Position, digest: Digest? = nil, of owner: ReplicaOwner?, in space: LogStorage.Space, _ name: SpaceName,
        _ db: any LogConnection
    ) throws {
        // It may hold what was voided after it.
        if let void = try LogStorage.newestVoid(of: space.id, in: db), void > position {
            throw RelayLogError.snapshotSuperseded(by: void)
        }
        let snapshots = try SpaceSnapshots(of: space.id, horizon: space.horizon, in: db).only(usable(of: space.id, name, in: db))
        guard let newest = snapshots.newestThatCounts else { return }
        // Others may have begun from the one that is there: at one position there is one set of rows. With which rows the space begins
        // says the owner of its first entry.
        let isFirst = position <= Position(1) && owner != nil && owner?.text == snapshots.owners.ofFirstEntry
        let isFree = isFirst && !snapshots.isTrusted(newest)
        let isOther = newest.position == position && digest.map { $0 != newest.digest } ?? false && !isFree
        if newest.position > position || isOther { throw RelayLogError.snapshotSuperseded(by: newest.position) }
    }
}
