internal import AnnalsCore
internal import AnnalsWire

/// The state of a space that the writer keeps in memory between commits.
struct LoadedSpace: Sendable {
    let id: Int64
    var certifier: Certifier
    /// Row ids of replicas.
    var replicas: [ReplicaID: Int64] = [:]
    /// Buffered parts of unfinished transactions.
    var pending: [ReplicaID: PendingParts] = [:]
    /// The running digest of the log at its head.
    var logDigest: Digest
    /// Bytes of all batches since the space was created.
    var logBytes: Int64
    /// Purged and voided bytes of these batches.
    var droppedBytes: Int64
    /// Bytes of its snapshots, and until when this figure is valid, in monotonic milliseconds.
    var snapshotBytes: Int64 = 0
    var snapshotBytesUntil = Int64.min
    /// The number of the last use; one counter numbers the uses of all spaces.
    var lastUse = 0

    /// The stored number of changes of the parts that `pending` shows.
    var partChanges: Int64
    /// Known owners of replicas, as of `ownerChanges`.
    var owners: [ReplicaID: String] = [:]
    var ownerChanges: Int64
    /// Quarantined owners, as of `ownerChanges`; nil until they are read.
    var quarantined: Set<String>?

    /// Bytes of buffered parts.
    var partBytes: Int64 { pending.values.reduce(0) { $0 + $1.byteCount } }

    /// Total bytes: kept log, buffered parts, snapshots.
    var byteCount: Int64 { logBytes - droppedBytes + snapshotBytes + partBytes }

    /// Loads the space and reads footprints from the end of the log backwards, as many as the limit allows.
    ///
    /// It does not load footprints below the stored floor. A transaction may have been stale because they were dropped,
    /// and its author may have rewritten it: a late copy of it must stay stale (merge rule 16).
    ///
    /// - Parameter damaged: called with the position of a run that cannot be read. Entries before that run are not
    ///   loaded.
    static func load(
        _ space: LogStorage.Space, from db: any LogConnection, limits: RelayLogLimits, damaged: (Position) -> Void
    ) throws -> LoadedSpace {
        var entries: [(footprint: Footprint, replica: ReplicaID, position: Position)] = []
        var hashes = 0
        var (loadedFrom, last) = (space.head, space.head)
        try LogStorage.visitNewestRuns(of: space.id, in: db) { run in
            guard run.lastPosition > space.floor else { return false }
            // Each run must end where the next begins, and the newest at the head, because the index records entries in
            // this order.
            guard let header = try? run.header(), run.lastPosition == last else {
                damaged(run.firstPosition)
                return false
            }
            for offset in (0..<run.count).reversed() {
                let position = run.firstPosition.advanced(by: offset)
                guard position > space.floor else { break }
                // The footprint of a transaction in parts is recorded once, at its last part.
                guard header.part.isLast else { continue }
                let footprint = header.certificates[run.firstIndex + offset].footprint
                entries.append((footprint, header.replica, position))
                hashes += footprint.hashCount + 1
            }
            last = run.firstPosition.advanced(by: -1)
            loadedFrom = max(space.floor, last)
            return hashes < limits.hashesPerSpace
        }
        var certifier = Certifier(lineage: space.lineage, head: space.head, loadedFrom: loadedFrom, limits: limits)
        for entry in entries.reversed() {
            certifier.recall(entry.footprint, replica: entry.replica, position: entry.position)
        }
        let pending = try PartStorage.load(of: space.id, in: db)
        let logDigest = try RunningDigests.newest(of: space.id, in: db)
        return LoadedSpace(
            id: space.id, certifier: certifier, pending: pending, logDigest: logDigest, logBytes: space.logBytes,
            droppedBytes: space.droppedBytes, partChanges: space.partChanges, ownerChanges: space.ownerChanges)
    }

    /// Applies what other relays of the same database have appended or purged since the last commit. Returns false if
    /// that is impossible: then the caller loads the space again.
    mutating func follow(_ space: LogStorage.Space, in db: any LogConnection) throws -> Bool {
        guard space.id == id, space.head >= certifier.head, space.lineage == certifier.lineage else { return false }
        if space.floor > certifier.floor { certifier.raiseFloor(to: space.floor) }
        if space.partChanges != partChanges {
            pending = try PartStorage.load(of: id, in: db)
            partChanges = space.partChanges
        }
        if space.ownerChanges != ownerChanges {
            owners = [:]
            quarantined = nil
            // Rows of replicas that never pushed may be deleted.
            replicas = [:]
            ownerChanges = space.ownerChanges
        }
        (logBytes, droppedBytes) = (space.logBytes, space.droppedBytes)
        guard space.head > certifier.head else { return true }
        while certifier.head < space.head {
            let runs = try LogStorage.runs(of: id, after: certifier.head, byteLimit: Self.bytesAtOnce, in: db)
            guard !runs.isEmpty else { return false }
            for run in runs {
                guard let header = try? run.header(), run.firstPosition == certifier.head.next else { return false }
                certifier.follow(run, header)
            }
        }
        logDigest = try RunningDigests.newest(of: id, in: db)
        return certifier.head == space.head
    }

    private static let bytesAtOnce = 4 << 20
}

extension Certifier {
    /// Records a run that another relay appended after the head.
    fileprivate mutating func follow(_ run: LogStorage.Run, _ header: BatchHeader) {
        for offset in 0..<run.count {
            let number = run.firstIndex + offset
            let (certificate, position) = (header.certificates[number], run.firstPosition.advanced(by: offset))
            // The footprint of a transaction in parts is recorded once, at its last part.
            if header.part.isLast { recall(certificate.footprint, replica: header.replica, position: position) }
            // The last transactions of other replicas are read from the log at their next push.
            if last(of: header.replica) != nil {
                setLast(
                    LastAccepted(counter: header.counter(of: number), digest: certificate.digest, position: position), of: header.replica)
            }
        }
        advance(to: run.lastPosition)
    }
}

extension LogStorage.Run {
    /// Parses the clear part of the run's batch. Throws `RelayLogError.storage` if the stored bytes are corrupt.
    func header() throws -> BatchHeader {
        // No limits: batches that were accepted under higher limits must stay readable.
        let limits = BatchLimits(batchBytes: .max, plainBytes: .max, transactions: .max)
        guard let header = try? BatchHeader.parse(batch, limits: limits), firstIndex >= 0, count > 0,
            count <= header.certificates.count - firstIndex
        else {
            throw RelayLogError.storage("the batch at position \(firstPosition) is corrupt")
        }
        return header
    }

    func frame() -> LogFrame {
        LogFrame(firstPosition: firstPosition, firstIndex: firstIndex, acceptedCount: count, receivedAt: received, batch: batch)
    }
}
