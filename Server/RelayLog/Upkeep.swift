internal import AnnalsCore

extension RelayLog {
    /// Drops uploads and unfinished transactions that did not continue in time, and the rest of deleted spaces.
    ///
    /// Throws `RelayLogError.storage`, `.overloaded`, and CancellationError.
    package func upkeep() async throws {
        await snapshots.abandonStale()
        try await dropStaleParts()
        try await database.finishDeletions(limits: limits)
    }

    private func dropStaleParts() async throws {
        let before = clock.wall() - limits.parkedPartMilliseconds
        for (space, replica) in try await reading({ try PartStorage.stale(before: before, in: $0) }) {
            try Task.checkCancellation()
            try await RelayLogError.wrapped {
                try await database.storage.write { try PartStorage.dropStale(of: replica, in: space, before: before, db: $0) }
            }
        }
    }
}
