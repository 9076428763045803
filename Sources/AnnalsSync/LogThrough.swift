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
        do {
            try page.end(at: last)
        } catch {
            throw .badAnswer(error)
        }
        return page
    }
}

extension Page {
    /// Cuts off what comes after a position, and before it a transaction in parts whose last part does: then the log ends
    /// where that one begins.
    fileprivate mutating func end(at last: Position) throws(WireError) {
        head = last
        frames.removeAll { $0.firstPosition > last }
        if let frame = frames.last, frame.lastPosition > last {
            frames[frames.count - 1].acceptedCount -= Int(frame.lastPosition.rawValue - last.rawValue)
        }
        if lastPosition == last, let frame = frames.last {
            let header = try BatchHeader.parse(frame.batch)
            if !header.isVoided, header.part.number < header.part.count - 1 {
                head = frame.firstPosition.advanced(by: -header.part.number - 1)
                frames.removeAll { $0.firstPosition > head }
            }
        }
        isLast = lastPosition >= head
    }
}
