package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsReplica
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
package struct CameBack: Sendable {
    package var status: ExchangeStatus
    /// The snapshot's position. If own entries follow it, the replica's position is after them.
    package var snapshot: Position
    /// The number of rows that changed, without the outbox.
    package var rows: Int
    package var conflicts: Int
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
                guard let state = try ReplicaState.load(db) else { throw AnnalsError(.defect, operation: "sync", "the copy is no replica") }
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
    ) async throws -> CameBack? {
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
                try SchemaComparison.check(step.tables(), of: db, with: other)
                var pull = try Self.pull(db, step, exchange.state, policies)
                pull.state.sealedUnder = try ReplicaState.load(other)?.sealedUnder ?? pull.state.sealedUnder
                let mark = PageApplier.SnapshotMark(
                    position: stamp.seen.position, logDigest: stamp.seen.digest, time: stamp.time, authors: stamp.authors,
                    head: stamp.head)
                let isCopy = try Meta(db).integer(.isCopy) != nil
                let returned = try pull.takeSnapshot(other, mark, isCopy: isCopy, relayTime: relayTime ?? step.environment.now())
                try StoreClock.save(pull.clock, db)
                try Meta(db).set(.isCopy, nil)
                return CameBack(
                    status: try ReplicaExchange(db, step.identities).status(), snapshot: mark.position, rows: returned.rows,
                    conflicts: returned.conflicts, rebased: returned.rebased)
            }
        }
    }
}
