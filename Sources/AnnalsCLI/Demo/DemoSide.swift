import AnnalsCore
import AnnalsHTTP
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import GRDB
import Logging

/// One of the two machines of a demonstration.
struct DemoSide: Sendable {
    var name: String
    var store: Store
    var replica: ReplicaID
    var agent: SyncAgent

    /// Takes a store that is joined to a space.
    init(_ name: String, _ store: Store, client: HTTPClient) async throws {
        guard let state = try await store.replicaState() else {
            throw AnnalsError(.defect, operation: "demo", "\(name) is not joined")
        }
        self.name = name
        self.store = store
        replica = state.replica
        let transport = try HTTPRelay(
            address: state.relay, space: state.space, identity: .init(name: name), client: client)
        agent = SyncAgent(store: store, transport: transport, logger: StandardErrorLog.logger("annals.sync", level: .error))
    }

    /// Writes as another program would, over a separate connection without Annals.
    func writeFromOutside(_ statements: [String]) async throws {
        let connection = try DatabaseQueue(path: store.path)
        defer { try? connection.close() }
        try await connection.write { db in
            for statement in statements { try db.execute(sql: statement) }
        }
    }
}
