import AnnalsCore
import AnnalsWire

/// A log for a copy that is no replica which anything is kept for: as it was when it ended at a position, or as it is.
struct LogThrough: ForwardingTransport {
    let last: Position?
    let base: any RelayTransport

    init(last: Position? = nil, of base: any RelayTransport) {
        self.last = last
        self.base = base
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        var seen = seen
        seen.replica = nil
        var page: Page
        do {
            page = try await base.pull(after: position, seen: seen, byteLimit: byteLimit, wait: wait)
        } catch  where last != nil && error.code == .expired {
            // A copy that was to stand at a position must not go on by a later snapshot.
            throw .problem(Problem(.snapshotSuperseded, detail: "the log was purged meanwhile", hint: "Run sync again"), retryAfter: nil)
        }
        guard let last, page.head > last else { return page }
        page.head = last
        page.frames = page.frames.filter { $0.firstPosition <= last }
        if let frame = page.frames.last, frame.lastPosition > last {
            page.frames[page.frames.count - 1].acceptedCount -= Int(frame.lastPosition.rawValue - last.rawValue)
        }
        page.isLast = page.lastPosition == last
        return page
    }
}
