import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsRows
import AnnalsStore
import AnnalsTesting
import GRDB
import Testing

/// A store that takes its schema from the log knows who wrote the first values of a new column or table.
@Suite struct AdoptedValuesTests {
    private func write(_ world: SyncedStores, _ author: String, _ sql: String) throws {
        try world.outside(0, "INSERT INTO annals_context(author) VALUES('\(author)'); \(sql); DELETE FROM annals_context")
        world.clock.advance(.seconds(1))
    }

    @Test(arguments: [false, true])
    func `values that arrive with their column or table keep their authors and steps`(_ isLate: Bool) async throws {
        let world = try await SyncedStores(replicas: 2, schema: AdditionTests.schema)
        try world.reopen(1, newSchemas: .take)
        func change(_ sql: String) async throws {
            try world.outside(0, sql)
            if isLate { try await world.sync(0) } else { _ = try await world.stores[0].prepareOutbox() }
        }
        try await change(AdditionTests.column)
        try write(world, "ann", "UPDATE person SET age = 30 WHERE id = 'p1'")
        try await change("CREATE TABLE note(id TEXT PRIMARY KEY NOT NULL, text TEXT)")
        try write(world, "zoe", "INSERT INTO note VALUES('n1', 'first')")
        try write(world, "bob", "UPDATE note SET text = 'second'")
        try await world.settle()
        try await world.expectAlike()
        let store = world.stores[1]
        let age = try await store.blame(table: "person", key: [.text("p1")]).columns.last
        #expect(age?.name == "age")
        if case .transaction(let writer)? = age?.writer { #expect(writer.author == "ann") } else { Issue.record("nobody wrote it") }
        var steps: [String] = []
        for try await transaction in store.history() where transaction.tables.contains("note") { steps.append(transaction.author ?? "") }
        #expect(steps == ["zoe", "bob"])
    }
}
