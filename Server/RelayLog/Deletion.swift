package import AnnalsCore

/// What was deleted with a space.
package struct SpaceDeletion: Sendable, Hashable {
    package var head: Position
    /// Bytes of the kept batches, and of the snapshots.
    package var logBytes: Int64
    package var snapshotBytes: Int64
    package var replicas: Int64

    /// For the audit log.
    var summary: String {
        "head \(head.rawValue), \(logBytes) bytes of log, \(snapshotBytes) bytes of snapshots, \(replicas) replicas"
    }
}

extension RelayDatabase {
    /// Deletes a space permanently: log, snapshots, replicas, buffered parts. Its tokens and audit lines remain.
    ///
    /// The first commit removes the name: from then on the space does not exist, and a new space can have this name.
    /// Later commits delete the content in slices, and pushes to other spaces are committed between them. After an
    /// interruption the next call of `finishDeletions` deletes the rest.
    ///
    /// - Parameters:
    ///   - now: the relay's clock, in milliseconds since 1970.
    ///   - by: who does it, for the audit log.
    /// - Throws: `RelayLogError`: `.spaceNotFound`, `.storage`.
    package func deleteSpace(
        _ name: SpaceName, now: Int64, by: Operator? = nil, limits: RelayLogLimits = RelayLogLimits()
    ) async throws -> SpaceDeletion {
        let entry = AuditEntry(.spaceDelete, by: by, space: name, at: now)
        let deletion = try await RelayLogError.wrapped {
            try await storage.write { db in
                guard let space = try LogStorage.space(name, in: db, locking: true) else { throw RelayLogError.spaceNotFound }
                let deletion = SpaceDeletion(
                    head: space.head, logBytes: space.logBytes - space.droppedBytes,
                    snapshotBytes: try LogStorage.snapshotBytes(of: space.id, in: db),
                    replicas: Int64(try LogStorage.replicas(of: space.id, in: db).count))
                try DeletionStorage.takeName(of: space.id, in: db)
                try AuditStorage.add(entry, subject: deletion.summary, outcome: AuditEntry.done, in: db)
                try db.announce(.zero, of: name)
                return deletion
            }
        }
        try await finishDeletions(limits: limits)
        return deletion
    }

    /// Deletes the rest of deleted spaces. Throws `RelayLogError.storage`, `.overloaded`, and CancellationError.
    package func finishDeletions(limits: RelayLogLimits = RelayLogLimits()) async throws {
        try await RelayLogError.wrapped {
            for space in try await storage.read({ try DeletionStorage.spaces(in: $0) }) {
                while try await storage.write({ try DeletionStorage.dropSlice(of: space, limits: limits, in: $0) }) {
                    try Task.checkCancellation()
                }
                let files = try await storage.write { try DeletionStorage.dropRest(of: space, in: $0) }
                for file in files { snapshots.remove(file) }
            }
        }
    }
}

extension RelayLog {
    /// See `RelayDatabase.deleteSpace`; uses the clock of this relay. Requests that wait for the space are answered.
    package func deleteSpace(_ name: SpaceName, by: Operator? = nil) async throws -> SpaceDeletion {
        let deletion = try await database.deleteSpace(name, now: clock.wall(), by: by, limits: limits)
        forget(name)
        return deletion
    }
}

/// The SQL for the deletion of spaces.
private enum DeletionStorage {
    /// The name of a space cannot contain a colon.
    private static let prefix = "deleted:"

    static func takeName(of space: Int64, in db: any LogConnection) throws {
        try db.execute("UPDATE annals_spaces SET name = ?1, creator = NULL WHERE id = ?2", ["\(prefix)\(space)", space])
    }

    static func spaces(in db: any LogConnection) throws -> [Int64] {
        try db.rows("SELECT id FROM annals_spaces WHERE name LIKE '\(prefix)%' ORDER BY id", []).map { try $0.integer(0) }
    }

    /// Returns false if no runs and no parts are left.
    static func dropSlice(of space: Int64, limits: RelayLogLimits, in db: any LogConnection) throws -> Bool {
        let runs = try db.rows(
            "SELECT position, length(batch) FROM annals_runs WHERE space = ?1 ORDER BY position LIMIT ?2", [space, limits.purgeSliceRuns])
        if let count = try sliceCount(runs, lengthColumn: 1, limits), let last = try runs.prefix(count).last?.position(0) {
            try db.execute("DELETE FROM annals_runs WHERE space = ?1 AND position <= ?2", [space, last])
            return true
        }
        let parts = try db.rows(
            "SELECT replica, part, length(batch) FROM annals_parts WHERE space = ?1 ORDER BY replica, part LIMIT ?2",
            [space, limits.purgeSliceRuns])
        guard let count = try sliceCount(parts, lengthColumn: 2, limits) else { return false }
        for part in parts.prefix(count) {
            let arguments: [any Storable] = [space, try part.bytes(0), try part.integer(1)]
            try db.execute("DELETE FROM annals_parts WHERE space = ?1 AND replica = ?2 AND part = ?3", arguments)
        }
        return true
    }

    /// The number of rows to delete in one commit: at least one; nil if there are none.
    private static func sliceCount(_ rows: [LogRow], lengthColumn: Int, _ limits: RelayLogLimits) throws -> Int? {
        var bytes: Int64 = 0
        var count = 0
        for row in rows {
            bytes += try row.integer(lengthColumn)
            if count > 0, bytes > limits.purgeSliceBytes { break }
            count += 1
        }
        return count > 0 ? count : nil
    }

    /// Deletes the remaining rows, which are few. Returns the files of the snapshots.
    static func dropRest(of space: Int64, in db: any LogConnection) throws -> [String] {
        let files = try LogStorage.snapshots(of: space, in: db).map(\.file)
        for table in ["annals_snapshots", "annals_days", "annals_replicas"] {
            try db.execute("DELETE FROM \(table) WHERE space = ?1", [space])
        }
        try db.execute("DELETE FROM annals_spaces WHERE id = ?1", [space])
        return files
    }
}
