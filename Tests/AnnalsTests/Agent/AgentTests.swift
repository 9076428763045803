import Annals
import AnnalsTesting
import Synchronization
import Testing

@testable import AnnalsSync

@Suite("An agent in an app", .timeLimit(.minutes(20)))
struct AgentTests {
    @Test("stays in touch by itself: what is written here is sent and what is written there comes, and it ends when it is cancelled")
    func run() async throws {
        let running = try await RunningAgent()
        try await running.caughtUp()
        try await AgentSupport.add("here", to: running.space[0].store)
        let sent = try await running.next { $0.stage == .export && $0.hasEnded }
        #expect(sent.transactions == 1 && sent.succeeded)
        try await AgentSupport.add("there", to: running.space[1].store)
        try await running.space[1].agent.sync()
        try await running.next { $0.stage == .import && $0.hasEnded && $0.transactions == 1 }
        #expect(try await AgentSupport.ids(running.space[0].store) == ["here", "there"])
        #expect(try await AgentSupport.ids(running.space[1].store) == ["here", "there"])
        try await running.end()
    }

    @Test("that is paused asks and sends nothing, and catches up when it is resumed")
    func pause() async throws {
        let running = try await RunningAgent()
        try await running.caughtUp()
        running.agent.pause()
        #expect(running.agent.isPaused)
        try await AgentSupport.add("first", to: running.space[0].store)
        for round in 0..<20 {
            try await AgentSupport.add("there \(round)", to: running.space[1].store)
            try await running.space[1].agent.sync()
        }
        #expect(try await AgentSupport.ids(running.space[0].store) == ["first"])
        try await AgentSupport.add("second", to: running.space[0].store)
        running.agent.resume()
        let sent = try await running.next { $0.stage == .export && $0.hasEnded }
        #expect(sent.transactions == 2, "neither was sent while it kept still")
        try await running.space[1].agent.sync()
        #expect(try await running.space.areEqual())
        try await running.end()
    }

    @Test("can be told to sync while it is paused")
    func syncWhilePaused() async throws {
        let space = try await TestSpace(AgentSupport.makeNotes)
        space[0].agent.pause()
        try await AgentSupport.add("here", to: space[0].store)
        #expect(try await space[0].agent.sync().pushed.transactions == 1)
    }

    @Test("that waits for a relay which is away tries at once when it is paused and resumed")
    func resumeAtOnce() async throws {
        let pauses = Mutex(0)
        // One request is tried several times before the agent counts as unreachable. The pause after that never ends here.
        let running = try await RunningAgent(cut: true) { _ in
            let count = pauses.withLock { pauses in
                pauses += 1
                return pauses
            }
            if count >= SyncLimits.triesPerRequest { try await AgentSupport.forever() }
        }
        let failed = try await running.next { $0.retryAfter != nil }
        #expect(failed.error?.code == .relayUnreachable && failed.error?.isRetryable == true)
        running.line.mend()
        running.agent.pause()
        running.agent.resume()
        try await running.caughtUp()
        try await running.end()
    }

    @Test("is stopped while it is paused, and while it waits for a relay that is away")
    func stopped() async throws {
        let paused = try await RunningAgent()
        paused.agent.pause()
        try await paused.end()
        let away = try await RunningAgent(cut: true) { _ in try await AgentSupport.forever() }
        try await away.end()
    }

    @Test("keeps to the pause that the relay asks for")
    func retryAfter() async throws {
        let pauses = Mutex<[Duration]>([])
        let refusals = [NetworkFault](repeating: .refused(retryAfter: .seconds(100)), count: SyncLimits.triesPerRequest)
        let running = try await RunningAgent(FaultyNetwork(script: refusals)) { duration in
            try Task.checkCancellation()
            pauses.withLock { $0.append(duration) }
            await Task.yield()
        }
        let failed = try await running.next { $0.retryAfter != nil }
        #expect(failed.retryAfter == .seconds(100))
        #expect(failed.error?.code == .relayOverloaded && failed.error?.retryAfter == .seconds(100))
        try await running.caughtUp()
        try await running.end()
        #expect(pauses.withLock { $0.count { $0 == .seconds(100) } } == SyncLimits.triesPerRequest)
    }

    @Test("an error says whether the same may work later, and when")
    func errors() async throws {
        let refusals = [NetworkFault](repeating: .refused(retryAfter: .seconds(7)), count: SyncLimits.triesPerRequest)
        let space = try await TestSpace(network: FaultyNetwork(script: refusals), AgentSupport.makeNotes)
        let error = await #expect(throws: AnnalsError.self) { try await space[0].agent.sync() }
        #expect(error?.isRetryable == true && error?.retryAfter == .seconds(7))
        #expect(try await space[0].agent.sync().position == Position(1))
    }
}
