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
    /// What of them went.
    var droppedBytes: Int64
    /// What its snapshots take, and until when that is believed, in monotonic milliseconds.
    var snapshotBytes: Int64 = 0
    var snapshotBytesUntil = Int64.min
    /// When it was used last, as a number that counts the uses of all.
    var lastUse = 0

    /// What waits is what waited after so many changes of it.
    var partChanges: Int64
    /// Whose replicas are, of those that somebody's are known to be after so many changes.
    var owners: [ReplicaID: String] = [:]
    var ownerChanges: Int64
    /// Owners that are quarantined after so many changes; nil until somebody pushes.
    var quarantined: Set<String>?

    /// Bytes of parts that wait.
    var partBytes: Int64 { pending.values.reduce(0) { $0 + $1.byteCount } }

    /// What it takes: the log as far as it is kept, parts that wait, snapshots.
    var byteCount: Int64 { logBytes - droppedBytes + snapshotBytes + partBytes }

    /// Reads, from the log's end back, as many footprints as the limit allows.
    ///
    /// Footprints that were dropped once are not brought back: a transaction that was stale for want of them may have
    /// been rewritten, and a late copy of it must stay stale (merge rule 16).
    ///
    /// `damaged` is called with the position of a run that cannot be read; what lies before it counts as forgotten.
    static func load(
        _ space: LogStorage.Space, from db: any LogConnection, limits: RelayLogLimits, damaged: (Position) -> Void
    ) throws -> LoadedSpace {
        var entries: [(footprint: Footprint, replica: ReplicaID, position: Position)] = []
        var hashes = 0
        var (loadedFrom, last) = (space.head, space.head)
        try LogStorage.visitNewestRuns(of: space.id, in: db) { run in
            guard run.lastPosition > space.floor else { return false }
            // Each ends where the next begins, and the newest with the head: in no other order can they be recorded.
            guard let header = try? run.header(), run.lastPosition == last else {
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

    /// Takes in what other relays of the same database appended meanwhile, and how far it was purged. False when that cannot
    /// be: then it must be loaded anew.
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
            // Rows of replicas that never pushed may be gone.
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
    /// Records a run that another relay appended behind the head.
    fileprivate mutating func follow(_ run: LogStorage.Run, _ header: BatchHeader) {
        for offset in 0..<run.count {
            let number = run.firstIndex + offset
            let (certificate, position) = (header.certificates[number], run.firstPosition.advanced(by: offset))
            // The last part was certified for all.
            if header.part.isLast { recall(certificate.footprint, replica: header.replica, position: position) }
            // Of others the log is asked when they push.
            if last(of: header.replica) != nil {
                setLast(
                    LastAccepted(counter: header.counter(of: number), digest: certificate.digest, position: position), of: header.replica)
            }
        }
        advance(to: run.lastPosition)
    }
}

extension LogStorage.Run {
    /// The clear part of the run's batch. Throws `RelayLogError.storage` when the bytes are not what was pushed.
    func header() throws -> BatchHeader {
        // What was accepted under wider limits stays readable.
        let limits = BatchLimits(batchBytes: .max, plainBytes: .max, transactions: .max)
        guard let header = try? BatchHeader.parse(batch, limits: limits), firstIndex >= 0, count > 0,
            count <= header.certificates.count - firstIndex
        else {
            throw RelayLogError.storage("the batch at position \(firstPosition) is damaged")
        }
        return header
    }

    func frame() -> LogFrame {
        LogFrame(firstPosition: firstPosition, firstIndex: firstIndex, acceptedCount: count, receivedAt: received, batch: batch)
    }
}
