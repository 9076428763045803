import AnnalsCore
import AnnalsWire
import RelayLog
import RelayTestSupport
import Synchronization
import Testing

@testable import Relay

/// The purges that a serving relay does by itself.
@Suite struct PurgingTests {
    @Test func `every space is purged from time to time, and one that fails does not keep the others from it`() async throws {
        let directory = try TemporaryDirectory()
        let clock = TestClock()
        let log = try RelayLog(directory: directory.path, clock: clock.clock, logger: .silent)
        for space in [SpaceName.shop, .other] {
            let lineage = try await log.createSpace(space).lineage
            var replica = TestReplica(1)
            _ = try await log.push(replica.batch(lineage, base: .zero, .writing(1)), to: space)
            let upload = try await log.snapshots.begin(space, position: Position(1))
            try await upload.complete()
            log.note(replica.id, named: nil, at: Position(1), in: space)
        }
        var rules = PurgeRules()
        rules.keep = 1_000
        let pauses = Mutex<[Int]>([])
        let purging = Purging(log: log, rules: rules, seconds: 600, logger: .silent) { seconds in
            let count = pauses.withLock { pauses in
                pauses.append(seconds)
                return pauses.count
            }
            // In the first round everything is too new.
            if count == 2 {
                for space in [SpaceName.shop, .other] { #expect(try await log.describe(space).horizon == .zero) }
                clock.advance(milliseconds: 2_000)
            }
            if count == 3 { throw CancellationError() }
        }
        await #expect(throws: CancellationError.self) { try await purging.run() }
        #expect(pauses.withLock { $0 } == [60, 600, 600])
        for space in [SpaceName.shop, .other] { #expect(try await log.describe(space).horizon == Position(1)) }
        await log.close()
    }
}
