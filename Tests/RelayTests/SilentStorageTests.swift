import AnnalsCore
import AnnalsWire
import HTTPTypes
import RelayTestSupport
import Synchronization
import Testing

@testable import Relay
@testable import RelayLog

/// A database that does not answer does not block the monitoring of the relay.
@Suite struct SilentStorageTests {
    @Test func `while the database does not answer the relay says so in time, and is ready when it does`() async throws {
        let directory = try TemporaryDirectory()
        let inner = try TestStorage.database(directory.path)
        let storage = SilentStorage(inner.storage)
        let clock = RelayClock(
            wall: RelayClock.system.wall, monotonic: RelayClock.system.monotonic,
            // Time passes at once while the storage does not answer.
            sleep: { duration in if !storage.isSilent { try await ContinuousClock().sleep(for: duration) } })
        let log = try RelayLog(database: RelayDatabase(shared: storage, snapshots: inner.snapshots), clock: clock, logger: .silent)
        let configuration = RelayConfiguration(storage: .directory(directory.path), noAuthorization: true)
        let client = RelayClient(responder: Routes.responder(log: log, configuration: configuration))
        _ = try await client.create()
        let (admin, _) = try await log.tokens.create(scope: .admin)
        #expect(try await client.send(.get, Endpoints.ready).status == .ok)

        storage.silence()
        for _ in 0..<3 { try await client.send(.get, Endpoints.ready).expectProblem(503, "unavailable") }
        let metrics = String(decoding: try await client.send(.get, Endpoints.metrics).bytes, as: UTF8.self)
        #expect(metrics.contains("annals_relay_ready 0") && !metrics.contains("annals_relay_spaces "))
        let closed = RelayClient(
            responder: Routes.responder(log: log, configuration: RelayConfiguration(storage: .directory(directory.path))))
        try await closed.with(token: admin).send(.get, Endpoints.metrics).expectProblem(503, "unavailable")
        // An overdue read is not started again and again.
        #expect(storage.waiting <= 2)

        storage.speak()
        while try await client.send(.get, Endpoints.ready).status != .ok { await Task.yield() }
        let later = String(decoding: try await client.send(.get, Endpoints.metrics).bytes, as: UTF8.self)
        #expect(later.contains("annals_relay_ready 1") && later.contains("annals_relay_spaces 1"))
        await log.close()
    }
}

/// A storage with reads that wait while it is silent.
private final class SilentStorage: LogDatabase {
    private struct State {
        var isSilent = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let inner: any LogDatabase
    private let state = Mutex(State())

    init(_ inner: any LogDatabase) { self.inner = inner }

    var isSilent: Bool { state.withLock { $0.isSilent } }
    var waiting: Int { state.withLock { $0.waiting.count } }

    func silence() { state.withLock { $0.isSilent = true } }

    func speak() {
        let waiting = state.withLock { state in
            defer { state = State() }
            return state.waiting
        }
        for one in waiting { one.resume() }
    }

    private func wait() async {
        await withCheckedContinuation { continuation in
            let goesOn = state.withLock { state in
                if state.isSilent { state.waiting.append(continuation) }
                return !state.isSilent
            }
            if goesOn { continuation.resume() }
        }
    }

    func read<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        await wait()
        return try await inner.read(body)
    }

    func readNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T { try inner.readNow(body) }

    func write<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        try await inner.write(body)
    }

    func writeNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T { try inner.writeNow(body) }

    func schedule(_ body: @escaping @Sendable (any LogConnection) -> Void) { inner.schedule(body) }

    func listen(_ visit: @escaping @Sendable (SpaceName, Position) -> Void) { inner.listen(visit) }

    func byteCount() async throws -> Int64 { try await inner.byteCount() }

    func close() throws { try inner.close() }
}
