package import AnnalsCore
package import AnnalsWire

/// A space in the operator's view.
package struct SpaceSummary: Sendable, Hashable {
    package var description: SpaceDescription
    /// Milliseconds since 1970.
    package var created: Int64
    /// Bytes of the kept batches.
    package var logBytes: Int64
    package var snapshotBytes: Int64
    package var snapshots: Int64
    /// Includes retired replicas and those that were not seen for long.
    package var replicas: Int64
    /// Owners that can read and not write.
    package var quarantines: [Quarantine]
    /// When the newest push came, in milliseconds since 1970; nil if the log holds none.
    package var lastPush: Int64?
    /// Days with pushes, oldest first; at most `RelayLogLimits.growthDays`.
    package var days: [DayOfGrowth]
}

/// The growth of a log on one day, including entries that were purged since.
package struct DayOfGrowth: Sendable, Hashable {
    package static let milliseconds: Int64 = 86_400_000

    /// Days since 1970 in UTC.
    package var day: Int64
    package var bytes: Int64
    package var positions: Int64
}

/// The accepted transactions of one push.
package struct PushRecord: Sendable, Hashable {
    package var position: Position
    /// Number of transactions, or of parts of one.
    package var count: Int64
    package var bytes: Int64
    /// Milliseconds since 1970.
    package var received: Int64
    package var replica: ReplicaID
    /// The current name that the replica gave itself.
    package var name: String
}

extension RelayDatabase {
    /// Up to `limit` spaces by name, after a name; or only the named one, if it exists.
    func summaries(
        only: SpaceName?, after: SpaceName?, limit: Int, now: Int64, limits: RelayLogLimits
    ) async throws -> (spaces: [SpaceSummary], isLast: Bool) {
        let since = now / DayOfGrowth.milliseconds - Int64(limits.growthDays)
        return try await RelayLogError.wrapped {
            try await storage.read { db in
                var names = try only.map { [$0] } ?? LogStorage.names(in: db)
                if let after { names = names.filter { $0.description > after.description } }
                let spaces = try names.prefix(limit).compactMap { try SummaryStorage.summary(of: $0, since: since, in: db) }
                return (spaces, names.count <= limit)
            }
        }
    }
}

extension RelayLog {
    /// Up to `limit` spaces by name, after a name; or only the named one, if it exists.
    package func summaries(
        only: SpaceName? = nil, after: SpaceName? = nil, limit: Int
    ) async throws -> (spaces: [SpaceSummary], isLast: Bool) {
        await database.storage.scheduled { self.saveAcknowledgements($0) }
        return try await database.summaries(only: only, after: after, limit: limit, now: clock.wall(), limits: limits)
    }

    /// The newest pushes, newest first; only those between two positions, both exclusive. Throws `.spaceNotFound`.
    package func pushes(
        of name: SpaceName, after: Position = .zero, before: Position = Position(.max), limit: Int
    ) async throws -> [PushRecord] {
        try await RelayLogError.wrapped {
            try await database.storage.read { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                return try SummaryStorage.pushes(of: space.id, after: after, before: before, limit: limit, in: db)
            }
        }
    }
}
