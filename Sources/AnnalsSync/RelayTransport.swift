public import AnnalsCore
public import AnnalsWire

/// How a replica reaches its relay. HTTP is one form; tests use one in memory.
///
/// Every method throws `TransportError`. What it throws decides what the agent may believe: after anything but a
/// definite answer a push may have been accepted, and is sent again with the same bytes.
public protocol RelayTransport: Sendable {
    /// The space's head and lineage; throws `.problem` with code `space-not-found` when there is none.
    func describe() async throws(TransportError) -> SpaceDescription
    /// Makes the space; throws `.problem` with code `space-exists` when there is one.
    func create() async throws(TransportError) -> SpaceDescription
    /// - Parameters:
    ///   - batch: its bytes, which a transport passes on as they are.
    ///   - seen: what the author has seen of the log; a relay that has another refuses with code `went-back`.
    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer
    /// The log after a position, up to about `byteLimit` bytes. With `wait` the relay holds the answer back until
    /// there is something or the time is over.
    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page
    /// Sends a compressed snapshot file that holds the rows at a position.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - seen: that position, and of which log; a relay that has another refuses with code `went-back`.
    ///   - digest: of the packed file.
    ///   - progress: told how far it is.
    func uploadSnapshot(at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void)
        async throws(TransportError)
    /// Fetches the newest snapshot into a file, and says which position it holds.
    func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position
    /// The same with the newest that holds no later position than this; code `expired` when the log begins later.
    func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position
    /// Fetches the snapshot of that position, whatever is known of it; code `no-snapshot` when there is none.
    func downloadSnapshot(
        at position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError)
    /// Tells the relay whether a snapshot has this replica's rows.
    func report(_ check: SnapshotCheck) async throws(TransportError)
    /// Tells the relay's operator of an entry that cannot be applied here. `table` is nil in a sealed space.
    func report(_ entry: RefusedEntry) async throws(TransportError)
    /// Tells the relay that a replica has left the space, so that the log is not kept for it.
    func retire(_ replica: ReplicaID) async throws(TransportError)
}

extension RelayTransport {
    /// For a transport without such a way.
    public func report(_ entry: RefusedEntry) async throws(TransportError) {}

    /// For a transport without such a way.
    public func retire(_ replica: ReplicaID) async throws(TransportError) {}

    /// For a transport without such a way.
    public func report(_ check: SnapshotCheck) async throws(TransportError) {}

    /// For a transport that knows the newest only.
    public func downloadSnapshot(
        at position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        let found = try await downloadSnapshot(atOrBefore: position, to: path, progress: progress)
        guard found == position else { throw .problem(Problem(.noSnapshot), retryAfter: nil) }
    }

    /// For a transport that knows the newest only: whoever asks looks at what position it got.
    public func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await downloadSnapshot(to: path, progress: progress)
    }

    /// The same as `pull`, for reading on page by page: one that begins elsewhere is refused, or a relay that hands out the same
    /// page again and again would keep its reader for ever.
    func page(after position: Position, seen: LogMark) async throws(TransportError) -> Page {
        let page = try await pull(after: position, seen: seen, byteLimit: SyncLimits.pageBytes, wait: nil)
        guard page.after == position else { throw .badAnswer(.badValue("position")) }
        return page
    }
}

/// Why an exchange with the relay gave no answer to use.
public enum TransportError: Error, Sendable {
    /// No connection, or it broke. `wasSent`: the relay may have seen the request.
    case unreachable(String, wasSent: Bool)
    /// The connection stood, and no answer came in the time that a request has. The relay may have seen it.
    case unanswered(String)
    /// Its certificate or key is not one to trust; nothing was sent. What is wrong, and what to do.
    case untrusted(String, hint: String)
    /// The relay said no, in the form that relays use.
    case problem(Problem, retryAfter: Duration?)
    /// Something answered that is not a relay, such as a proxy's HTML page.
    case notARelay(String)
    /// The answer was a relay's but its bytes are not what the format says.
    case badAnswer(WireError)
    /// A file on this machine could not be read or written, for the disk is full or for another reason.
    case localFile(String, isDiskFull: Bool)
    case cancelled
}
