import Annals
import GRDB

/// The app of the README, as it stands there; ReadmeTests compares the two and runs it.
enum ReadmeExample {
    static func run(path: String, address: String, space: SpaceName) async throws -> SyncAgent.Summary {
        let store = try Store(path: path)
        try await store.track(.all)
        try await join(store, address: address, space: space)

        try await store.write(author: "till 3") { db in
            try db.execute(sql: "UPDATE invoice SET paid = 1 WHERE id = 17")
        }

        let relay = try HTTPRelay(address: address, space: space, client: HTTPClient())
        let summary = try await SyncAgent(store: store, transport: relay).sync()
        return summary
    }

    private static func join(_ store: Store, address: String, space: SpaceName) async throws {
        let relay = try HTTPRelay(address: address, space: space, client: HTTPClient())
        _ = try await Joining(transport: relay, address: address, space: space, name: "app").join(store)
    }
}
