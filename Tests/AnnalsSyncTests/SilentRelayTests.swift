import AnnalsCore
import AnnalsHTTP
import Synchronization
import Testing

@testable import AnnalsSync

/// A relay that accepts the connection and never answers, like a stopped process. The cost is the time limit of a request. So the tests
/// check the number of requests and this limit.
@Suite("A relay that does not answer")
struct SilentRelayTests {
    private static let silence = TransportError.unanswered("the connection to 127.0.0.1 stalled")

    @Test func `is asked once more, on another connection, and no more`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        try await world.sync(0)
        let relay = AlteredRelay.failing(world.relay, error: Self.silence)
        let agent = SyncAgent(store: world.stores[0], transport: relay, environment: world.environment)
        let error = await #expect(throws: AnnalsError.self) { try await agent.sync() }
        #expect(relay.requests == SyncLimits.triesWithoutAnswer)
        #expect(error?.code == .relayUnreachable && error?.isRetryable == true)
        #expect(error?.message == "the relay does not answer: the connection to 127.0.0.1 stalled")
        #expect(SyncLimits.silence * SyncLimits.triesWithoutAnswer <= .seconds(60))
    }

    @Test func `keeps nobody from the answer that the next request gets`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        try await world.sync(0)
        let asked = Mutex(0)
        let answer = try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).request {
            () async throws -> Int in
            let number = asked.withLock { asked in
                asked += 1
                return asked
            }
            if number == 1 { throw Self.silence }
            return number
        }
        #expect(answer == 2)
    }

    @Test(arguments: [HTTPError.Kind.timeout, .stalled]) func `is told from one that is not there`(kind: HTTPError.Kind) {
        guard case .unanswered = HTTPRelay.translate(HTTPError(kind, "late")) else {
            Issue.record("\(kind) is a connection that stood")
            return
        }
    }
}
