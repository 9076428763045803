package import AnnalsCore

/// How long a space's log is kept. Only log that a snapshot covers is dropped.
package struct PurgeRules: Sendable, Hashable {
    /// Younger entries are always kept, for `replay --relay` and for replicas that are loading a snapshot;
    /// milliseconds.
    package var keep: Int64 = 7 * 86_400_000
    /// Entries that a live replica has not acknowledged are kept for this time; milliseconds.
    package var retention: Int64 = 90 * 86_400_000
    /// A replica that was not seen for this time holds back nothing; milliseconds.
    package var silence: Int64 = 30 * 86_400_000
    /// Live replicas hold back nothing: a replica that lacks dropped entries resyncs from the snapshot.
    package var isForced = false

    package init() {}

    /// The rules for an operator's request. `keep` is in milliseconds; the default is a week, or 0 for a forced purge.
    package static func asked(keep: Int64?, isForced: Bool) -> PurgeRules {
        var rules = PurgeRules()
        rules.keep = keep ?? (isForced ? 0 : rules.keep)
        rules.isForced = isForced
        return rules
    }

    /// Whether the replica holds back entries that it has not acknowledged.
    func counts(_ replica: ReplicaRecord, now: Int64) -> Bool {
        !isForced && replica.holdsBack && !replica.isRetired && replica.lastSeen > now - silence
    }

    /// The last position that can be dropped, by the acknowledgements and the age of the entries.
    ///
    /// - Parameter last: returns the last position before the first entry that was received at or after a time.
    package func limit(
        head: Position, replicas: [ReplicaRecord], now: Int64, last: (_ before: Int64) throws -> Position
    ) rethrows -> Position {
        let acknowledged = replicas.filter { counts($0, now: now) }.map(\.position).min() ?? head
        return min(try last(now - keep), max(acknowledged, try last(now - retention)))
    }
}

/// What a purge dropped, or would drop.
package struct PurgeOutcome: Sendable {
    /// The log began after this position before the purge.
    package var before: Position
    /// The log begins after this position now; it is the position of a snapshot.
    package var horizon: Position
    /// Bytes of batches.
    package var bytes: Int64
    package var snapshots: Int
    /// Live replicas that have not acknowledged the position of the newest snapshot.
    package var holding: [ReplicaRecord]
    /// nil if the space has no snapshot, so that nothing can be dropped.
    package var newestSnapshot: Position?
    /// A later snapshot that no replica of another owner has confirmed; with confirmation the purge could use it.
    package var unconfirmed: SnapshotRecord?
    package var head: Position

    package var positions: Int64 { horizon.rawValue - before.rawValue }

    /// For the audit log.
    var summary: String {
        positions > 0 ? "positions \(before.rawValue + 1) to \(horizon.rawValue), \(bytes) bytes" : "the log"
    }
}

extension RelayDatabase {
    /// Drops the part of a space's log that the rules allow, also while another process serves it. It works in slices,
    /// so that pushes are committed between them. Afterwards the log begins at a snapshot, so every kept position can
    /// be rebuilt, and so can every replica that has not expired.
    ///
    /// - Parameters:
    ///   - commits: false only reports what would be dropped.
    ///   - by: who requested it, for the audit log; nil for the automatic purges of the relay.
    /// - Throws: `RelayLogError`: `.spaceNotFound`, `.storage`.
    package func purge(
        _ name: SpaceName, _ rules: PurgeRules, now: Int64, commits: Bool = true, by: Operator? = nil,
        limits: RelayLogLimits = RelayLogLimits()
    ) async throws -> PurgeOutcome {
        let entry = AuditEntry(.spacePurge, by: by, space: name, at: now)
        return try await RelayLogError.wrapped {
            let (space, first) = try await storage.read { db in try self.plan(name, rules, now: now, db) }
            guard commits else { return first }
            var plan = first
            while plan.horizon > plan.before {
                let files = try await storage.write { [plan] in try Self.begin(plan, of: space, entry, at: now, limits: limits, in: $0) }
                if let files {
                    for file in files { snapshots.remove(file) }
                    break
                }
                // The snapshot was removed meanwhile. Plan again with an older one, if there is one.
                plan = try await storage.read { db in try self.plan(name, rules, now: now, db).1 }
            }
            if plan.horizon == plan.before, entry != nil {
                try await storage.write { [plan] db in
                    try AuditStorage.add(entry, subject: plan.summary, outcome: "nothing could be dropped", in: db)
                }
            }
            // This also drops what an interrupted purge left.
            while try await storage.write({ db in try PurgeStorage.dropRuns(of: space, limits: limits, in: db) }) != nil {
                try Task.checkCancellation()
            }
            return plan
        }
    }

    /// Moves the start of the log to the planned position. Returns the files that no snapshot uses any more. Returns
    /// nil, without a change, if the snapshot of the plan was removed meanwhile, for example to make room for an
    /// upload.
    static func begin(
        _ plan: PurgeOutcome, of space: Int64, _ entry: AuditEntry?, at now: Int64, limits: RelayLogLimits, in db: any LogConnection
    ) throws -> [String]? {
        guard try RunningDigests.atHorizon(of: space, in: db).position < plan.horizon else {
            try AuditStorage.add(entry, subject: plan.summary, outcome: "another purge ran at the same time", in: db)
            return []
        }
        guard try LogStorage.snapshots(of: space, in: db).contains(where: { $0.position == plan.horizon }) else { return nil }
        try AuditStorage.add(entry, subject: plan.summary, outcome: AuditEntry.done, in: db)
        guard let digest = try RunningDigests.at(plan.horizon, of: space, in: db) else {
            throw RelayLogError.storage("the running digest of the log at position \(plan.horizon) is unknown")
        }
        try PurgeStorage.setHorizon(plan.horizon, digest, of: space, in: db)
        try CheckStorage.confirm(at: plan.horizon, of: space, at: now, in: db)
        return try LogStorage.dropOldSnapshots(of: space, limits: limits, in: db)
    }

    private func plan(_ name: SpaceName, _ rules: PurgeRules, now: Int64, _ db: any LogConnection) throws -> (Int64, PurgeOutcome) {
        guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
        let replicas = try LogStorage.replicas(of: space.id, in: db)
        let limit = try rules.limit(head: space.head, replicas: replicas, now: now) { time in
            try PurgeStorage.lastPosition(before: time, in: space, db)
        }
        // The log never begins at a snapshot with a lost file.
        let kept = try LogStorage.snapshots(of: space.id, in: db, keptIn: snapshots)
        let owners = Owners(
            replicas.filter { rules.counts($0, now: now) }, ofFirstEntry: try ReportStorage.authorsOwner(of: Position(1), in: space.id, db))
        let (snapshots, newest) = (kept.map(\.position), kept.last?.position)
        let latest = kept.last { $0.position <= limit }
        // One owner's snapshot with rows of several owners is no reason to drop the log before it, unless another owner
        // confirmed it. A forced purge skips this check.
        let trusted = rules.isForced ? latest : kept.last { $0.position <= limit && owners.trust($0) }
        let horizon = max(space.horizon, trusted?.position ?? .zero)
        let holding = replicas.filter { replica in
            rules.counts(replica, now: now) && newest.map { replica.position < $0 } ?? false
        }
        let size = try PurgeStorage.size(of: space.id, through: horizon, in: db)
        let outcome = PurgeOutcome(
            before: space.horizon, horizon: horizon, bytes: size.bytes,
            snapshots: SnapshotRecord.dispensable(snapshots, horizon: horizon, kept: .max).count, holding: holding, newestSnapshot: newest,
            unconfirmed: latest.flatMap { $0.position > horizon ? $0 : nil }, head: space.head)
        return (space.id, outcome)
    }

    /// The recorded replicas of a space. Throws `RelayLogError.spaceNotFound` or `.storage`.
    package func replicas(of name: SpaceName) async throws -> [ReplicaRecord] {
        try await RelayLogError.wrapped {
            try await storage.read { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                return try LogStorage.replicas(of: space.id, in: db)
            }
        }
    }

    /// Retires a replica: it holds back nothing until it is seen again. Returns false if there is no such replica.
    package func retire(_ replica: ReplicaID, of name: SpaceName, now: Int64, by: Operator? = nil) async throws -> Bool {
        let entry = AuditEntry(.replicaRetire, by: by, space: name, at: now)
        return try await RelayLogError.wrapped {
            try await storage.write { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                let found = try PurgeStorage.retire(replica, of: space.id, at: now, in: db)
                try AuditStorage.add(
                    entry, subject: AuditEntry.subject(replica, named: found), outcome: found == nil ? "no such replica" : AuditEntry.done,
                    in: db)
                return found != nil
            }
        }
    }
}

extension RelayLog {
    /// See `RelayDatabase.purge`; uses the clock of this relay, and writes the pending acknowledgements first.
    package func purge(
        _ name: SpaceName, _ rules: PurgeRules, commits: Bool = true, by: Operator? = nil
    ) async throws -> PurgeOutcome {
        _ = try await replicas(of: name)
        return try await database.purge(name, rules, now: clock.wall(), commits: commits, by: by, limits: limits)
    }

    /// Releases a replica: the next owner that pushes as this replica gets it. Returns false if there is no such
    /// replica.
    package func release(_ replica: ReplicaID, of name: SpaceName, by: Operator? = nil) async throws -> Bool {
        _ = try await replicas(of: name)
        return try await database.release(replica, of: name, now: clock.wall(), by: by)
    }

    /// Retires a replica now. Returns false if there is no such replica.
    package func retire(_ replica: ReplicaID, of name: SpaceName, by: Operator? = nil) async throws -> Bool {
        _ = try await replicas(of: name)
        return try await database.retire(replica, of: name, now: clock.wall(), by: by)
    }
}
