import Annals
import AnnalsTesting
import Foundation
import Synchronization
import Testing

@Suite("What a transport must do", .timeLimit(.minutes(20)))
struct TransportConformanceTests {
    @Test("the relay in memory does")
    func memory() async throws {
        let relays = Mutex<[SpaceName: MemoryRelay]>([:])
        let clock = ManualClock(milliseconds: 1_700_000_000_000)
        let failures = try await TransportConformance.failures { space in
            try relays.withLock { relays in
                let relay = try relays[space] ?? MemoryRelay(space: space, clock: clock)
                relays[space] = relay
                return relay
            }
        }
        #expect(failures == [])
    }

    @Test("one that forgets what it was pushed, does not wait and mistakes its head is told so")
    func broken() async throws {
        let clock = ManualClock(milliseconds: 1_700_000_000_000)
        let relay = Mutex<MemoryRelay?>(nil)
        let failures = try await TransportConformance.failures { space in
            try relay.withLock { relay in
                let one = try relay ?? MemoryRelay(space: space, clock: clock)
                relay = one
                return CarelessTransport(base: one)
            }
        }
        #expect(failures.contains { $0.contains("a repeated push must be answered with its positions") }, "\(failures)")
        #expect(failures.contains { $0.contains("a waiting pull must return") }, "\(failures)")
        #expect(failures.contains { $0.contains("a push of damaged bytes must be refused") }, "\(failures)")
    }
}

/// Forwards requests, with errors.
private final class CarelessTransport: ForwardingTransport {
    let base: any RelayTransport
    private let last = Mutex<PushName?>(nil)

    init(base: any RelayTransport) {
        self.base = base
    }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        do {
            let before = try await base.describe().head
            var answer = try await base.push(batch, seen: seen)
            last.withLock { [name = answer.push] in $0 = name }
            if answer.head == before { answer.positions = [] }
            return answer
        } catch {
            guard case .problem(let problem, _) = error, problem.knownCode == .corruptBatch else { throw error }
            guard let name = last.withLock({ $0 }) else { throw error }
            return PushAnswer(outcome: .accepted, to: name, lineage: seen.lineage, head: seen.position, receivedAt: 0)
        }
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        try await base.pull(after: position, seen: seen, byteLimit: byteLimit, wait: nil)
    }
}
