import AnnalsCore
import AnnalsWire

/// The log for a temporary copy that the relay does not count as a replica: the whole log, or the log up to a position.
struct BoundedLog: ForwardingTransport {
    let last: Position?
    let base: any RelayTransport
    /// Own entries that the log must have at these positions. A relay that was restored from an older backup may have
    /// other entries there.
    let own: [Position: Digest]

    init(last: Position? = nil, of base: any RelayTransport, own: [Position: Digest] = [:]) {
        self.last = last
        self.base = base
        self.own = own
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        var seen = seen
        seen.replica = nil
        var page: Page
        do {
            page = try await base.pull(after: position, seen: seen, byteLimit: byteLimit, wait: wait)
        } catch  where last != nil && error.code == .expired {
            // The copy must end at a fixed position, so it must not continue with a later snapshot.
            throw .problem(
                Problem(.snapshotSuperseded, detail: "the relay purged the log during the request", hint: "Run sync again"), retryAfter: nil
            )
        }
        var isOwn = true
        do throws(WireError) {
            isOwn = try page.holds(own)
            if let last, page.head > last { try page.end(at: last) }
        } catch {
            throw .badAnswer(error)
        }
        guard isOwn else { throw .problem(Problem(.logRolledBack), retryAfter: nil) }
        return page
    }
}

extension Page {
    /// Whether the page has the known entries at their positions.
    fileprivate func holds(_ own: [Position: Digest]) throws(WireError) -> Bool {
        guard !own.isEmpty else { return true }
        for frame in frames {
            for (index, certificate) in try BatchHeader.parse(frame.batch).certificates.enumerated() {
                if let known = frame.position(of: index).flatMap({ own[$0] }), known != certificate.digest { return false }
            }
        }
        return true
    }

    /// Removes the entries after a position. If a transaction in parts ends after the position, all its parts are
    /// removed, and the log ends before it.
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
                guard head >= .zero else { throw .badValue("part") }
                frames.removeAll { $0.firstPosition > head }
            }
        }
        isLast = lastPosition >= head
    }
}
