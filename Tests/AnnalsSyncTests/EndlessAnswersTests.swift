import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Synchronization
import Testing

@testable import AnnalsSync

/// A relay gives valid answers, but an exchange with it never ends. A sync gives up after a limited time and a limited number of requests.
/// It reports the reason and keeps the local transactions. In these tests each row of a transaction is a separate part.
@Suite("A relay that never completes an exchange")
struct EndlessAnswersTests {
    private static let schema = "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')"

    /// Replica 0 has a transaction of `parts` parts to push. The relay has `entries` of replica 1 that replica 0 has not pulled.
    private func world(parts: Int = 1, entries: Int = 0) async throws -> SyncedStores {
        var limits = OutboxLimits()
        limits.partBytes = 1
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, outboxLimits: limits)
        for number in 0..<entries {
            try world.outside(1, "INSERT INTO note VALUES('theirs \(number)', 'x')")
            try await world.sync(1)
        }
        if parts > 0 { try world.outside(0, "INSERT INTO note VALUES " + (0..<parts).map { "('mine \($0)', 'x')" }.joined(separator: ",")) }
        return world
    }

    /// Syncs replica 0, which must give up in time. Then syncs it with the normal relay and checks that no row was lost.
    @discardableResult
    private func giveUp(
        _ world: SyncedStores, _ direction: SyncDirection = .both, over relay: EndlessRelay, _ code: AnnalsError.Code = .relayOverloaded,
        _ location: SourceLocation = #_sourceLocation
    ) async throws -> AnnalsError? {
        let start = world.clock.milliseconds
        let error = await #expect(throws: AnnalsError.self, sourceLocation: location) { try await world.sync(0, direction, over: relay) }
        let text = "\(String(describing: error)) after \(relay.requests) requests"
        #expect(error?.code == code && error?.isRetryable == true && error?.hint?.isEmpty == false, "\(text)", sourceLocation: location)
        #expect(world.clock.milliseconds - start <= Int64(SyncLimits.patience / .milliseconds(1)), "\(text)", sourceLocation: location)
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest(), sourceLocation: location)
        let own = try await world.rows(1, "SELECT count(*) FROM note WHERE id GLOB 'mine*'")
        #expect(own == (try await world.rows(0, "SELECT count(*) FROM note WHERE id GLOB 'mine*'")), sourceLocation: location)
        #expect(try await world.stores[0].status().outbox == 0, sourceLocation: location)
        return error
    }

    // MARK: Pushes

    @Test(arguments: [(1, 0), (1, 300_000), (4, 1_000)], [0, 2])
    func `always answers wait to a push`(_ push: (parts: Int, milliseconds: Int), from part: Int) async throws {
        guard part < push.parts else { return }
        let world = try await world(parts: push.parts)
        let relay = EndlessRelay(world.relay) { $0.part.number >= part ? .wait(milliseconds: push.milliseconds) : nil }
        let error = try await giveUp(world, over: relay)
        #expect(error?.message.contains("push lease") == true)
        #expect(relay.requests <= 3_000)
    }

    @Test(arguments: [(1, 0), (4, 0), (4, 2), (4, 3)])
    func `always answers that earlier parts are missing`(parts: Int, from part: Int) async throws {
        let world = try await world(parts: parts)
        let relay = EndlessRelay(world.relay) { $0.part.number >= part ? .partsMissing : nil }
        try await giveUp(world, over: relay)
        #expect(relay.requests <= 50)
    }

    @Test func `answers wait and missing parts alternately`() async throws {
        let world = try await world(parts: 4)
        let relay = EndlessRelay(world.relay)
        relay.outcome = { header in
            guard header.part.number == 2 else { return nil }
            return relay.requests.isMultiple(of: 2) ? .wait(milliseconds: 20) : .partsMissing
        }
        try await giveUp(world, over: relay)
        #expect(relay.requests <= 100)
    }

    @Test(arguments: [PushAnswer.Outcome.stale(at: nil), .identityConflict, .gap])
    func `refuses every push without a reason`(outcome: PushAnswer.Outcome) async throws {
        let world = try await world()
        let relay = EndlessRelay(world.relay) { _ in outcome }
        let error = try await giveUp(world, over: relay)
        #expect(relay.requests <= SyncLimits.fruitlessRounds + 2)
        #expect(error?.message.contains("1 local transaction") == true)
    }

    @Test func `accepts the last part without completing the transaction`() async throws {
        let world = try await world(parts: 3)
        let relay = EndlessRelay(world.relay) { $0.part.isLast ? .accepted : nil }
        try await giveUp(world, over: relay)
        #expect(relay.requests <= 50)
    }

    @Test func `always answers wait to the first entry of a new space`() async throws {
        let world = try await world(parts: 0)
        let other = try LocalRelay(folder: world.folder.file("other"), space: world.space)
        let relay = EndlessRelay(other) { _ in .wait(milliseconds: 1_000) }
        let path = world.folder.file("maker.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: Self.schema) }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("maker"))
        _ = try await store.track(.all)
        let error = await #expect(throws: AnnalsError.self) { try await world.joining("maker", over: relay).join(store) }
        #expect(error?.code == .relayOverloaded && relay.requests <= 3_000, "\(String(describing: error))")
        relay.outcome = { _ in nil }
        _ = try await world.joining("maker", over: relay).join(store)
        #expect(try await other.describe().head == Position.first)
    }

    // MARK: Pages

    @Test(arguments: [SyncDirection.both, .pullOnly], [false, true])
    func `reports more entries and sends none`(direction: SyncDirection, isHeadGrowing: Bool) async throws {
        let world = try await world(parts: direction == .both ? 1 : 0, entries: 3)
        let relay = EndlessRelay(world.relay)
        relay.page = { page, number in
            page.head = page.head.advanced(by: isHeadGrowing ? number : 1)
            page.isLast = false
        }
        let error = try await giveUp(world, direction, over: relay, .notARelay)
        #expect(relay.requests <= SyncLimits.fruitlessRounds + 2)
        #expect(error?.message.contains("sends none after position") == true)
    }

    @Test func `sends empty pages of a log that has entries`() async throws {
        let world = try await world(parts: 0, entries: 3)
        let relay = EndlessRelay(world.relay)
        relay.page = { page, _ in (page.frames, page.isLast) = ([], false) }
        let error = try await giveUp(world, over: relay, .notARelay)
        #expect(relay.requests <= SyncLimits.fruitlessRounds + 2)
        #expect(error?.message.contains("position 4, but the relay sends none after position 1") == true, "\(error?.message ?? "")")
    }

    @Test func `sends a log without end while the replica searches it for a push`() async throws {
        let world = try await world()
        let relay = EndlessRelay(world.relay)
        relay.failure = { isPush, number in
            guard isPush else { return nil }
            return number == 1 ? .unreachable("lost", wasSent: true) : .problem(Problem(.notPermitted), retryAfter: nil)
        }
        let batch = try #require(await world.relay.pull(after: .zero, seen: seen(world), byteLimit: 1, wait: nil).frames.first).batch
        relay.page = { page, _ in
            page.frames = [LogFrame(firstPosition: page.after.next, acceptedCount: 1, receivedAt: 0, batch: batch)]
            page.head = Position(WireLimits.maximumPosition)
            page.isLast = false
        }
        try await giveUp(world, over: relay, .notARelay)
    }

    private func seen(_ world: SyncedStores) async throws -> LogMark {
        LogMark(lineage: try #require(await world.stores[0].replicaState()).lineage)
    }

    // MARK: Time

    @Test(arguments: [Problem.Code.tooManyRequests, .unavailable])
    func `asks for a retry in five minutes every time`(code: Problem.Code) async throws {
        let world = try await world()
        let relay = EndlessRelay(world.relay)
        relay.failure = { _, _ in .problem(Problem(code), retryAfter: .seconds(300)) }
        let error = try await giveUp(world, over: relay)
        #expect(error?.retryAfter == .seconds(300) && relay.requests == 1)
        #expect(error?.message.contains("300 seconds") == true)
    }

    @Test func `asks for a retry and then sends an empty page`() async throws {
        let world = try await world(parts: 0, entries: 3)
        let relay = EndlessRelay(world.relay)
        let later = TransportError.problem(Problem(.unavailable, hint: "Try again"), retryAfter: .seconds(50))
        relay.failure = { _, number in number.isMultiple(of: 2) ? nil : later }
        relay.page = { page, _ in (page.frames, page.isLast) = ([], false) }
        try await giveUp(world, over: relay)
        #expect(relay.requests <= 10)
    }

    @Test func `answers every request slowly`() async throws {
        let world = try await world()
        let relay = EndlessRelay(world.relay) { _ in .wait(milliseconds: 0) }
        // Requests do not pause. The test advances the clock for the time that a request takes.
        let requests = Mutex(0)
        relay.failure = { _, number in
            requests.withLock { $0 = number }
            world.clock.advance(.seconds(20))
            return nil
        }
        _ = await #expect(throws: AnnalsError.self) { try await world.sync(0, over: relay) }
        #expect(requests.withLock { $0 } <= 30)
    }

    @Test(arguments: [(5, 0), (0, 5)])
    func `may be slow as long as each exchange makes progress`(parts: Int, entries: Int) async throws {
        let world = try await world(parts: parts, entries: entries)
        let start = world.clock.milliseconds
        let relay = EndlessRelay(world.relay)
        relay.pageBytes = 1
        let hasWaited = Mutex(false)
        relay.failure = { _, _ in
            hasWaited.withLock { $0.toggle() }
            return hasWaited.withLock { $0 } ? .problem(Problem(.unavailable), retryAfter: .seconds(100)) : nil
        }
        let summary = try await world.sync(0, over: relay)
        #expect(summary.pulled.transactions == entries && summary.pushed.transactions == min(parts, 1) && summary.outbox == 0)
        #expect(world.clock.milliseconds - start >= 500_000)
    }
}

/// Forwards requests and answers some of them itself. It fails after a limited number of requests, so that each test ends.
private final class EndlessRelay: ForwardingTransport {
    typealias Outcome = @Sendable (BatchHeader) -> PushAnswer.Outcome?

    private struct State {
        var requests = 0
        var outcome: Outcome
        var page: @Sendable (inout Page, Int) -> Void = { _, _ in }
        var failure: @Sendable (_ isPush: Bool, _ number: Int) -> TransportError? = { _, _ in nil }
        var pageBytes = Int.max
    }

    private static let most = 6_000
    let base: any RelayTransport
    private let state: Mutex<State>

    init(_ base: any RelayTransport, _ outcome: @escaping Outcome = { _ in nil }) {
        self.base = base
        state = Mutex(State(outcome: outcome))
    }

    var requests: Int { state.withLock { $0.requests } }
    /// The answer to a push; nil for the normal answer of the relay.
    var outcome: Outcome {
        get { state.withLock { $0.outcome } }
        set { state.withLock { $0.outcome = newValue } }
    }
    /// Changes a page before the replica gets it. The number is that of the request.
    var page: @Sendable (inout Page, Int) -> Void {
        get { state.withLock { $0.page } }
        set { state.withLock { $0.page = newValue } }
    }
    /// The error that a request fails with, if any. Numbers of requests begin with 1.
    var failure: @Sendable (_ isPush: Bool, _ number: Int) -> TransportError? {
        get { state.withLock { $0.failure } }
        set { state.withLock { $0.failure = newValue } }
    }
    var pageBytes: Int {
        get { state.withLock { $0.pageBytes } }
        set { state.withLock { $0.pageBytes = newValue } }
    }

    private func count(isPush: Bool) throws(TransportError) -> Int {
        let number = state.withLock { state in
            state.requests += 1
            return state.requests
        }
        guard number <= Self.most else { throw .localFile("the relay was asked without end", isDiskFull: false) }
        if let failure = failure(isPush, number) { throw failure }
        return number
    }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        _ = try count(isPush: true)
        let header: BatchHeader
        do { header = try BatchHeader.parse(batch) } catch { throw .badAnswer(error) }
        guard let outcome = outcome(header) else { return try await base.push(batch, seen: seen) }
        return PushAnswer(outcome: outcome, to: header.pushName, lineage: seen.lineage, head: seen.position, receivedAt: 0)
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        let number = try count(isPush: false)
        // The changed pages contain positions that are after the end of the real log.
        let isBeyond = try await base.describe().head < position
        let mark = isBeyond ? LogMark(lineage: seen.lineage) : seen
        var page = try await base.pull(
            after: isBeyond ? .zero : position, seen: mark, byteLimit: min(byteLimit, pageBytes), wait: wait)
        page.after = position
        self.page(&page, number)
        return page
    }
}
