public import AnnalsCore
public import AnnalsSync
public import AnnalsWire
import Foundation
package import RelayLog

/// Snapshots, and dropping what they cover, by the real relay's rules.
extension MemoryRelay {
    public func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        guard let data = FileManager.default.contents(atPath: path) else { throw .unreachable("the file cannot be read", wasSent: false) }
        let (bytes, position) = ([UInt8](data), seen.position)
        guard Digest.sha256(bytes[...]) == digest else { throw .problem(Problem(.badDigest), retryAfter: nil) }
        let refusal = try withLog { log -> Problem.Code? in
            guard log.agrees(with: seen) else { return .wentBack }
            if let snapshot = log.snapshot, snapshot.position > position || (snapshot.position == position && snapshot.digest != digest) {
                return .snapshotSuperseded
            }
            let after = log.frames.filter { $0.firstPosition > position }.reduce(0) { $0 + Int64($1.batch.count) }
            log.snapshots.removeAll { $0.position == position }
            log.snapshots.append(Snapshot(bytes: bytes, position: position, digest: digest, logBytes: log.logBytes - after))
            jobs.note(.init(position: position, byteCount: Int64(bytes.count), logBytes: log.logBytes - after), of: space)
            jobs.end(in: space)
            log.dropOldSnapshots(kept: limits.snapshotsKept)
            return nil
        }
        if let refusal { throw .problem(Problem(refusal), retryAfter: nil) }
        progress(Int64(bytes.count))
    }

    public func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try write(try withLog { $0.snapshot }, to: path, progress)
    }

    public func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        let found = try withLog { log -> Result<Snapshot?, TransportError> in
            if position < log.horizon { return .failure(.problem(Problem(.expired), retryAfter: nil)) }
            if position > log.certifier.head { return .failure(.problem(Problem(.wentBack), retryAfter: nil)) }
            return .success(log.snapshots.last { $0.position <= position })
        }
        return try write(try found.get(), to: path, progress)
    }

    private func write(_ snapshot: Snapshot?, to path: String, _ progress: (Int64) -> Void) throws(TransportError) -> Position {
        guard let snapshot else { throw .problem(Problem(.noSnapshot), retryAfter: nil) }
        guard FileManager.default.createFile(atPath: path, contents: Data(snapshot.bytes)) else {
            throw .unreachable("the file cannot be written", wasSent: false)
        }
        progress(Int64(snapshot.bytes.count))
        return snapshot.position
    }

    /// Drops what the rules allow of the log, and says from where on it is kept.
    @discardableResult
    package func purge(_ rules: PurgeRules) throws(TransportError) -> Position {
        let now = wall()
        return try withLog { log in
            let frames = log.frames
            let head = log.certifier.head
            let limit = rules.limit(head: head, replicas: Array(log.replicas.values), now: now) { time in
                frames.first { $0.receivedAt >= time }.map { $0.firstPosition.advanced(by: -1) } ?? head
            }
            log.horizon = max(log.horizon, log.snapshots.last { $0.position <= limit }?.position ?? .zero)
            log.certifier.raiseFloor(to: log.horizon)
            log.dropFrames()
            log.dropOldSnapshots(kept: limits.snapshotsKept)
            return log.horizon
        }
    }

    /// The replica holds nothing back until it is seen again.
    package func retire(_ replica: ReplicaID) throws(TransportError) {
        let now = wall()
        try withLog { log in
            guard let record = log.replicas[replica] else { return }
            log.replicas[replica]?.retired = max(now, record.lastSeen)
        }
    }
}

extension MemoryRelay.State {
    mutating func note(_ replica: ReplicaID, at position: Position, _ now: Int64) {
        var record =
            replicas[replica] ?? ReplicaRecord(replica: replica, name: "", counter: .zero, position: .zero, lastSeen: now)
        record.position = max(record.position, min(position, certifier.head))
        record.lastSeen = max(record.lastSeen, now)
        replicas[replica] = record
    }

    fileprivate mutating func dropOldSnapshots(kept: Int) {
        let old = SnapshotRecord.dispensable(snapshots.map(\.position), horizon: horizon, kept: kept)
        snapshots.removeAll { old.contains($0.position) }
    }

    /// A frame that the horizon lies in stays whole.
    fileprivate mutating func dropFrames() {
        frames.removeAll { $0.lastPosition <= horizon }
        let first = frames.first?.firstPosition ?? horizon.next
        for replica in entries.keys { entries[replica] = entries[replica]?.filter { $0.value.position >= first } }
    }
}
