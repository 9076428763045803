public import AnnalsCore
public import AnnalsSync
public import AnnalsWire
import Foundation
package import Logging
package import RelayLog

/// A relay in the same process, without HTTP: the real log in a folder, used by direct calls.
///
///     let relay = try LocalRelay(folder: folder, space: address.space)
///     let agent = SyncAgent(store: store, transport: relay, joining: address)
///     try await agent.sync()
public struct LocalRelay: RelayTransport {
    package let log: RelayLog
    private let space: SpaceName
    /// The owner of the replicas that use this connection. nil means that the relay serves everyone.
    private let owner: ReplicaOwner?

    /// - Parameters:
    ///   - folder: the folder of the log. An existing log is opened again.
    ///   - space: the space.
    public init(folder: String, space: SpaceName) throws {
        try self.init(folder: folder, space: space, limits: RelayLogLimits())
    }

    package init(folder: String, space: SpaceName, limits: RelayLogLimits, clock: RelayClock = .system) throws {
        let log = try RelayLog(directory: folder, limits: limits, clock: clock, logger: Self.silence)
        self.init(log: log, space: space)
    }

    package init(log: RelayLog, space: SpaceName, owner: ReplicaOwner? = nil) {
        self.log = log
        self.space = space
        self.owner = owner
    }

    package static let silence = Logger(label: "annals.testing", factory: { _ in SwiftLogNoOpLogHandler() })

    public func describe() async throws(TransportError) -> SpaceDescription {
        try await answer { try await log.describe(space) }
    }

    public func create() async throws(TransportError) -> SpaceDescription {
        try await answer { try await log.createSpace(space) }
    }

    public func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        let header: BatchHeader
        do {
            header = try BatchHeader.parse(batch)
        } catch {
            throw .problem(Problem(.corruptBatch), retryAfter: nil)
        }
        return try await answer { try await log.push(batch, header: header, to: space, as: nil, by: owner, seen: seen) }
    }

    public func pull(
        after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?
    ) async throws(TransportError) -> Page {
        try await answer {
            let page = try await log.pull(from: space, after: position, byteLimit: byteLimit, seen: seen, wait: wait ?? .zero, by: owner)
            if let replica = seen.replica { log.note(replica, named: nil, at: position, in: space, by: owner) }
            return page
        }
    }

    public func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await answer {
            try await log.require(space, seen: seen)
            let upload = try await log.snapshots.begin(space, position: seen.position, by: Taker(credential: owner, space: space))
            let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            try await upload.write([UInt8](bytes))
            _ = try await upload.finish(digest: digest)
            progress(Int64(bytes.count))
        }
    }

    public func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await download(atOrBefore: nil, path, progress)
    }

    public func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await download(atOrBefore: position, path, progress)
    }

    public func downloadSnapshot(
        at position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        _ = try await download(atOrBefore: position, exact: true, path, progress)
    }

    public func report(_ check: SnapshotCheck) async throws(TransportError) {
        _ = try await answer { try await log.check(check, of: space, by: owner) }
    }

    private func download(
        atOrBefore position: Position?, exact: Bool = false, _ path: String, _ progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await answer {
            let snapshot = try await log.snapshots.open(space, atOrBefore: position, exact: exact)
            let bytes = try await snapshot.read(at: 0, count: Int(snapshot.record.byteCount))
            try Data(bytes).write(to: URL(fileURLWithPath: path))
            progress(snapshot.record.byteCount)
            return snapshot.record.position
        }
    }

    /// Drops the part of the log that the rules allow, and returns the new horizon.
    package func purge(_ rules: PurgeRules) async throws -> Position {
        try await log.purge(space, rules).horizon
    }

    /// The relay's records of the replicas.
    package func replicas() async throws -> [ReplicaRecord] {
        try await log.replicas(of: space)
    }

    public func retire(_ replica: ReplicaID) async throws(TransportError) {
        _ = try await answer { try await log.retire(replica, of: space) }
    }

    /// Voids the entry at a position, like `annals relay void`.
    package func void(_ position: Position, withLater: Bool = false) async throws -> VoidOutcome {
        try await log.void(position, of: space, withLater: withLater)
    }

    public func report(_ entry: RefusedEntry) async throws(TransportError) {
        guard let digest = entry.digest else { return }
        let report = EntryReport(position: entry.position, digest: digest, rule: entry.rule, table: entry.table)
        _ = try await answer { try await log.report(report, of: space, by: owner) }
    }

    /// The reports of receivers, as an operator sees them.
    package func reports() async throws -> [ReportedEntry] {
        try await log.reports(of: space, limit: 100)
    }

    private func answer<T: Sendable>(_ body: () async throws -> T) async throws(TransportError) -> T {
        do {
            return try await body()
        } catch let error as RelayLogError {
            throw Self.translate(error)
        } catch is CancellationError {
            throw .cancelled
        } catch {
            throw .unreachable("\(error)", wasSent: true)
        }
    }

    private static func translate(_ error: RelayLogError) -> TransportError {
        let code: Problem.Code =
            switch error {
            case .spaceNotFound: .spaceNotFound
            case .spaceExists: .spaceExists
            case .notForReplicas: .notPermitted
            case .quarantined: .quarantined
            case .badSignature: .corruptBatch
            case .expired: .expired
            case .logRolledBack, .beyondHead: .logRolledBack
            case .noSnapshot: .noSnapshot
            case .snapshotDigestMismatch: .badDigest
            case .badSnapshot: .badSnapshot
            case .snapshotSuperseded: .snapshotSuperseded
            case .transactionTooLarge: .tooLarge
            default: .unavailable
            }
        return .problem(Problem(code), retryAfter: nil)
    }
}
