import Annals
import AnnalsTesting
import Foundation
import Testing

@Suite("The test kit", .timeLimit(.minutes(20)))
struct TestSpaceTests {
    // The example of `TestSpace`.
    @Test("a note that is renamed on the phone and ticked off on the laptop is both")
    func bothEdits() async throws {
        let space = try await TestSpace { db in
            try db.execute(sql: "CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, title TEXT, done INTEGER)")
            try db.execute(sql: "INSERT INTO note VALUES ('n1', 'Milk', 0)")
        }
        try await space[0].store.write { db in try db.execute(sql: "UPDATE note SET title = 'Oat milk'") }
        try await space[1].store.write { db in try db.execute(sql: "UPDATE note SET done = 1") }
        try await space.settle()
        let done = try await space[0].store.read { db in try String.fetchAll(db, sql: "SELECT title FROM note WHERE done") }
        #expect(done == ["Oat milk"])
        #expect(try await space.areEqual())
    }

    private static let notes: @Sendable (Database) throws -> Void = { db in
        try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
    }

    private func add(_ title: String, _ store: Store) async throws {
        try await store.write { db in try db.execute(sql: "INSERT INTO note (title) VALUES (?)", arguments: [title]) }
    }

    private func titles(_ store: Store) async throws -> [String] {
        try await store.read { db in try String.fetchAll(db, sql: "SELECT title FROM note ORDER BY title") }
    }

    @Test("replicas meet on the worst of networks, and nothing arrives twice or never", arguments: UInt64(1)...12)
    func badNetwork(seed: UInt64) async throws {
        let network = FaultyNetwork(seed: seed, rates: .init(requestsLost: 20, answersLost: 20, repeated: 20, refused: 10))
        let space = try await TestSpace(replicas: 3, network: network, seed: seed, Self.notes)
        for round in 0..<6 {
            for replica in space.replicas {
                try await add("\(replica.name), round \(round)", replica.store)
                _ = try? await replica.agent.sync()
                space.clock.advance(.seconds(1))
            }
        }
        try await space.settle()
        #expect(network.faults > 10, "\(network.faults) of \(network.requests)")
        #expect(try await space.areEqual())
        #expect(try await titles(space[0].store).count == 18)
    }

    @Test("the same seed is the same day")
    func repeatable() async throws {
        func day(_ seed: UInt64) async throws -> [String] {
            let network = FaultyNetwork(seed: seed)
            let space = try await TestSpace(network: network, seed: seed, Self.notes)
            for round in 0..<10 {
                for replica in space.replicas { try await add("\(round)", replica.store) }
                try await space.settle()
            }
            return ["\(network.requests) \(network.faults) \(space.clock.milliseconds)", try await space[0].store.digest().description]
        }
        #expect(try await day(3) == day(3))
        #expect(try await day(3) != day(4))
    }

    @Test(
        "a fault of a push's line is met, and the row arrives once",
        arguments: [NetworkFault.requestLost, .answerLost, .repeated, .repeatedLater, .delayed(.seconds(9)), .refused(retryAfter: nil)])
    func fault(_ fault: NetworkFault) async throws {
        let network = FaultyNetwork(script: [fault])
        let space = try await TestSpace(network: network, Self.notes)
        let before = space.clock.milliseconds
        try await add("once", space[0].store)
        let summary = try await space[0].agent.sync()
        #expect(summary.outbox == 0 && network.faults == 1)
        if case .delayed = fault { #expect(space.clock.milliseconds - before == 9_000) }
        try await space.settle()
        #expect(try await titles(space[1].store) == ["once"])
    }

    @Test("a replica whose line is cut works on its own, and catches up when it is mended")
    func cut() async throws {
        let space = try await TestSpace(Self.notes)
        space[1].line.cut()
        try await add("here", space[0].store)
        try await add("there", space[1].store)
        try await space.settle()
        #expect(try await titles(space[1].store) == ["there"])
        await #expect { try await space[1].agent.sync() } throws: { ($0 as? AnnalsError)?.code == .relayUnreachable }
        space[1].line.mend()
        try await space.settle()
        #expect(try await titles(space[1].store) == ["here", "there"])
        #expect(try await space.areEqual())
    }

    @Test("of two writes that meet, the later on the test's clock wins", arguments: [0, 1])
    func clock(later: Int) async throws {
        let space = try await TestSpace { db in
            try Self.notes(db)
            try db.execute(sql: "INSERT INTO note VALUES (1, 'begun')")
        }
        for (index, word) in [(1 - later, "earlier"), (later, "later")] {
            try await space[index].store.write { db in try db.execute(sql: "UPDATE note SET title = ?", arguments: [word]) }
            space.clock.advance(.seconds(1))
        }
        try await space.settle()
        #expect(try await titles(space[0].store) == ["later"])
        #expect(try await space.areEqual())
    }
}
