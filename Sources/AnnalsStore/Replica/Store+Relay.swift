package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import GRDB

/// The state of a replica whose position is before the log's horizon.
package struct ExpiredReplica: Sendable, Equatable {
    package var position: Position
    /// Own entries after the position that are in the rows already.
    package var ahead: [Position]

    static func load(_ db: Database) throws -> ExpiredReplica? {
        guard let state = try ReplicaState.load(db) else { return nil }
        return ExpiredReplica(position: state.position, ahead: try Outbox.ahead(db).sorted())
    }
}

/// A snapshot, as the store that was made from it describes it.
package struct SnapshotStamp: Sendable {
    package var seen: LogMark
    /// The latest time in the log up to the snapshot.
    package var time: HybridTime
    /// Each author's newest entry up to the snapshot.
    var authors: [ReplicaID: AuthorChains.Link?]
    /// The log's head, as far as known.
    package var head: Position
}

/// The result of a resync from a snapshot.
package struct Resynced: Sendable {
    package var status: ExchangeStatus
    /// The snapshot's position. If own entries follow it, the replica's position is after them.
    package var snapshot: Position
    /// The number of rows that changed, without the outbox.
    package var rows: Int
    /// The number of transactions that were rebased.
    package var rebased: Int
}

extension Store {
    /// This replica's position and entries ahead; nil if the store is not a replica.
    package func expiredReplica() async throws -> ExpiredReplica? {
        try await translated("sync") { try await database.reading { db in try ExpiredReplica.load(db) } }
    }

    /// The snapshot from which this store was just made.
    package func snapshotStamp() async throws -> SnapshotStamp {
        try await translated("sync") {
            try await database.reading { db in
                guard let state = try ReplicaState.load(db) else {
                    throw AnnalsError(.defect, operation: "sync", "the copy is not a replica")
                }
                return SnapshotStamp(
                    seen: state.seen, time: try StoreClock.load(db).last, authors: try AuthorChains.all(db), head: state.head)
            }
        }
    }

    /// Replaces a deleted part of the log by a snapshot's rows, and rebases the outbox onto them, in one SQLite transaction.
    ///
    /// - Parameters:
    ///   - copy: a store made from the snapshot, with this store's own entries after the snapshot applied.
    ///   - stamp: the description of the snapshot.
    ///   - expired: the replica's state before.
    ///   - relayTime: the relay's clock, in milliseconds since 1970; nil if unknown.
    /// - Returns: nil if the store has changed since `expired` was read, or if a push is under way; nothing was changed.
    package func rejoin(
        from copy: Store, at stamp: SnapshotStamp, expired: ExpiredReplica, relayTime: Int64?
    ) async throws -> Resynced? {
        do {
            return try await rejoinOnce(from: copy, at: stamp, expired: expired, relayTime: relayTime)
        } catch let error as AnnalsError {
            guard let tables = error.underlying as? RedeclaredTables else { throw error }
            // Rows of the snapshot may violate removed constraints, and rows of this store added ones.
            if let relaxed = tables.relaxed { guard try await rebuild(relaxed) else { throw error } }
            return try await rejoinOnce(from: copy, at: stamp, expired: expired, relayTime: relayTime, tightened: tables.tightened)
        }
    }

    /// - Parameter tightened: the tables to rebuild with more constraints after they have the rows of the snapshot.
    private func rejoinOnce(
        from copy: Store, at stamp: SnapshotStamp, expired: ExpiredReplica, relayTime: Int64?, tightened: RedeclaredTables? = nil
    ) async throws -> Resynced? {
        let configuration = configuration
        let policies = configuration.mergePolicies
        return try await merging("sync") { db, step in
            let exchange = try ReplicaExchange(db, step.identities)
            guard stamp.seen.lineage == exchange.state.lineage else { throw ReplicaExchange.logRolledBack }
            try step.recordExternal()
            try step.schemaComparison()
            try UnverifiedRows.check(db)
            try step.filler().fill()
            guard try ExpiredReplica.load(db) == expired, try !Push.isUnderWay(db) else { return nil }
            return try copy.database.reading { other in
                if let tables = try RedeclaredTables(step.tables(), of: db, than: other) {
                    guard tables.relaxed == nil, tightened != nil, try configuration.newSchemas.takes(db) else { throw tables.error }
                }
                let comparison = try SchemaComparison.check(step.tables(), of: db, with: other)
                try step.release(comparison.leftover.filter { $0.column == nil }.map(\.table), configuration.newSchemas)
                var pull = try Self.pull(db, step, exchange.state, policies)
                pull.state.sealedUnder = try ReplicaState.load(other)?.sealedUnder ?? pull.state.sealedUnder
                let mark = PageApplier.SnapshotMark(
                    position: stamp.seen.position, logDigest: stamp.seen.digest, time: stamp.time, authors: stamp.authors,
                    head: stamp.head)
                let isCopy = try Meta(db).integer(.isCopy) != nil
                let returned = try pull.takeSnapshot(other, mark, isCopy: isCopy, relayTime: relayTime ?? step.environment.now())
                try StoreClock.save(pull.clock, db)
                try Meta(db).set(.isCopy, nil)
                if let tightened { try Self.rebuild(tightened, db, step, pull.state, policies) }
                return Resynced(
                    status: try ReplicaExchange(db, step.identities).status(), snapshot: mark.position, rows: returned.rows,
                    rebased: returned.rebased)
            }
        }
    }
}

extension Store {
    /// Positions at which this store's log may diverge from the relay's, with the log's running digests, oldest first. The store
    /// has all entries after each of these positions.
    package func recentLogMarks() async throws -> [LogMark] {
        try await translated("sync") {
            try await database.reading { db in
                guard let state = try ReplicaState.load(db) else { return [] }
                return try RecentEntries(db, state).marks()
            }
        }
    }

    /// Goes back to a position that the relay's log also has. All later entries, which the relay lost, become outbox transactions
    /// again, under their own ids. Rows do not change.
    ///
    /// If another replica sends some of these transactions again first, their ids identify them when they are pulled, so that each
    /// is in the log once (merge rule 39).
    ///
    /// - Parameter mark: one of `recentLogMarks()`.
    /// - Throws: `AnnalsError.relayRolledBack` if the store does not have the entries after that position, or cannot send them
    ///   again. No row and no transaction was changed then.
    package func follow(_ mark: LogMark, head: Position) async throws -> FollowedRelay {
        // A push under way is in the outbox too. Deferred cells may have to be applied first.
        try await managed("sync") { db, _ in try Push.thaw(db) }
        _ = try await prepareOutbox()
        let transactions = try await managed("sync") { db, step in
            try step.recordExternal()
            try step.schemaComparison()
            try UnverifiedRows.check(db)
            try step.filler().fill()
            var following = try FollowingRelay(db, step)
            let transactions = try following.run(mark, head: head)
            step.forgetComparison()
            return transactions
        }
        // If the space's schema is older now too, this adds schema entries for what the store has in addition.
        return FollowedRelay(status: try await prepareOutbox(), position: mark.position, transactions: transactions)
    }
}

extension Store {
    /// The proof that the relay served different logs; nil if there is none.
    package func logEvidence() async throws -> LogEvidence? {
        try await translated("verify") {
            try await database.reading { db in try StoreSchema.exists(db) ? LogEvidence.load(db) : nil }
        }
    }

    /// Stores the proof, which ends the exchange with the relay.
    func keep(_ evidence: LogEvidence) async throws {
        try await managed("sync") { db, _ in
            guard try ReplicaState.load(db)?.hasEvidence == false else { return }
            try evidence.save(db)
        }
    }
}

extension Store {
    /// Replaces the stored facts about authors with those of a copy of the space.
    ///
    /// - Parameters:
    ///   - copy: a store made from another snapshot and brought to this replica's position.
    ///   - path: a path for scratch files, which get suffixes.
    /// - Returns: false if the copy has other rows or another position; nothing was changed then.
    package func adoptAuthors(from copy: Store, scratch path: String) async throws -> Bool {
        // The rows can be compared only if no own entries are ahead of the position. Otherwise the next comparison finds
        // differences.
        if let own = try await logContents(scratch: path + "-own"),
            let there = try await copy.logContents(scratch: path + "-there")
        {
            guard (own.position, own.rows) == (there.position, there.rows) else { return false }
        }
        return try await managed("sync") { db, _ in
            try copy.database.reading { other in
                guard let state = try ReplicaState.load(db), try ReplicaState.load(other)?.position == state.position else { return false }
                try AuthorChains.replaceAll(db, with: AuthorChains.all(other))
                try UnconfirmedAuthors.copy(from: other, to: db)
                return true
            }
        }
    }
}

extension Store {
    /// The keys of the store's space; nil if the space is not encrypted or the store is not joined.
    ///
    /// - Throws: `AnnalsError` with code `missingKey`.
    package func spaceKeys() async throws -> SpaceKeyRing? {
        try await replicaState()?.ring(configuration.spaceKeys, operation: "sync")
    }
}

extension Store {
    /// The digest of the rows without this store's unpushed transactions. If nothing is ahead, it equals the digest of a fresh
    /// clone at the same position (law 3). Nothing is changed.
    package func digestOfLog() async throws -> Digest {
        try await merging("verify", commits: false) { db, step in
            try step.recordExternal()
            let tables = try step.tables()
            try step.filler().fill()
            let session = MergeSession(db, registry: tables)
            let rows = try Outbox.rows(db)
            let layouts = try LayoutNames(db).all
            let applier = EntryApplier(session: session, direction: .backward, position: nil)
            for row in rows.reversed() { try applier.apply(Outbox.content(db, of: row, layouts: layouts)) }
            return try StoreDigest.rows(db)
        }
    }
}
