import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Synchronization
import Testing

@testable import RelayLog

/// A push that is in the log already is answered before a full space or a full disk could refuse it (law 7).
@Suite struct RefusalTests {
    let directory: TemporaryDirectory
    let clock = TestClock()

    init() throws { directory = try TemporaryDirectory() }

    private final class Free: Sendable {
        private let bytes = Mutex<Int64>(1 << 40)
        var value: Int64 {
            get { bytes.withLock { $0 } }
            set { bytes.withLock { $0 = newValue } }
        }
    }

    private func isRefused(_ log: RelayLog, _ batch: TestBatch) async -> Bool {
        do {
            _ = try await log.push(batch)
            return false
        } catch {
            return true
        }
    }

    @Test func `law 7: what a full space has already is answered as before`() async throws {
        var limits = RelayLogLimits()
        limits.spaceBytes = 1000
        let log = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        let first = replica.batch(lineage, base: .zero, .writing(1), payload: [UInt8](repeating: 1, count: 500))
        #expect(try await log.push(first).positions == [Position(1)])
        replica.accept(first)
        let second = replica.batch(lineage, base: Position(1), .writing(1), payload: [UInt8](repeating: 1, count: 1000))
        #expect(await isRefused(log, second))
        #expect(try await log.push(first).positions == [Position(1)])
        await log.close()
        // Also by a relay that was just started.
        let again = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        #expect(try await again.push(first).positions == [Position(1)])
        #expect(await isRefused(again, second))
        await again.close()
    }

    @Test func `law 7: what a relay has whose disk is full is answered as before`() async throws {
        let free = Free()
        let log = try RelayLog(
            database: TestStorage.database(directory.path), clock: clock.clock, logger: .silent, freeBytes: { free.value })
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        let first = replica.batch(lineage, base: .zero, .writing(1))
        #expect(try await log.push(first).positions == [Position(1)])
        replica.accept(first)
        let parts = replica.parts(lineage, base: Position(1), .writing(2), count: 2)
        #expect(try await log.push(parts[0]).outcome == .accepted)
        free.value = 0
        clock.advance(milliseconds: 10_000)
        #expect(try await log.push(parts[0]).outcome == .accepted)
        #expect(try await log.push(first).positions == [Position(1)])
        await #expect(throws: RelayLogError.self) { _ = try await log.push(parts[1]) }
        await #expect(throws: RelayLogError.self) { _ = try await log.push(replica.batch(lineage, base: Position(1), .writing(3))) }
        do {
            _ = try await log.createSpace(.shop)
            Issue.record("it is made twice")
        } catch RelayLogError.spaceExists {
        } catch { Issue.record("\(error)") }
        do {
            _ = try await log.createSpace(.other)
            Issue.record("it is made")
        } catch RelayLogError.diskReserved {
        } catch { Issue.record("\(error)") }
        await log.close()
    }
}
