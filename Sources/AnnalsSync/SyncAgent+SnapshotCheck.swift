package import AnnalsCore
import AnnalsReplica
package import AnnalsStore
import AnnalsWire
import Logging

/// How the rows of a replica compare with those of its space.
package enum SpaceComparison: Sendable {
    /// The rows of the snapshot and the log after it are the replica's.
    case equal(snapshot: Position, at: Position)
    case different(snapshot: Position, at: Position, RowDifferences)
    /// Nothing can be begun with the snapshot, or the log does not fit its rows.
    case unusable(snapshot: Position, AnnalsError)
    /// The replica's rows are not what the log has at one position just now.
    case notNow
}

extension SyncAgent {
    /// Compares the snapshot that the relay names with this replica's rows, and tells the relay. Why it could not be done is no failure
    /// of the exchange: the relay asks another replica after a while.
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
                    the snapshot of the space at position \(position), with the log up to \(here), has other rows than this store: \
                    \(Joining.describe(differences)). Run annals verify --space
                    """)
            }
            guard let digest else { return }
            try await transport.report(SnapshotCheck(position: position, digest: digest, isGood: isGood))
        } catch let error as CancellationError {
            throw error
        } catch let error as AnnalsError where error.code == .cancelled {
            throw error
        } catch {
            logger.debug("a snapshot was not compared", metadata: ["position": "\(position)", "reason": "\(error)"])
        }
    }

    /// Compares this replica's rows, without what waits in the outbox, with those of its space: a clone is made in a folder beside the
    /// store and brought to this replica's position. Nothing is changed, and writers of the store do not wait.
    ///
    /// - Parameter position: of the snapshot to begin with; nil: the one that a clone begins with.
    /// - Throws: `AnnalsError`; `notJoined` where the store is joined to no space.
    package func compare(snapshotAt position: Position? = nil) async throws -> (SpaceComparison, snapshot: Digest?) {
        guard let joining = try await joining() else {
            throw AnnalsError(.notJoined, operation: "verify", "the store is joined to no space", hint: "Run annals join first")
        }
        return try await joining.compare(store, snapshotAt: position)
    }
}

extension Joining {
    func compare(_ store: Store, snapshotAt asked: Position?) async throws -> (SpaceComparison, snapshot: Digest?) {
        do {
            let description = try await transport.describe()
            return try await withTemporaryFolder(beside: store.path) { folder in
                guard let own = try await store.standingInLog(scratch: folder.file("own.db")) else { return (.notNow, nil) }
                let purpose = asked.map { SnapshotChoice.exactly($0) } ?? .atOrBefore(own.position)
                var digest: Digest?
                var snapshot = asked ?? own.position
                do {
                    let copy = try await snapshotReplica(in: folder, description, purpose)
                    defer { try? copy.close() }
                    digest = try? FileDigest.sha256(folder.packed)
                    snapshot = try await copy.snapshotStamp().seen.position
                    guard snapshot <= own.position else { return (.notNow, nil) }
                    let log = LogThrough(last: own.position, of: transport)
                    try await SyncAgent(store: copy, transport: log, environment: environment).sync(.pullOnly)
                    guard let there = try await copy.standingInLog(scratch: folder.file("theirs.db")), there.position == own.position else {
                        return (.notNow, nil)
                    }
                    guard there.rows == own.rows else {
                        let differences = try await store.differences(from: copy.path)
                        return (.different(snapshot: snapshot, at: own.position, differences), digest)
                    }
                    let others = own.differences(of: there)
                    guard others.isEmpty else { return (.unusable(snapshot: snapshot, Self.otherwise(others)), digest) }
                    return (.equal(snapshot: snapshot, at: own.position), digest)
                } catch let error as AnnalsError where Self.isOfSnapshot(error) || error.code == .relayWentBack {
                    // A relay that still has this replica's log has not gone back: the snapshot says that it is of another.
                    if error.code == .relayWentBack, let state = try await store.replicaState() {
                        _ = try await transport.pull(after: state.position, seen: state.seen, byteLimit: 1, wait: nil)
                    }
                    digest = digest ?? (try? FileDigest.sha256(folder.packed))
                    return (.unusable(snapshot: snapshot, error), digest)
                }
            }
        } catch let error as TransportError {
            throw error.annalsError
        }
    }

    /// A snapshot with the right rows can say wrong things beside them, by which clones go.
    private static func otherwise(_ differences: [String]) -> AnnalsError {
        AnnalsError(
            .corruptBatch, operation: "verify",
            "its rows are right, and it says otherwise than the log: \(differences.joined(separator: ", "))")
    }
}
