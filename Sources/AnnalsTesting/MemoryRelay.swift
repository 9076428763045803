public import AnnalsCore
public import AnnalsSync
public import AnnalsWire
import Dispatch
import Foundation
package import RelayLog
import Synchronization

/// A relay in memory: the real relay's judgement of pushes, and nothing on disk.
///
///     let clock = ManualClock(milliseconds: 1_700_000_000_000)
///     let relay = MemoryRelay(space: address.space, clock: clock)
///     let agent = SyncAgent(store: store, transport: relay, joining: address, environment: clock.environment)
///     try await agent.sync()
///
/// For tests that make many relays and need none of them afterwards. What it answers is what the real one answers:
/// `RelayConformanceTests` asks both the same things.
public final class MemoryRelay: RelayTransport {
    struct Snapshot {
        var bytes: [UInt8]
        var position: Position
        var digest: Digest
        /// Bytes of the log up to there.
        var logBytes: Int64
    }

    struct State {
        var certifier: Certifier
        /// The log begins after this position.
        var horizon = Position.zero
        /// Those after the horizon, and the one that it lies in.
        var frames: [LogFrame] = []
        /// Bytes of all batches, purged ones included.
        var logBytes: Int64 = 0
        /// The running digest behind every position, from 0.
        var logDigests = [Digest.zero]
        /// Per replica the digests and positions of its entries that the frames hold.
        var entries: [ReplicaID: [Counter: Certifier.Accepted]] = [:]
        /// Who was there, and how far it had come.
        var replicas: [ReplicaID: ReplicaRecord] = [:]
        /// Oldest first.
        var snapshots: [Snapshot] = []
        var snapshot: Snapshot? { snapshots.last }
        /// Parts that wait for the last of their transaction, which brings all of them into the log.
        var pending: [ReplicaID: (parts: PendingParts, batches: [[UInt8]])] = [:]
    }

    let space: SpaceName
    let limits: RelayLogLimits
    let wall: @Sendable () -> Int64
    let monotonic: @Sendable () -> Int64
    private let watch: HeadWatch
    let jobs: SnapshotJobs
    private let newLineage: @Sendable () -> Lineage
    private let state = Mutex<State?>(nil)

    /// - Parameters:
    ///   - space: the space.
    ///   - clock: the relay's clock: receipt times and turns are measured by it.
    public convenience init(space: SpaceName, clock: ManualClock) {
        self.init(space: space, wall: { clock.milliseconds }, monotonic: { clock.milliseconds }, lineage: { .random() })
    }

    /// - Parameters:
    ///   - monotonic: a clock that never goes back, in milliseconds; turns are measured by it.
    ///   - lineage: names the log that `create` begins.
    package init(
        space: SpaceName, wall: @escaping @Sendable () -> Int64, monotonic: @escaping @Sendable () -> Int64,
        lineage: @escaping @Sendable () -> Lineage, limits: RelayLogLimits = RelayLogLimits()
    ) {
        self.limits = limits
        jobs = SnapshotJobs(limits: limits)
        self.space = space
        self.wall = wall
        self.monotonic = monotonic
        watch = HeadWatch(limits: limits)
        newLineage = lineage
    }

    public func describe() async throws(TransportError) -> SpaceDescription {
        try withLog { log in
            let snapshot = log.snapshot.map {
                SpaceDescription.Snapshot(
                    position: $0.position, bytes: Int64($0.bytes.count), digest: $0.digest.description,
                    logDigest: log.logDigests[Int($0.position.rawValue)].description)
            }
            var description = SpaceDescription(
                space: space, lineage: log.certifier.lineage, head: log.certifier.head, horizon: log.horizon, snapshot: snapshot)
            description.time = wall()
            return description
        }
    }

    public func create() async throws(TransportError) -> SpaceDescription {
        let isNew = state.withLock { state in
            guard state == nil else { return false }
            state = State(certifier: Certifier(lineage: newLineage(), head: .zero, loadedFrom: .zero, limits: limits))
            return true
        }
        guard isNew else { throw .problem(Problem(.spaceExists), retryAfter: nil) }
        return try await describe()
    }

    // MARK: Backups

    /// All data of the relay at one moment.
    package struct Backup: Sendable {
        fileprivate var state: State
    }

    /// - Throws: `TransportError` when there is no space yet.
    package func backup() throws(TransportError) -> Backup {
        Backup(state: try withLog { $0 })
    }

    /// What was backed up takes the place of everything there is.
    package func restore(_ backup: Backup) {
        state.withLock { $0 = backup.state }
        jobs.forget(space)
        guard let newest = backup.state.snapshot else { return }
        jobs.note(.init(position: newest.position, byteCount: Int64(newest.bytes.count), logBytes: newest.logBytes), of: space)
    }

    // MARK: The log

    public func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        let header: BatchHeader
        do {
            header = try BatchHeader.parse(batch)
            try header.checkSignature(in: batch)
        } catch {
            throw .problem(Problem(.corruptBatch), retryAfter: nil)
        }
        let (now, receivedAt, limit) = (monotonic(), wall(), WireLimits.inlinePageBytes)
        let answer: PushAnswer? = try withLog { log in
            guard log.agrees(with: seen) else { return nil }
            let verdict = log.certify(header, now: now)
            if header.part.isWhole {
                log.pending[header.replica] = nil
                log.append(verdict, header, batch, at: receivedAt)
            } else {
                log.keepPart(verdict, header, batch, at: receivedAt)
            }
            var answer = PushAnswer(
                outcome: verdict.outcome, to: header.pushName,
                positions: header.part.isWhole ? verdict.positions : verdict.positions.suffix(1),
                lineage: log.certifier.lineage, head: log.certifier.head, receivedAt: receivedAt)
            if let base = verdict.stoppedBase, verdict.outcome.carriesPage, base >= log.horizon {
                answer.page = log.page(after: base, byteLimit: limit)
            }
            if verdict.outcome != .wentBack, let base = header.certificates.first?.base { log.note(header.replica, at: base, receivedAt) }
            if let replica = seen.replica, verdict.outcome == .accepted, verdict.accepted > 0 {
                answer.isSnapshotDue = jobs.gives(to: replica, in: space, head: log.certifier.head, logBytes: log.logBytes, now: now)
            }
            return answer
        }
        guard let answer else { throw .problem(Problem(.wentBack), retryAfter: nil) }
        watch.publish(answer.head, of: space)
        return answer
    }

    public func pull(
        after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?
    ) async throws(TransportError) -> Page {
        let page = try page(after: position, seen, byteLimit)
        guard let wait, page.frames.isEmpty, wait > .zero else { return page }
        do {
            let deadline = DispatchTime.now() + wait / .seconds(1)
            _ = try await watch.wait(for: space, after: position, known: page.head, until: deadline)
        } catch is CancellationError {
            throw .cancelled
        } catch {
            throw .problem(Problem(.unavailable), retryAfter: nil)
        }
        return try self.page(after: position, seen, byteLimit)
    }

    private func page(after position: Position, _ seen: LogMark, _ byteLimit: Int) throws(TransportError) -> Page {
        let now = monotonic()
        let answer = try withLog { log -> Result<Page, TransportError> in
            guard log.agrees(with: seen), position <= log.certifier.head else {
                return .failure(.problem(Problem(.wentBack), retryAfter: nil))
            }
            guard position >= log.horizon else { return .failure(.problem(Problem(.expired), retryAfter: nil)) }
            var page = log.page(after: position, byteLimit: byteLimit)
            page.relayTime = wall()
            if let replica = seen.replica {
                log.note(replica, at: position, wall())
                page.isSnapshotDue =
                    page.isLast && jobs.gives(to: replica, in: space, head: page.head, logBytes: log.logBytes, now: now)
            }
            return .success(page)
        }
        return try answer.get()
    }

    func withLog<T>(_ body: (inout State) -> T) throws(TransportError) -> T {
        let result: T? = state.withLock { state in
            guard var log = state else { return nil }
            // Taken out, so that changing it copies nothing.
            state = nil
            defer { state = log }
            return body(&log)
        }
        guard let result else { throw .problem(Problem(.spaceNotFound), retryAfter: nil) }
        return result
    }
}

extension MemoryRelay.State {
    func agrees(with seen: LogMark) -> Bool {
        guard seen.lineage == certifier.lineage, seen.position <= certifier.head else { return false }
        return seen.digest == nil || seen.position < horizon || seen.digest == logDigests[Int(seen.position.rawValue)]
    }

    private mutating func note(_ digest: Digest, at position: Position, of replica: ReplicaID, _ counter: Counter) {
        entries[replica, default: [:]][counter] = Certifier.Accepted(digest: digest, position: position)
        logDigests.append((logDigests.last ?? .zero).following(digest))
    }

    fileprivate mutating func certify(_ header: BatchHeader, now: Int64) -> Certifier.Verdict {
        if certifier.last(of: header.replica) == nil { certifier.setLast(.none, of: header.replica) }
        let known = entries[header.replica] ?? [:]
        func accepted(_ counter: Counter) -> Certifier.Accepted? { known[counter] }
        return header.part.isWhole
            ? certifier.certify(header, now: now, accepted: accepted)
            : certifier.certifyPart(header, pending: pending[header.replica]?.parts, now: now, accepted: accepted)
    }

    fileprivate mutating func append(_ verdict: Certifier.Verdict, _ header: BatchHeader, _ batch: [UInt8], at receivedAt: Int64) {
        guard verdict.accepted > 0 else { return }
        let first = verdict.known.count
        logBytes += Int64(batch.count)
        frames.append(
            LogFrame(
                firstPosition: verdict.firstPosition, firstIndex: first, acceptedCount: verdict.accepted, receivedAt: receivedAt,
                batch: batch))
        for offset in 0..<verdict.accepted {
            note(
                header.certificates[first + offset].digest, at: verdict.firstPosition.advanced(by: offset), of: header.replica,
                header.counter(of: first + offset))
        }
    }

    fileprivate mutating func keepPart(_ verdict: Certifier.Verdict, _ header: BatchHeader, _ batch: [UInt8], at receivedAt: Int64) {
        let replica = header.replica
        switch verdict.outcome {
        case .accepted where !verdict.known.isEmpty, .wait, .partsMissing: return
        case .accepted: break
        default: return pending[replica] = nil
        }
        if pending[replica]?.parts.holds(header) != true {
            if header.part.number == 0 {
                pending[replica] = (PendingParts(first: header, byteCount: batch.count), [batch])
            } else {
                pending[replica]?.parts.append(header, byteCount: batch.count)
                pending[replica]?.batches.append(batch)
            }
        }
        guard verdict.accepted > 0, let whole = pending.removeValue(forKey: replica) else { return }
        for (number, batch) in whole.batches.enumerated() {
            let position = verdict.firstPosition.advanced(by: number)
            frames.append(LogFrame(firstPosition: position, firstIndex: 0, acceptedCount: 1, receivedAt: receivedAt, batch: batch))
            let first = header.firstCounter.rawValue - Int64(header.part.number)
            note(whole.parts.digests[number], at: position, of: replica, Counter(first + Int64(number)))
            logBytes += Int64(batch.count)
        }
    }

    /// At least one frame when there is any, and up to about `byteLimit` bytes.
    fileprivate func page(after position: Position, byteLimit: Int) -> Page {
        var page = Page(lineage: certifier.lineage, head: certifier.head, horizon: horizon, after: position, isLast: true)
        var bytes = 0
        // The log's end is what is asked for nearly always.
        let first = (frames.lastIndex { $0.lastPosition <= position } ?? -1) + 1
        for frame in frames[first...] {
            if !page.frames.isEmpty, bytes + frame.batch.count > byteLimit { break }
            page.frames.append(frame)
            bytes += frame.batch.count
        }
        page.isLast = page.lastPosition == certifier.head
        return page
    }
}
