import Synchronization

/// Passes a streamed body from the client's thread to the single task that reads it.
final class BodyChannel: Sendable {
    private struct State {
        var buffer: ChunkBuffer
        var reader: CheckedContinuation<Void, Never>?

        mutating func takeReader() -> CheckedContinuation<Void, Never>? {
            defer { reader = nil }
            return reader
        }
    }

    private let state: Mutex<State>

    init(limit: Int) { state = Mutex(State(buffer: ChunkBuffer(limit: limit))) }

    var isEnded: Bool { state.withLock { $0.buffer.isEnded } }
    var peak: Int { state.withLock { $0.buffer.peak } }

    /// Called on the client's thread. False if the connection must pause.
    func offer(_ piece: UnsafeRawBufferPointer) -> Bool {
        let (isTaken, reader) = state.withLock { ($0.buffer.offer(piece), $0.takeReader()) }
        reader?.resume()
        return isTaken
    }

    /// Called on the client's thread, once.
    func finish(_ ending: Result<Void, HTTPError>) {
        let reader = state.withLock { state in
            state.buffer.finish(ending)
            return state.takeReader()
        }
        reader?.resume()
    }

    /// Returns the next bytes. Calls `resume` if the connection was paused until the reader has read.
    func next(resume: () -> Void) async throws(HTTPError) -> [UInt8]? {
        while true {
            switch state.withLock({ $0.buffer.take() }) {
            case .chunk(let bytes, let mustResume):
                if mustResume { resume() }
                return bytes
            case .end: return nil
            case .failed(let error): throw error
            case .wait: await arrival()
            }
        }
    }

    private func arrival() async {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                // This is an error of the caller. No server can cause it.
                precondition(state.reader == nil, "a body is read by one task at a time")
                if state.buffer.hasNews { return true }
                state.reader = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
