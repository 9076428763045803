import Annals
import AnnalsTesting
import Foundation
import Synchronization
import Testing

/// Whether a developer with only the library and its test kit can write a transport with a protocol of their own.
@Suite("A transport of one's own", .timeLimit(.minutes(20)))
struct OwnTransportTests {
    @Test("carries requests and answers as bytes, and is one")
    func conformance() async throws {
        let relays = Mutex<[SpaceName: FarRelay]>([:])
        let failures = try await TransportConformance.failures { space in
            try relays.withLock { relays in
                let relay = try relays[space] ?? FarRelay(space: space)
                relays[space] = relay
                return BytesTransport(relay: relay)
            }
        }
        #expect(failures == [])
    }
}

/// The other end of a connection. It accepts and returns only what can be sent.
private final class FarRelay: Sendable {
    /// An answer, and the values that a protocol has to send beside it.
    struct Answer {
        var bytes: [UInt8]
        var isSnapshotDue = false
        var time: Int64?
    }

    private let relay: MemoryRelay

    init(space: SpaceName) throws { relay = try MemoryRelay(space: space, clock: ManualClock(milliseconds: 1_700_000_000_000)) }

    func describe() async throws(TransportError) -> Data { Self.json(try await relay.describe()) }

    func create() async throws(TransportError) -> Data { Self.json(try await relay.create()) }

    func push(_ batch: [UInt8], _ seen: Seen) async throws(TransportError) -> Answer {
        let answer = try await relay.push(batch, seen: seen.mark())
        do {
            return Answer(bytes: try answer.encode(), isSnapshotDue: answer.isSnapshotDue)
        } catch {
            throw .badAnswer(error)
        }
    }

    func pull(_ position: Int64, _ seen: Seen, _ byteLimit: Int, _ wait: Duration?) async throws(TransportError) -> Answer {
        let page = try await relay.pull(after: Position(position), seen: seen.mark(), byteLimit: byteLimit, wait: wait)
        return Answer(bytes: page.encode(), isSnapshotDue: page.isSnapshotDue, time: page.relayTime)
    }

    func takeSnapshot(_ path: String, _ seen: Seen, _ digest: [UInt8]) async throws(TransportError) {
        guard let digest = Digest(bytes: digest) else { throw Self.refusal(.badDigest) }
        try await relay.uploadSnapshot(at: path, seen: seen.mark(), digest: digest) { _ in }
    }

    func giveSnapshot(_ path: String) async throws(TransportError) -> Int64 {
        try await relay.downloadSnapshot(to: path) { _ in }.rawValue
    }

    private static func json(_ description: SpaceDescription) -> Data { (try? JSONEncoder().encode(description)) ?? Data() }

    /// A refusal as it arrives over the connection.
    static func refusal(_ code: Problem.Code) -> TransportError {
        let sent = try? JSONEncoder().encode(Problem(code, detail: "not taken", hint: "send something else"))
        guard let sent, let problem = try? JSONDecoder().decode(Problem.self, from: sent) else { return .notARelay("no problem") }
        return .problem(problem, retryAfter: nil)
    }
}

/// A log mark, as text.
private struct Seen {
    var lineage: String
    var position: Int64
    var digest: String?
    var replica: String?

    init(_ mark: LogMark) {
        lineage = mark.lineage.description
        position = mark.position.rawValue
        digest = mark.headerValue
        replica = mark.replica?.description
    }

    func mark() throws(TransportError) -> LogMark {
        guard let lineage = Lineage(lineage) else { throw FarRelay.refusal(.logRolledBack) }
        var mark = LogMark(lineage: lineage, position: Position(position))
        if let digest, let known = LogMark(lineage: lineage, headerValue: digest) { mark = known }
        mark.replica = replica.flatMap { ReplicaID($0) }
        return mark
    }
}

private struct BytesTransport: RelayTransport {
    let relay: FarRelay

    func describe() async throws(TransportError) -> SpaceDescription { try description(await relay.describe()) }

    func create() async throws(TransportError) -> SpaceDescription { try description(await relay.create()) }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        let sent = try await relay.push(batch, Seen(seen))
        do {
            var answer = try PushAnswer.decode(sent.bytes)
            answer.isSnapshotDue = sent.isSnapshotDue
            return answer
        } catch {
            throw .badAnswer(error)
        }
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        let sent = try await relay.pull(position.rawValue, Seen(seen), byteLimit, wait)
        do {
            var page = try Page.decode(sent.bytes)
            page.isSnapshotDue = sent.isSnapshotDue
            page.relayTime = sent.time
            return page
        } catch {
            throw .badAnswer(error)
        }
    }

    func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await relay.takeSnapshot(path, Seen(seen), digest.bytes)
    }

    func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        Position(try await relay.giveSnapshot(path))
    }

    private func description(_ sent: Data) throws(TransportError) -> SpaceDescription {
        guard let description = try? JSONDecoder().decode(SpaceDescription.self, from: sent) else { throw .notARelay("no description") }
        return description
    }
}
