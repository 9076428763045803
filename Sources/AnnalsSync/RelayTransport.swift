public import AnnalsCore
public import AnnalsHTTP
public import AnnalsWire

/// The connection of a replica to its relay. `HTTPRelay` is one implementation. Tests use one in memory.
///
/// Every method throws `TransportError`. After an error that is not a definite answer, a push may have been accepted.
/// So the agent sends the same bytes again.
public protocol RelayTransport: Sendable {
    /// The space's head and lineage. Throws `.problem` with code `space-not-found` if the space does not exist.
    func describe() async throws(TransportError) -> SpaceDescription
    /// Creates the space. Throws `.problem` with code `space-exists` if it exists.
    func create() async throws(TransportError) -> SpaceDescription
    /// Sends a batch.
    ///
    /// - Parameters:
    ///   - batch: the bytes of the batch. A transport sends them unchanged.
    ///   - seen: what the author has seen of the log. A relay with another log refuses with code `log-rolled-back`.
    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer
    /// The log after a position, up to about `byteLimit` bytes. With `wait`, the relay delays its answer until there
    /// are entries or the time is over.
    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page
    /// Uploads a compressed snapshot file with the rows at a position.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - seen: the position and the log of the rows. A relay with another log refuses with code `log-rolled-back`.
    ///   - digest: the digest of the packed file.
    ///   - progress: gets the number of sent bytes.
    func uploadSnapshot(at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void)
        async throws(TransportError)
    /// Downloads the newest snapshot to a file, and returns its position.
    func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position
    /// Downloads the newest snapshot that is not after this position. Throws code `expired` if the log begins later.
    func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position
    /// Downloads the snapshot at this position, even if no replica has confirmed it. Throws code `no-snapshot` if there
    /// is none.
    func downloadSnapshot(
        at position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError)
    /// Reports to the relay whether a snapshot has this replica's rows.
    func report(_ check: SnapshotCheck) async throws(TransportError)
    /// Reports an entry that cannot be applied here to the relay's operator. `table` is nil in a sealed space.
    func report(_ entry: RefusedEntry) async throws(TransportError)
    /// Reports to the relay that a replica has left the space, so that the relay does not keep the log for it.
    func retire(_ replica: ReplicaID) async throws(TransportError)
}

extension RelayTransport {
    /// Does nothing. For transports that do not support it.
    public func report(_ entry: RefusedEntry) async throws(TransportError) {}

    /// Does nothing. For transports that do not support it.
    public func retire(_ replica: ReplicaID) async throws(TransportError) {}

    /// Does nothing. For transports that do not support it.
    public func report(_ check: SnapshotCheck) async throws(TransportError) {}

    /// For transports that can only download the newest snapshot.
    public func downloadSnapshot(
        at position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        let found = try await downloadSnapshot(atOrBefore: position, to: path, progress: progress)
        guard found == position else { throw .problem(Problem(.noSnapshot), retryAfter: nil) }
    }

    /// For transports that can only download the newest snapshot. The caller must check the returned position.
    public func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await downloadSnapshot(to: path, progress: progress)
    }

    /// Pulls one page of a sequence. A page that begins elsewhere is refused, because a relay that returns the same
    /// page again and again would keep its reader forever.
    func page(after position: Position, seen: LogMark) async throws(TransportError) -> Page {
        let page = try await pull(after: position, seen: seen, byteLimit: SyncLimits.pageBytes, wait: nil)
        guard page.after == position else { throw .badAnswer(.badValue("position")) }
        return page
    }
}

/// Why a request to the relay got no usable answer.
public enum TransportError: Error, Sendable {
    /// There was no connection, or it broke. `wasSent`: whether the relay may have seen the request.
    case unreachable(String, wasSent: Bool)
    /// The connection was open, but no answer arrived in time. The relay may have seen the request.
    case unanswered(String)
    /// The relay's certificate or key is not trusted. Nothing was sent. The values are the message and the problem, which has the
    /// hint.
    case untrusted(String, CertificateProblem)
    /// The relay refused the request with problem details.
    case problem(Problem, retryAfter: Duration?)
    /// The answer is not from a relay. It is, for example, a proxy's HTML page.
    case notARelay(String)
    /// The answer is from a relay, but its bytes break the format.
    case badAnswer(WireError)
    /// A file on this machine could not be read or written, because the disk is full or for another reason.
    case localFile(String, isDiskFull: Bool)
    case cancelled
}
