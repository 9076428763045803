import AnnalsCore
import AnnalsSync
import AnnalsWire
import Foundation
import Synchronization

/// A relay whose requests and answers a test changes. It forwards what is not changed.
///
///     AlteredRelay(base: world.relay, page: { page, _ in page.isLast = false })
///
/// If a closure throws another error than a `TransportError`, the replica gets `notARelay`.
struct AlteredRelay: ForwardingTransport {
    enum Kind { case describe, create, push, pull, upload, download, olderDownload, report, retire }

    struct Request {
        let kind: Kind
        /// Its number among all requests, and among those of its kind. Both begin with 1.
        let number: Int
        let ofKind: Int
    }

    typealias Event = @Sendable (Request) async throws -> Void

    final class State: Sendable {
        let counts = Mutex<[Kind: Int]>([:])
        let fault = Mutex<TransportError?>(nil)
    }

    let base: any RelayTransport
    /// The largest page.
    var pageBytes = Int.max
    /// Happens before a request gets to the relay, which it does not if this throws.
    var before: Event = { _ in }
    /// Happens when the relay has done its work or has refused it. The answer gets lost if this throws.
    var after: Event = { _ in }
    /// Changes what the relay says of the space.
    var space: @Sendable (inout SpaceDescription) -> Void = { _ in }
    /// Answers a push in place of the relay, unless it returns nil.
    var answer: @Sendable ([UInt8], LogMark) async throws -> PushAnswer? = { _, _ in nil }
    /// Changes the position and the mark of a pull. The page still says that it begins where the replica asked.
    var ask: @Sendable (inout Position, inout LogMark) async throws -> Void = { _, _ in }
    var page: @Sendable (inout Page, Request) throws -> Void = { _, _ in }
    /// Writes the newest snapshot to a path in place of the relay, unless it returns nil.
    var snapshot: @Sendable (String) throws -> Position? = { _ in nil }
    let state = State()

    /// From now on every request fails with this error.
    var fault: TransportError? {
        get { state.fault.withLock { $0 } }
        nonmutating set { state.fault.withLock { $0 = newValue } }
    }

    /// The number of requests, including the failed ones.
    var requests: Int { state.counts.withLock { $0.values.reduce(0, +) } }
    var pushes: Int { state.counts.withLock { $0[.push, default: 0] } }
    var pulls: Int { state.counts.withLock { $0[.pull, default: 0] } }

    // MARK: Requests

    private func pass<Answer>(_ kind: Kind, _ send: (Request) async throws -> Answer) async throws(TransportError) -> Answer {
        let request = state.counts.withLock { counts in
            counts[kind, default: 0] += 1
            return Request(kind: kind, number: counts.values.reduce(0, +), ofKind: counts[kind, default: 0])
        }
        do {
            if let fault { throw fault }
            try await before(request)
            let result: Result<Answer, any Error>
            do { result = .success(try await send(request)) } catch { result = .failure(error) }
            try await after(request)
            return try result.get()
        } catch let error as TransportError {
            throw error
        } catch {
            throw .notARelay("\(error)")
        }
    }

    func describe() async throws(TransportError) -> SpaceDescription {
        try await pass(.describe) { _ in
            var description = try await base.describe()
            space(&description)
            return description
        }
    }

    func create() async throws(TransportError) -> SpaceDescription {
        try await pass(.create) { _ in try await base.create() }
    }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        try await pass(.push) { _ in
            if let own = try await answer(batch, seen) { return own }
            return try await base.push(batch, seen: seen)
        }
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        try await pass(.pull) { request in
            var (asked, mark) = (position, seen)
            try await ask(&asked, &mark)
            var page = try await base.pull(after: asked, seen: mark, byteLimit: min(byteLimit, pageBytes), wait: wait)
            page.after = position
            try self.page(&page, request)
            return page
        }
    }

    func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await pass(.upload) { _ in try await base.uploadSnapshot(at: path, seen: seen, digest: digest, progress: progress) }
    }

    func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await pass(.download) { _ in
            if let position = try snapshot(path) { return position }
            return try await base.downloadSnapshot(to: path, progress: progress)
        }
    }

    func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await pass(.olderDownload) { _ in
            try await base.downloadSnapshot(atOrBefore: position, to: path, progress: progress)
        }
    }

    func report(_ entry: RefusedEntry) async throws(TransportError) {
        try await pass(.report) { _ in try await base.report(entry) }
    }

    func retire(_ replica: ReplicaID) async throws(TransportError) {
        try await pass(.retire) { _ in try await base.retire(replica) }
    }
}

// MARK: Changes that several tests need

extension AlteredRelay {
    enum Moment: CaseIterable { case before, after }

    /// Every request of a kind, or of all kinds, fails from this number on, before or after the relay has done its work.
    static func failing(
        _ base: any RelayTransport, _ kind: Kind? = nil, from first: Int = 1, _ moment: Moment = .before,
        error: TransportError = .notARelay("lost"), pageBytes: Int = .max
    ) -> AlteredRelay {
        let fail: Event = { request in
            guard kind == nil || request.kind == kind else { return }
            if (kind == nil ? request.number : request.ofKind) >= first { throw error }
        }
        var relay = AlteredRelay(base: base, pageBytes: pageBytes)
        if moment == .before { relay.before = fail } else { relay.after = fail }
        return relay
    }

    /// Has no older snapshot.
    static func newestSnapshotOnly(_ base: any RelayTransport) -> AlteredRelay {
        failing(base, .olderDownload, error: .problem(Problem(.noSnapshot), retryAfter: nil))
    }

    /// Hands out a file as the newest snapshot.
    static func handingOut(_ file: String, at position: Position, _ base: any RelayTransport) -> AlteredRelay {
        AlteredRelay(
            base: base,
            snapshot: { path in
                try Data(contentsOf: URL(fileURLWithPath: file)).write(to: URL(fileURLWithPath: path))
                return position
            })
    }

    /// The batch with the checksum of its changed bytes.
    static func checksummed(_ batch: [UInt8]) -> [UInt8] {
        var bytes = batch
        bytes.removeLast(8)
        return bytes + Digest.sha256(bytes[...]).bytes.prefix(8)
    }
}
