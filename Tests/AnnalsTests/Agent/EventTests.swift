import Annals
import AnnalsTesting
import Testing

@testable import AnnalsSync

@Suite("What an agent tells", .timeLimit(.minutes(20)))
struct EventTests {
    /// The events during the work of `body`.
    private func events(of replica: TestSpace.Replica, _ body: () async throws -> Void) async throws -> [SyncEvent] {
        let stream = replica.agent.events
        try await body()
        // A failed exchange marks the end.
        replica.line.cut()
        await #expect(throws: AnnalsError.self) { try await replica.agent.sync() }
        var events: [SyncEvent] = []
        for await event in stream {
            events.append(event)
            if event.error != nil { return events.filter { $0.id != event.id } }
        }
        return events
    }

    @Test("an exchange sets up, takes in and sends, with counts, what remains, and that it has caught up")
    func stages() async throws {
        let space = try await TestSpace(AgentSupport.makeNotes)
        // Each entry is larger than half a page of the log, so that there are several pages.
        for number in 0..<3 {
            try await space[1].store.write { db in
                try db.execute(sql: "INSERT INTO note VALUES (?, hex(randomblob(900000)))", arguments: ["big \(number)"])
            }
        }
        try await space[1].agent.sync()
        for number in 0..<5 { try await AgentSupport.add("here \(number)", to: space[0].store) }
        let events = try await events(of: space[0]) { try await space[0].agent.sync() }

        let setup = try #require(events.first)
        #expect(setup.stage == .setup && !setup.hasEnded)
        #expect(events.contains { $0.id == setup.id && $0.succeeded })

        let exports = events.filter { $0.stage == .export }
        #expect(Set(exports.map(\.id)).count == 1, "one operation")
        let sent = try #require(exports.last)
        #expect(sent.succeeded && sent.transactions == 5 && sent.changes == 5 && sent.bytes > 0 && sent.remaining == 0)

        let imports = events.filter { $0.stage == .import }
        let remaining = imports.compactMap(\.remaining)
        #expect(remaining == remaining.sorted(by: >), "\(remaining)")
        #expect((remaining.first ?? 0) > 0 && remaining.last == 0, "\(remaining)")
        let taken = try #require(imports.last { $0.hasEnded })
        #expect(taken.succeeded && taken.isCaughtUp && taken.transactions == 3 && taken.bytes > 2_000_000)
        #expect(taken.startDate <= taken.date && taken.endDate == taken.date)
    }

    @Test("an exchange that moves nothing still says that it has caught up")
    func quiet() async throws {
        let space = try await TestSpace(AgentSupport.makeNotes)
        let events = try await events(of: space[0]) { try await space[0].agent.sync() }
        #expect(events.filter { $0.stage == .export }.isEmpty)
        #expect(events.filter(\.isCaughtUp).count == 1)
        #expect(events.filter { $0.stage == .setup }.count == 2, "only the first exchange sets up: its begin and its end")
    }

    @Test("an operation that fails ends with the error")
    func failure() async throws {
        let space = try await TestSpace(AgentSupport.makeNotes)
        try await AgentSupport.add("here", to: space[0].store)
        let stream = space[0].agent.events
        space[0].line.cut()
        await #expect(throws: AnnalsError.self) { try await space[0].agent.sync() }
        for await event in stream where event.stage == .export && event.hasEnded {
            #expect(!event.succeeded && event.error?.code == .relayUnreachable && event.error?.isRetryable == true)
            #expect(event.remaining != 0)
            break
        }
    }

    @Test("all who listen are told the same")
    func several() async throws {
        let space = try await TestSpace(AgentSupport.makeNotes)
        let agent = space[0].agent
        let listeners = (0..<3).map { _ in
            let stream = agent.events
            return Task {
                var ids: [Int] = []
                for await event in stream {
                    ids.append(event.id)
                    if event.isCaughtUp { break }
                }
                return ids
            }
        }
        try await agent.sync()
        var told: Set<[Int]> = []
        for listener in listeners { told.insert(await listener.value) }
        #expect(told.count == 1 && told.first?.isEmpty == false, "\(told)")
    }

    @Test("who listens slowly keeps nobody waiting, and is told the newest")
    func slow() async throws {
        let space = try await TestSpace(AgentSupport.makeNotes)
        let stream = space[0].agent.events
        for number in 0..<SyncLimits.waitingEvents {
            try await AgentSupport.add("\(number)", to: space[0].store)
            try await space[0].agent.sync()
        }
        // The stream buffers a limited number of events, and the end of the agent's last exchange is among them.
        var waited: [SyncEvent] = []
        for await event in stream {
            waited.append(event)
            if waited.count == SyncLimits.waitingEvents { break }
        }
        let exports = waited.filter { $0.stage == .export && $0.hasEnded }
        #expect(exports.count > 5)
        let last = try #require(waited.last)
        #expect(last.hasEnded && last.id > 2 * SyncLimits.waitingEvents - 5, "\(last.id)")
    }
}
