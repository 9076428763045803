internal import AnnalsCore
internal import AnnalsWire

/// A space as the writer holds it in memory between commits.
struct LoadedSpace: Sendable {
    let id: Int64
    var certifier: Certifier
    /// Numbers of the replicas' rows.
    var replicas: [ReplicaID: Int64] = [:]
    /// Parts that wait for the rest of their transaction.
    var pending: [ReplicaID: PendingParts] = [:]
    /// The log's running digest at its head.
    var logDigest: Digest
    /// Bytes of all batches since the space's beginning.
    var logBytes: Int64
    /// When it was used last, as a number that counts the uses of all.
    var lastUse = 0

    /// The certifier's floor as the database has it.
    var savedFloor: Position

    /// Reads the space and, from its log's end back, as many footprints as the limit allows; nil when there is none.
    ///
    /// Footprints that were dropped once are not brought back: a transaction that was stale for want of them may have
    /// been rewritten, and a late copy of it must stay stale (rule 16).
    ///
    /// `damaged` is called with the position of a run that cannot be read; what lies before it counts as forgotten.
    static func load(
        _ name: SpaceName, from db: any LogConnection, limits: RelayLogLimits, damaged: (Position) -> Void
    ) throws -> LoadedSpace? {
        guard let space = try LogStorage.space(name, in: db) else { return nil }
        var entries: [(footprint: Footprint, replica: ReplicaID, position: Position)] = []
        var hashes = 0
        var loadedFrom = space.head
        try LogStorage.visitNewestRuns(of: space.id, in: db) { run in
            guard run.lastPosition > space.floor else { return false }
            guard let header = try? run.header() else {
                damaged(run.firstPosition)
                return false
            }
            for offset in (0..<run.count).reversed() {
                let position = run.firstPosition.advanced(by: offset)
                guard position > space.floor else { break }
                // The last part was certified for all.
                guard header.part.isLast else { continue }
                let footprint = header.certificates[run.firstIndex + offset].footprint
                entries.append((footprint, header.replica, position))
                hashes += footprint.hashCount + 1
            }
            loadedFrom = max(space.floor, run.firstPosition.advanced(by: -1))
            return hashes < limits.hashesPerSpace
        }
        var certifier = Certifier(lineage: space.lineage, head: space.head, loadedFrom: loadedFrom, limits: limits)
        for entry in entries.reversed() {
            certifier.recall(entry.footprint, replica: entry.replica, position: entry.position)
        }
        let pending = try PartStorage.load(of: space.id, in: db)
        let logDigest = try RunningDigests.newest(of: space.id, in: db)
        return LoadedSpace(
            id: space.id, certifier: certifier, pending: pending, logDigest: logDigest, logBytes: space.logBytes, savedFloor: space.floor)
    }
}

extension LogStorage.Run {
    /// The clear part of the run's batch. Throws `RelayLogError.storage` when the bytes are not what was pushed.
    func header() throws -> BatchHeader {
        // What was accepted under wider limits stays readable.
        let limits = BatchLimits(batchBytes: .max, plainBytes: .max, transactions: .max)
        guard let header = try? BatchHeader.parse(batch, limits: limits), firstIndex + count <= header.certificates.count else {
            throw RelayLogError.storage("the batch at position \(firstPosition) is damaged")
        }
        return header
    }

    func frame() -> LogFrame {
        LogFrame(firstPosition: firstPosition, firstIndex: firstIndex, acceptedCount: count, receivedAt: received, batch: batch)
    }
}
