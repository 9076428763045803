public import AnnalsCore
public import AnnalsWire

/// A transport that wraps another one. Methods that are not overridden call the wrapped transport.
///
///     /// Counts what is sent.
///     struct MeteredTransport: ForwardingTransport {
///         let base: any RelayTransport
///         let bytes = Counter()
///
///         func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
///             bytes.add(batch.count)
///             return try await base.push(batch, seen: seen)
///         }
///     }
public protocol ForwardingTransport: RelayTransport {
    var base: any RelayTransport { get }
}

extension ForwardingTransport {
    public func describe() async throws(TransportError) -> SpaceDescription { try await base.describe() }

    public func create() async throws(TransportError) -> SpaceDescription { try await base.create() }

    public func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        try await base.push(batch, seen: seen)
    }

    public func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        try await base.pull(after: position, seen: seen, byteLimit: byteLimit, wait: wait)
    }

    public func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await base.uploadSnapshot(at: path, seen: seen, digest: digest, progress: progress)
    }

    public func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await base.downloadSnapshot(to: path, progress: progress)
    }

    public func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await base.downloadSnapshot(atOrBefore: position, to: path, progress: progress)
    }

    public func downloadSnapshot(
        at position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await base.downloadSnapshot(at: position, to: path, progress: progress)
    }

    public func report(_ check: SnapshotCheck) async throws(TransportError) { try await base.report(check) }

    public func report(_ entry: RefusedEntry) async throws(TransportError) { try await base.report(entry) }

    public func retire(_ replica: ReplicaID) async throws(TransportError) { try await base.retire(replica) }
}
