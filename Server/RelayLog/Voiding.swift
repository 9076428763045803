package import AnnalsCore
internal import AnnalsWire

/// What a void did, or would do.
package struct VoidOutcome: Sendable, Hashable {
    /// The voided entries: all of the same batch, or all parts of the same transaction.
    package var voided: [Position]
    package var author: ReplicaID
    /// Other authors with later entries that depend on them and were voided too.
    package var others: [ReplicaID] = []
    /// The position of the relay's entry about the void.
    package var entry: Position
    /// Dropped snapshots that held the entries.
    package var snapshots: [Position]
}

/// Why an entry is not voided.
package enum VoidRefusal: Error, Sendable, Hashable {
    case noSuchPosition(head: Position, horizon: Position)
    case isVoided
    /// The relay's own entry, or the first entry of the space.
    case cannotBeVoided
    /// These replicas acknowledged it.
    case isTakenIn(by: [ReplicaRecord])
    /// A later entry may depend on it: one of its author, or one of a replica that had applied it. Void that one first,
    /// or together with this one.
    case isBuiltUpon(at: Position)

    /// The outcome in the audit log.
    var summary: String {
        switch self {
        case .noSuchPosition: "no such position"
        case .isVoided: "already void"
        case .cannotBeVoided: "cannot be voided"
        case .isTakenIn: "acknowledged by others"
        case .isBuiltUpon(let position): "position \(position) may depend on it"
        }
    }
}

extension RelayDatabase {
    /// Voids an entry that no replica can apply, with all others of its batch. From then on the relay serves only the
    /// clear part of the batch, and an entry of the relay records the void.
    ///
    /// Replicas that lack the entry pass over it. Its author has its changes in its rows, finds that the log no longer
    /// has the entry, and pushes the changes as a new transaction. A relay can serve meanwhile; its waiting requests
    /// get the new entry with the next push, or after their longest wait.
    /// - Parameters:
    /// - withLater: also voids later entries that may depend on it.
    ///   - now: the relay's clock, in milliseconds since 1970.
    ///   - by: who does it, for the audit log.
    /// - Throws: `VoidRefusal`; `RelayLogError`.
    package func void(
        _ position: Position, of name: SpaceName, withLater: Bool, now: Int64, by: Operator? = nil
    ) async throws -> VoidOutcome {
        let entry = AuditEntry(.entryVoid, by: by, space: name, at: now)
        do {
            let (outcome, files) = try await storage.write { db in
                guard let space = try LogStorage.space(name, in: db, locking: true) else { throw RelayLogError.spaceNotFound }
                var work = try Voided(space, db, now: now)
                try work.begin(at: position, withLater ? .all : .none)
                let (outcome, files) = try work.finish(name)
                let positions = outcome.voided.map { "\($0)" }.joined(separator: ", ")
                try AuditStorage.add(entry, subject: "\(positions) by \(outcome.author)", outcome: AuditEntry.done, in: db)
                return (outcome, files)
            }
            for file in files { snapshots.remove(file) }
            return outcome
        } catch let refusal as VoidRefusal {
            // Nothing else was written, so the audit line needs its own transaction.
            if entry != nil {
                try await RelayLogError.wrapped {
                    try await storage.write { try AuditStorage.add(entry, subject: "\(position)", outcome: refusal.summary, in: $0) }
                }
            }
            throw refusal
        } catch {
            throw RelayLogError.wrapping(error)
        }
    }
}

extension RelayLog {
    /// See `RelayDatabase.void`; uses the clock of this relay, and writes the pending acknowledgements first.
    package func void(_ position: Position, of name: SpaceName, withLater: Bool) async throws -> VoidOutcome {
        _ = try await replicas(of: name)
        return try await database.void(position, of: name, withLater: withLater, now: clock.wall())
    }
}

/// One void, within a transaction of the database.
struct Voided {
    /// Which later entries that may depend on the entry are voided too.
    enum Later {
        case none
        case all
        /// Those of the replicas of the author's owner.
        case ofAuthorsOwner
    }

    private let space: LogStorage.Space
    private let db: any LogConnection
    private let now: Int64
    private var runs: [(run: LogStorage.Run, header: BatchHeader)] = []

    init(_ space: LogStorage.Space, _ db: any LogConnection, now: Int64) throws {
        self.space = space
        self.db = db
        self.now = now
    }

    /// Finds the entries to void, and checks that they can be voided.
    mutating func begin(at position: Position, _ later: Later) throws {
        let one = try run(at: position)
        guard !one.header.isVoided else { throw VoidRefusal.isVoided }
        guard one.header.replica != .relay, one.run.firstPosition > Position(1) else { throw VoidRefusal.cannotBeVoided }
        let part = one.header.part
        let first = one.run.firstPosition.advanced(by: -part.number)
        runs = part.isWhole ? [one] : try (0..<part.count).map { try run(at: first.advanced(by: $0)) }
        let author = one.header.replica
        // Replicas buffer parts and apply them with the last one.
        let taken = part.isWhole ? first : first.advanced(by: part.count - 1)
        let replicas = try LogStorage.replicas(of: space.id, in: db)
        let own = try ownWord(of: author, among: replicas)
        let others = replicas.filter { !own.contains($0.replica) && $0.holdsBack && !$0.isRetired && $0.position >= taken }
        guard others.isEmpty else { throw VoidRefusal.isTakenIn(by: others) }
        try addLater(later, own)
    }

    /// The replicas whose acknowledgement does not protect the author's entry. These are the author and, if another
    /// owner has reported the entry, all replicas of the author's owner. They lose nothing: each pushes the changes
    /// again that it had applied. If no other owner has reported the entry, it is probably in their rows, and each of
    /// them would push it again.
    private func ownWord(of author: ReplicaID, among replicas: [ReplicaRecord]) throws -> Set<ReplicaID> {
        guard let owner = replicas.first(where: { $0.replica == author })?.owner else { return [author] }
        let positions = runs.flatMap { run, _ in (0..<run.count).map(run.firstPosition.advanced) }
        let isReported = try positions.contains { position in
            try ReportStorage.reporters(of: position, in: space.id, db).contains { $0 != owner }
        }
        return isReported ? Set(replicas.filter { $0.credential == owner }.map(\.replica)).union([author]) : [author]
    }

    private func run(at position: Position) throws -> (run: LogStorage.Run, header: BatchHeader) {
        guard position > space.horizon, position <= space.head, let head = try LogStorage.run(of: space.id, at: position, in: db),
            head.firstPosition > space.horizon
        else { throw VoidRefusal.noSuchPosition(head: space.head, horizon: space.horizon) }
        let run = try head.read(db)
        return (run, try run.header())
    }

    /// Adds later entries that depend on the voided ones, because they could not be applied without them. Only the
    /// author, and replicas that had applied an entry and are retired, can have written such entries. Later entries of
    /// others were certified to be disjoint.
    private mutating func addLater(_ later: Later, _ own: Set<ReplicaID>) throws {
        guard let (first, header) = runs.first.map({ ($0.run.firstPosition, $0.header) }), var last = runs.last?.run.lastPosition
        else { return }
        while last < space.head {
            let next = try run(at: last.next)
            last = next.run.lastPosition
            // The relay's own entries conflict with all others and hold no rows.
            guard next.header.replica != .relay, !next.header.isVoided else { continue }
            let knewIt = next.header.replica == header.replica || certificates(next).contains { $0.base >= first }
            guard knewIt, rests(next) else { continue }
            guard later.takes(next.header.replica, own) else { throw VoidRefusal.isBuiltUpon(at: next.run.firstPosition) }
            runs.append(next)
        }
    }

    private func rests(_ later: (run: LogStorage.Run, header: BatchHeader)) -> Bool {
        let before = runs.flatMap(footprints)
        return footprints(later).contains { footprint in before.contains { $0.conflicts(with: footprint) } }
    }

    private func footprints(_ entry: (run: LogStorage.Run, header: BatchHeader)) -> [Footprint] {
        certificates(entry).map(\.footprint)
    }

    private func certificates(_ entry: (run: LogStorage.Run, header: BatchHeader)) -> ArraySlice<Certificate> {
        entry.header.certificates[entry.run.firstIndex...].prefix(entry.run.count)
    }

    /// Stores the void. Returns the outcome and the files that no snapshot uses any more.
    func finish(_ name: SpaceName) throws -> (VoidOutcome, files: [String]) {
        var entries: [VoidedEntry] = []
        var saved: Int64 = 0
        for (run, header) in runs {
            let batch = try Voiding.voided(run.batch, limits: BatchLimits(batchBytes: .max, plainBytes: .max, transactions: .max))
            try LogStorage.replace(batch, at: run.firstPosition, of: space.id, in: db)
            saved += Int64(run.batch.count - batch.count)
            for (place, certificate) in certificates((run, header)).enumerated() {
                let position = run.firstPosition.advanced(by: place)
                entries.append(VoidedEntry(position: position, digest: certificate.digest))
                try ReportStorage.forget(position, of: space.id, in: db)
            }
        }
        guard let first = entries.first else { throw VoidRefusal.cannotBeVoided }
        let snapshots = try LogStorage.snapshots(of: space.id, in: db).filter { $0.position >= first.position }
        for snapshot in snapshots { try LogStorage.dropSnapshot(at: snapshot.position, of: space.id, in: db) }
        let entry = try append(entries, saved, name)
        let author = runs[0].header.replica
        var others: [ReplicaID] = []
        for (_, header) in runs where header.replica != author && !others.contains(header.replica) { others.append(header.replica) }
        let outcome = VoidOutcome(
            voided: entries.map(\.position), author: author, others: others, entry: entry, snapshots: snapshots.map(\.position))
        return (outcome, snapshots.map(\.file))
    }

    private func append(_ entries: [VoidedEntry], _ saved: Int64, _ name: SpaceName) throws -> Position {
        let last = try LogStorage.replica(.relay, of: space.id, in: db)?.last ?? .none
        let batch = try Voiding.entry(
            entries, in: space.lineage, counter: last.counter.next, previous: last.digest, after: space.head, id: .random(), time: now)
        let position = space.head.next
        let newest = LastAccepted(counter: last.counter.next, digest: batch.digests[0], position: position)
        let replica = try LogStorage.setLast(newest, of: .relay, in: space.id, at: now, db: db)
        let digest = try RunningDigests.newest(of: space.id, in: db).following(batch.digests[0])
        let run = LogStorage.Run(firstPosition: position, count: 1, firstIndex: 0, received: now, batch: batch.bytes)
        try LogStorage.append(run, counter: newest.counter, replica: replica, digest: digest, to: space.id, db: db)
        let bytes = Int64(run.batch.count)
        try LogStorage.save(head: position, bytes: bytes, dropped: saved, of: space.id, in: db)
        try SummaryStorage.addGrowth(bytes: bytes, positions: 1, of: space.id, at: now, in: db)
        try db.announce(position, of: name)
        return position
    }
}

extension Voided.Later {
    /// Whether an entry of this replica can be voided too.
    fileprivate func takes(_ replica: ReplicaID, _ own: Set<ReplicaID>) -> Bool {
        switch self {
        case .none: false
        case .all: true
        case .ofAuthorsOwner: own.contains(replica)
        }
    }
}
