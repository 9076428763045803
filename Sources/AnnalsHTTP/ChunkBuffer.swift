/// The bytes of a streamed body that have arrived and that the reader has not read yet. It implements back-pressure
/// without a lock, a thread or a connection.
///
/// If the buffer is full, it refuses a piece. Then libcurl keeps the piece and stops reading the socket, and TCP slows
/// the server down. The reader always takes all bytes and resumes the connection if necessary.
struct ChunkBuffer {
    enum Step {
        case chunk([UInt8], mustResume: Bool)
        case end
        case failed(HTTPError)
        /// Nothing has arrived. Ask again after something has arrived.
        case wait
    }

    private let limit: Int
    private var bytes: [UInt8] = []
    private var isPaused = false
    private var ending: Result<Void, HTTPError>?
    /// The largest number of bytes that were in the buffer.
    private(set) var peak = 0

    init(limit: Int) { self.limit = limit }

    var isEnded: Bool { ending != nil }
    /// Whether `take` would return something other than `wait`.
    var hasNews: Bool { !bytes.isEmpty || isEnded }

    /// Accepts a piece, or returns false. Then the connection must pause and offer the piece again. The buffer exceeds
    /// its limit by at most one piece.
    mutating func offer(_ piece: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count < limit else {
            isPaused = true
            return false
        }
        bytes.append(contentsOf: piece)
        peak = max(peak, bytes.count)
        return true
    }

    /// Ends the body. If the reader cancelled, the remaining bytes are dropped. If the connection broke, the reader
    /// gets them before the error.
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
