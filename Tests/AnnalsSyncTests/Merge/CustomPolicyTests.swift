import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsTesting
import GRDB
import Testing

/// Policies that need a closure. No app can register one.
@Suite struct CustomPolicyTests {
    private static let schema = "CREATE TABLE doc (id TEXT PRIMARY KEY NOT NULL, n INTEGER); INSERT INTO doc VALUES ('a', 10)"

    @Test(arguments: [false, true])
    func `a custom policy cannot be set, neither for the space nor for a replica`(isOverride: Bool) async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        let setting = PolicySetting(table: "doc", aspect: .update, policy: "custom: mine")
        let error = await #expect(throws: AnnalsError.self) {
            try await world.stores[0].setPolicies([setting], isOverride: isOverride)
        }
        #expect(error?.code == .usage && error?.message.contains("there is no policy custom: mine") == true)
        #expect(error?.hint?.contains("custom") == false)
        #expect(try await world.stores[0].policies().isEmpty)
    }

    @Test func `a custom policy that a member wrote into the log stops nobody: the conflict is settled by the default`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        for index in 0...1 {
            try world.outside(index, "INSERT INTO annals_policies VALUES (0, 'doc', '', 0, 'custom: mine')")
        }
        try world.outside(0, "UPDATE doc SET n = 11")
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE doc SET n = 12")
        try await world.settle()
        let rows = try await world.rows(0, "SELECT n FROM doc")
        #expect(try await world.rows(1, "SELECT n FROM doc") == rows)
        #expect(try await world.stores[0].conflicts().map(\.entry.policy) == ["lastWriterWins"])
    }
}
