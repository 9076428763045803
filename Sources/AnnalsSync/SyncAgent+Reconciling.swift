import AnnalsCore
import AnnalsStore
import AnnalsWire
import Logging

extension SyncAgent {
    /// Compares the rows with the log's, where another program may have written some that no trigger saw, and takes up
    /// what differs. It costs about as much as a clone.
    func reconcile(_ status: ExchangeStatus, _ summary: inout Summary) async throws -> ExchangeStatus {
        logger.notice("another program rebuilt a table: comparing the rows with the space's")
        var status = status
        for _ in 0..<SyncLimits.triesToReconcile {
            // What is on its way is in the log, or it is not: that decides what the rows are compared with.
            if status.isPushUnderWay {
                status = try await finishPush(&summary)
                continue
            }
            guard let doubt = try await store.rowsInDoubt() else { break }
            if let found = try await reconcile(doubt) {
                summary.reconciled += found.changes
                break
            }
            status = try await store.prepareOutbox()
        }
        return try await store.prepareOutbox()
    }

    private func finishPush(_ summary: inout Summary) async throws -> ExchangeStatus {
        var status = try await store.prepareOutbox()
        guard let push = try await store.freezePush() else { return status }
        let answer = try await settle(push, &summary, &status)
        if case .wait(let milliseconds) = answer?.outcome { try await environment.pause(.milliseconds(milliseconds)) }
        return status
    }

    private nonisolated func reconcile(_ doubt: RowsInDoubt) async throws -> Reconciled? {
        guard let state = try await store.replicaState() else { return nil }
        let joining = Joining(
            transport: transport, address: state.relay, space: state.space, name: state.name, credentialFile: state.credentialFile,
            configuration: store.configuration, environment: environment)
        let description = try await request { [transport] in try await transport.describe() }
        guard description.lineage == doubt.lineage else { throw AnnalsError.relayWentBack(operation: "sync") }
        return try await joining.withTemporaryFolder(beside: store.path) { folder in
            let copy = try await joining.snapshotReplica(in: folder, description)
            defer { try? copy.close() }
            guard let snapshot = try await copy.replicaState(), snapshot.position <= doubt.position else { throw Self.tooOld }
            try await pull(copy, through: doubt.position)
            guard try await isSameLog(copy, state) else { throw AnnalsError.relayWentBack(operation: "sync") }
            if let last = doubt.ahead.last {
                let own = Set(doubt.ahead)
                try await copy.passOver(doubt.position.through(last).filter { !own.contains($0) })
                try await pull(copy, through: last)
            }
            return try await store.reconcile(doubt, with: copy)
        }
    }

    /// Whether the log leads to where the store is: a relay that was restored from an older backup may have got another one.
    private nonisolated func isSameLog(_ copy: Store, _ state: ReplicaState) async throws -> Bool {
        guard let there = try await copy.replicaState(), there.position == state.position else { return true }
        guard let digest = there.logDigest, let known = state.logDigest else { return true }
        return digest == known
    }

    private nonisolated func pull(_ copy: Store, through last: Position) async throws {
        let log = LogThrough(last: last, of: transport)
        try await SyncAgent(store: copy, transport: log, environment: environment, logger: logger).sync(.pullOnly)
    }

    private static var tooOld: AnnalsError {
        AnnalsError(
            .expired, operation: "sync",
            "another program rebuilt a table, and the space's rows of then cannot be had any more to find out what it wrote",
            hint: "Run annals leave and annals join --existing same-key")
    }
}

extension Position {
    /// The positions behind this one, up to `last`.
    fileprivate func through(_ last: Position) -> [Position] {
        last > self ? (rawValue + 1...last.rawValue).map { Position($0) } : []
    }
}

/// A log as it was when it ended at a position.
private struct LogThrough: RelayTransport {
    let last: Position
    let base: any RelayTransport

    init(last: Position, of base: any RelayTransport) {
        self.last = last
        self.base = base
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        var page = try await base.pull(after: position, seen: seen, byteLimit: byteLimit, wait: wait)
        guard page.head > last else { return page }
        page.head = last
        page.frames = page.frames.filter { $0.firstPosition <= last }
        if let frame = page.frames.last, frame.lastPosition > last {
            page.frames[page.frames.count - 1].acceptedCount -= Int(frame.lastPosition.rawValue - last.rawValue)
        }
        page.isLast = page.lastPosition == last
        return page
    }

    func describe() async throws(TransportError) -> SpaceDescription { try await base.describe() }

    func create() async throws(TransportError) -> SpaceDescription { try await base.create() }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        try await base.push(batch, seen: seen)
    }

    func uploadSnapshot(
        at path: String, position: Position, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await base.uploadSnapshot(at: path, position: position, digest: digest, progress: progress)
    }

    func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await base.downloadSnapshot(to: path, progress: progress)
    }
}
