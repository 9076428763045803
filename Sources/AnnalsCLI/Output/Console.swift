import Foundation
import Synchronization

/// The destination of output: the process's own streams, or memory in a test.
protocol Sink: Sendable {
    /// Writes results.
    func write(_ text: String)
    /// Writes messages for the user.
    func writeError(_ text: String)
    /// Writes text that is still buffered.
    func flush()
    /// True if the reader of the output is gone. A command that streams may then stop.
    var isClosed: Bool { get }
}

/// What a command prints with.
struct Console: Sendable {
    let sink: any Sink
    /// Colours on standard output.
    let style: Style
    /// Whether standard error is a terminal, so that progress can be drawn on it.
    let showsProgress: Bool

    init(sink: any Sink, style: Style = .plain, showsProgress: Bool = false) {
        self.sink = sink
        self.style = style
        self.showsProgress = showsProgress
    }

    func print(_ line: String = "") {
        sink.write(line + "\n")
    }

    func print(_ json: JSON) {
        print(json.description)
    }

    func print(_ table: Table) {
        for line in table.lines(style) { print(line) }
    }

    /// Prints a message that is not a result, on standard error.
    func note(_ line: String) {
        sink.flush()
        sink.writeError(line + "\n")
    }

    var isClosed: Bool { sink.isClosed }
}

/// The process's standard output and standard error.
///
/// Output to a file or pipe is written in large pieces. If its reader closes it, as `head` does, that is not an error; further
/// output is dropped.
final class StandardStreams: Sink {
    static let shared = StandardStreams()

    private struct State {
        var held: [UInt8] = []
        var isClosed = false
        var failure: Int32?
    }

    private let state = Mutex(State())
    /// A terminal gets each line at once. A command that streams to another program calls `flush`.
    private let holdsBack = isatty(STDOUT_FILENO) == 0

    private static let heldBytes = 1 << 16

    func write(_ text: String) {
        state.withLock { state in
            state.held.append(contentsOf: text.utf8)
            if !holdsBack || state.held.count >= Self.heldBytes { Self.hand(&state) }
        }
    }

    func writeError(_ text: String) {
        state.withLock { _ in _ = Self.writeAll(Array(text.utf8), to: STDERR_FILENO) }
    }

    func flush() {
        state.withLock { Self.hand(&$0) }
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Why output could not be written, such as a full disk; nil if the reader closed it.
    var failure: String? { state.withLock { $0.failure.map { String(cString: strerror($0)) } } }

    private static func hand(_ state: inout State) {
        defer { state.held.removeAll(keepingCapacity: true) }
        guard !state.held.isEmpty, !state.isClosed else { return }
        guard !writeAll(state.held, to: STDOUT_FILENO) else { return }
        if errno != EPIPE { state.failure = errno }
        state.isClosed = true
    }

    /// False if the bytes cannot be written; `errno` says why.
    private static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        bytes.withUnsafeBytes { buffer in
            var done = 0
            while done < buffer.count {
                let count = Foundation.write(descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done)
                if count > 0 {
                    done += count
                } else if errno == EAGAIN {
                    // The other end made the pipe non-blocking, so wait until it accepts more.
                    var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    _ = Foundation.poll(&poll, 1, -1)
                } else if errno != EINTR {
                    return false
                }
            }
            return true
        }
    }
}
