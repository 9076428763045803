import AnnalsCore
import AnnalsWire

/// A log for a copy that is no replica which anything is kept for: as it was when it ended at a position, or as it is.
struct LogThrough: RelayTransport {
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

    func describe() async throws(TransportError) -> SpaceDescription { try await base.describe() }

    func create() async throws(TransportError) -> SpaceDescription { try await base.create() }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        try await base.push(batch, seen: seen)
    }

    func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await base.uploadSnapshot(at: path, seen: seen, digest: digest, progress: progress)
    }

    func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await base.downloadSnapshot(atOrBefore: position, to: path, progress: progress)
    }

    func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await base.downloadSnapshot(to: path, progress: progress)
    }
}
