/// What has arrived of a streamed body and waits for its reader: the rules of back-pressure, without a lock,
/// thread or connection.
///
/// libcurl offers a piece; a full buffer refuses it, libcurl keeps the piece and stops reading the socket, and
/// TCP slows the server down. The reader always takes everything, and is told when the connection has to go on.
struct ChunkBuffer {
    enum Step {
        case chunk([UInt8], mustResume: Bool)
        case end
        case failed(HTTPError)
        /// Nothing has arrived: ask again when something did.
        case wait
    }

    private let limit: Int
    private var bytes: [UInt8] = []
    private var isPaused = false
    private var ending: Result<Void, HTTPError>?
    /// The most bytes that ever waited.
    private(set) var peak = 0

    init(limit: Int) { self.limit = limit }

    var isEnded: Bool { ending != nil }
    /// Whether `take` would return anything but `wait`.
    var hasNews: Bool { !bytes.isEmpty || isEnded }

    /// Takes a piece, or returns false: the connection must pause and offer the piece again. At most one piece
    /// more than the limit is held.
    mutating func offer(_ piece: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count < limit else {
            isPaused = true
            return false
        }
        bytes.append(contentsOf: piece)
        peak = max(peak, bytes.count)
        return true
    }

    /// Nothing more will come. After a failure, what still waits is dropped if the reader itself gave up, and
    /// handed out first if the connection broke.
    mutating func finish(_ ending: Result<Void, HTTPError>) {
        guard self.ending == nil else { return }
        self.ending = ending
        if case .failure(let error) = ending, error.kind == .cancelled { bytes = [] }
    }

    mutating func take() -> Step {
        guard bytes.isEmpty else {
            defer { (bytes, isPaused) = ([], false) }
            return .chunk(bytes, mustResume: isPaused && ending == nil)
        }
        switch ending {
        case nil: return .wait
        case .success: return .end
        case .failure(let error): return .failed(error)
        }
    }
}
