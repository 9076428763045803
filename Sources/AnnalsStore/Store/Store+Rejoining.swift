package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import GRDB

/// Where a replica stands that the log no longer reaches.
package struct ExpiredReplica: Sendable, Equatable {
    package var position: Position
    /// Own entries beyond it that are in the rows already.
    package var ahead: [Position]

    static func load(_ db: Database) throws -> ExpiredReplica? {
        guard let state = try ReplicaState.load(db) else { return nil }
        return ExpiredReplica(position: state.position, ahead: try Outbox.ahead(db).sorted())
    }
}

/// A snapshot as the replica that was made from it knows it.
package struct SnapshotStamp: Sendable {
    package var seen: LogMark
    /// The latest time in the log up to there.
    package var time: HybridTime
    /// Each author's newest entry up to there.
    var authors: [ReplicaID: AuthorChains.Link?]
    /// How far the log goes, as far as is known.
    package var head: Position
}

/// What coming back did.
package struct CameBack: Sendable {
    package var status: ExchangeStatus
    /// The snapshot's position; where own entries follow it, the replica's lies behind them.
    package var snapshot: Position
    /// Rows that are otherwise now than they were without the outbox.
    package var rows: Int
    package var conflicts: Int
    /// Transactions that were laid on top.
    package var rebased: Int
}

extension Store {
    /// Where this replica stands; nil when it is none.
    package func expiredReplica() async throws -> ExpiredReplica? {
        try await translated("sync") { try await database.reading { db in try ExpiredReplica.load(db) } }
    }

    /// What the snapshot was that this store was made from just now.
    package func snapshotStamp() async throws -> SnapshotStamp {
        try await translated("sync") {
            try await database.reading { db in
                guard let state = try ReplicaState.load(db) else { throw AnnalsError(.defect, operation: "sync", "the copy is no replica") }
                return SnapshotStamp(
                    seen: state.seen, time: try StoreClock.load(db).last, authors: try AuthorChains.all(db), head: state.head)
            }
        }
    }

    /// Takes a snapshot's rows in the place of a log that is gone, and lays the outbox on top, in one SQLite transaction.
    ///
    /// - Parameters:
    ///   - copy: made from the snapshot, and taken on through this store's own entries that the log has after it.
    ///   - stamp: what is known of the snapshot.
    ///   - expired: where the replica stood.
    ///   - relayTime: the relay's clock, in milliseconds since 1970; nil where it does not say.
    /// - Returns: nil when the store has moved since `expired` was asked for, or has a push under way; nothing was changed.
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
