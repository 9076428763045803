package import AnnalsCore
import AnnalsReplica
import AnnalsSQLite
package import AnnalsStore
import AnnalsWire
import Logging

/// The result of a comparison of a replica's rows with those of its space.
package enum SpaceComparison: Sendable {
    /// The snapshot and the log after it have the rows of the replica.
    case equal(snapshot: Position, at: Position)
    case different(snapshot: Position, at: Position, RowDifferences)
    /// The snapshot cannot be used, or the log contradicts its rows.
    case unusable(snapshot: Position, AnnalsError)
    /// The replica's rows do not match the log at one position at the moment.
    case notNow
}

extension SyncAgent {
    /// Compares the snapshot that the relay named with this replica's rows, and reports the result to the relay. A
    /// failure does not fail the exchange: the relay asks another replica after some time.
    func checkSnapshot(at position: Position) async throws {
        do {
            let (comparison, digest) = try await compare(snapshotAt: position)
            let isGood: Bool
            switch comparison {
            case .equal: isGood = true
            case .notNow: return
            case .unusable(_, let error):
                isGood = false
                logger.warning("the snapshot of the space at position \(position) cannot be used: \(error.message)")
            case .different(_, let here, let differences):
                isGood = false
                logger.warning(
                    """
                    the rows of the snapshot at position \(position), with the log up to \(here), differ from those of this store: \
                    \(Joining.describe(differences))
                    """)
            }
            guard let digest else { return }
            try await transport.report(SnapshotCheck(position: position, digest: digest, isGood: isGood))
        } catch let error as CancellationError {
            throw error
        } catch {
            logger.debug("cannot compare a snapshot", metadata: ["position": "\(position)", "reason": "\(error)"])
        }
    }

    /// Compares this replica's rows, without the outbox, with those of its space. For this a clone is made in a folder
    /// beside the store and brought to this replica's position. Nothing is changed, and writers of the store do not
    /// wait.
    ///
    /// - Parameter position: the position of the snapshot to use. If nil, the newest snapshot up to the replica's
    ///   position is used.
    /// - Throws: `AnnalsError`: `notJoined` if the store is not joined.
    package func compare(snapshotAt position: Position? = nil) async throws -> (SpaceComparison, snapshot: Digest?) {
        guard let joining = try await joining() else {
            throw AnnalsError.notJoined(operation: "verify")
        }
        return try await joining.compare(store, snapshotAt: position)
    }
}

extension Joining {
    func compare(_ store: Store, snapshotAt asked: Position?) async throws -> (SpaceComparison, snapshot: Digest?) {
        do {
            let description = try await transport.describe()
            return try await withTemporaryFolder(beside: store.path) { folder in
                guard let own = try await store.logContents(scratch: folder.file("own.db")) else { return (.notNow, nil) }
                let purpose = asked.map { SnapshotChoice.exactly($0) } ?? .atOrBefore(own.position)
                var digest: Digest?
                var snapshot = asked ?? own.position
                do {
                    let copy = try await snapshotReplica(in: folder, description, purpose)
                    defer { try? copy.close() }
                    digest = try? FileDigest.sha256(folder.packed)
                    snapshot = try await copy.snapshotStamp().seen.position
                    guard snapshot <= own.position else { return (.notNow, nil) }
                    let log = BoundedLog(last: own.position, of: transport)
                    try await SyncAgent(store: copy, transport: log, environment: environment).sync(.pullOnly)
                    guard let there = try await copy.logContents(scratch: folder.file("theirs.db")), there.position == own.position else {
                        return (.notNow, nil)
                    }
                    guard there.rows == own.rows else {
                        let differences = try await store.differences(from: copy.path)
                        return (.different(snapshot: snapshot, at: own.position, differences), digest)
                    }
                    let others = own.differences(of: there)
                    guard others.isEmpty else { return (.unusable(snapshot: snapshot, Self.otherwise(others)), digest) }
                    return (.equal(snapshot: snapshot, at: own.position), digest)
                } catch let error as AnnalsError where Self.isOfSnapshot(error) || error.code == .relayRolledBack {
                    // This program cannot use such tables, in its own file neither. So it cannot judge the snapshot.
                    if StoreError.isAboutMissingName(error), try await !store.unusableTables().isEmpty { throw error }
                    // If the relay still has this replica's log, it was not restored. Then the snapshot claims to
                    // belong to another log.
                    if error.code == .relayRolledBack, let state = try await store.replicaState() {
                        _ = try await transport.pull(after: state.position, seen: state.seen, byteLimit: 1, wait: nil)
                    }
                    digest = digest ?? (try? FileDigest.sha256(folder.packed))
                    return (.unusable(snapshot: snapshot, error), digest)
                }
            }
        } catch let error as TransportError {
            throw error.thrown
        }
    }

    /// A snapshot with the right rows can contain other false facts, on which clones depend.
    private static func otherwise(_ differences: [String]) -> AnnalsError {
        AnnalsError(
            .corruptBatch, operation: "verify",
            "its rows are right, but these facts differ from the log: \(differences.joined(separator: ", "))")
    }
}
