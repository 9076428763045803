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
        _ world: SyncedStores, _ direction: SyncDirection = .both, over relay: AlteredRelay, _ code: AnnalsError.Code = .relayOverloaded,
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
        let relay = endless(world.relay) { $0.part.number >= part ? .wait(milliseconds: push.milliseconds) : nil }
        let error = try await giveUp(world, over: relay)
        #expect(error?.message.contains("push lease") == true)
        #expect(relay.requests <= 3_000)
    }

    @Test(arguments: [(1, 0), (4, 0), (4, 2), (4, 3)])
    func `always answers that earlier parts are missing`(parts: Int, from part: Int) async throws {
        let world = try await world(parts: parts)
        let relay = endless(world.relay) { $0.part.number >= part ? .partsMissing : nil }
        try await giveUp(world, over: relay)
        #expect(relay.requests <= 50)
    }

    @Test func `answers wait and missing parts alternately`() async throws {
        let world = try await world(parts: 4)
        let isMissing = Mutex(false)
        let relay = endless(world.relay) { header in
            guard header.part.number == 2 else { return nil }
            isMissing.withLock { $0.toggle() }
            return isMissing.withLock { $0 } ? .partsMissing : .wait(milliseconds: 20)
        }
        try await giveUp(world, over: relay)
        #expect(relay.requests <= 100)
    }

    @Test(arguments: [PushAnswer.Outcome.stale(at: nil), .identityConflict, .gap])
    func `refuses every push without a reason`(outcome: PushAnswer.Outcome) async throws {
        let world = try await world()
        let relay = endless(world.relay) { _ in outcome }
        let error = try await giveUp(world, over: relay)
        #expect(relay.requests <= SyncLimits.fruitlessRounds + 2)
        #expect(error?.message.contains("1 local transaction") == true)
    }

    @Test func `accepts the last part without completing the transaction`() async throws {
        let world = try await world(parts: 3)
        let relay = endless(world.relay) { $0.part.isLast ? .accepted : nil }
        try await giveUp(world, over: relay)
        #expect(relay.requests <= 50)
    }

    @Test func `always answers wait to the first entry of a new space`() async throws {
        let world = try await world(parts: 0)
        let other = try LocalRelay(folder: world.folder.file("other"), space: world.space)
        let relay = endless(other) { _ in .wait(milliseconds: 1_000) }
        let path = world.folder.file("maker.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: Self.schema) }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("maker"))
        _ = try await store.track(.all)
        let error = await #expect(throws: AnnalsError.self) { try await world.joining("maker", over: relay).join(store) }
        #expect(error?.code == .relayOverloaded && relay.requests <= 3_000, "\(String(describing: error))")
        _ = try await world.joining("maker", over: other).join(store)
        #expect(try await other.describe().head == Position.first)
    }

    // MARK: Pages

    @Test(arguments: [SyncDirection.both, .pullOnly], [false, true])
    func `reports more entries and sends none`(direction: SyncDirection, isHeadGrowing: Bool) async throws {
        let world = try await world(parts: direction == .both ? 1 : 0, entries: 3)
        let relay = endless(
            world.relay,
            page: { page, request in
                page.head = page.head.advanced(by: isHeadGrowing ? request.number : 1)
                page.isLast = false
            })
        let error = try await giveUp(world, direction, over: relay, .notARelay)
        #expect(relay.requests <= SyncLimits.fruitlessRounds + 2)
        #expect(error?.message.contains("sends none after position") == true)
    }

    @Test func `sends empty pages of a log that has entries`() async throws {
        let world = try await world(parts: 0, entries: 3)
        let relay = endless(world.relay, page: { page, _ in (page.frames, page.isLast) = ([], false) })
        let error = try await giveUp(world, over: relay, .notARelay)
        #expect(relay.requests <= SyncLimits.fruitlessRounds + 2)
        #expect(error?.message.contains("position 4, but the relay sends none after position 1") == true, "\(error?.message ?? "")")
    }

    @Test func `sends a log without end while the replica searches it for a push`() async throws {
        let world = try await world()
        let batch = try #require(await world.relay.pull(after: .zero, seen: seen(world), byteLimit: 1, wait: nil).frames.first).batch
        let relay = endless(
            world.relay,
            failure: { request in
                guard request.kind == .push else { return nil }
                return request.number == 1 ? .unreachable("lost", wasSent: true) : .problem(Problem(.notPermitted), retryAfter: nil)
            },
            page: { page, _ in
                page.frames = [LogFrame(firstPosition: page.after.next, acceptedCount: 1, receivedAt: 0, batch: batch)]
                page.head = Position(WireLimits.maximumPosition)
                page.isLast = false
            })
        try await giveUp(world, over: relay, .notARelay)
    }

    private func seen(_ world: SyncedStores) async throws -> LogMark {
        LogMark(lineage: try #require(await world.stores[0].replicaState()).lineage)
    }

    // MARK: Time

    @Test(arguments: [Problem.Code.tooManyRequests, .unavailable])
    func `asks for a retry in five minutes every time`(code: Problem.Code) async throws {
        let world = try await world()
        let relay = endless(world.relay, failure: { _ in .problem(Problem(code), retryAfter: .seconds(300)) })
        let error = try await giveUp(world, over: relay)
        #expect(error?.retryAfter == .seconds(300) && relay.requests == 1)
        #expect(error?.message.contains("300 seconds") == true)
    }

    @Test func `asks for a retry and then sends an empty page`() async throws {
        let world = try await world(parts: 0, entries: 3)
        let later = TransportError.problem(Problem(.unavailable, hint: "Try again"), retryAfter: .seconds(50))
        let relay = endless(
            world.relay, failure: { $0.number.isMultiple(of: 2) ? nil : later },
            page: { page, _ in (page.frames, page.isLast) = ([], false) })
        try await giveUp(world, over: relay)
        #expect(relay.requests <= 10)
    }

    @Test func `answers every request slowly`() async throws {
        let world = try await world()
        // Requests do not pause. The test advances the clock for the time that a request takes.
        let relay = endless(
            world.relay, outcome: { _ in .wait(milliseconds: 0) },
            failure: { _ in
                world.clock.advance(.seconds(20))
                return nil
            })
        _ = await #expect(throws: AnnalsError.self) { try await world.sync(0, over: relay) }
        #expect(relay.requests <= 30)
    }

    @Test(arguments: [(5, 0), (0, 5)])
    func `may be slow as long as each exchange makes progress`(parts: Int, entries: Int) async throws {
        let world = try await world(parts: parts, entries: entries)
        let start = world.clock.milliseconds
        let hasWaited = Mutex(false)
        let relay = endless(
            world.relay,
            failure: { _ in
                hasWaited.withLock { $0.toggle() }
                return hasWaited.withLock { $0 } ? .problem(Problem(.unavailable), retryAfter: .seconds(100)) : nil
            }, pageBytes: 1)
        let summary = try await world.sync(0, over: relay)
        #expect(summary.pulled.transactions == entries && summary.pushed.transactions == min(parts, 1) && summary.outbox == 0)
        #expect(world.clock.milliseconds - start >= 500_000)
    }
}

/// A relay that answers some requests itself. It fails after a limited number of requests, so that each test ends.
///
/// - Parameter outcome: the outcome of a push; nil if the relay answers it.
private func endless(
    _ base: any RelayTransport, outcome: @escaping @Sendable (BatchHeader) -> PushAnswer.Outcome? = { _ in nil },
    failure: @escaping @Sendable (AlteredRelay.Request) -> TransportError? = { _ in nil },
    page: @escaping @Sendable (inout Page, AlteredRelay.Request) -> Void = { _, _ in }, pageBytes: Int = .max
) -> AlteredRelay {
    AlteredRelay(
        base: base, pageBytes: pageBytes,
        before: { request in
            guard request.number <= 6_000 else { throw TransportError.localFile("the relay was asked without end", isDiskFull: false) }
            if let error = failure(request) { throw error }
        },
        answer: { batch, seen in
            let header = try BatchHeader.parse(batch)
            guard let told = outcome(header) else { return nil }
            return PushAnswer(outcome: told, to: header.pushName, lineage: seen.lineage, head: seen.position, receivedAt: 0)
        },
        ask: { position, seen in
            // The changed pages contain positions that are after the end of the real log.
            guard try await base.describe().head < position else { return }
            (position, seen) = (.zero, LogMark(lineage: seen.lineage))
        },
        page: page)
}
