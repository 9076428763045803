import Annals

/// The app of the README, unchanged. ReadmeTests compares the two and runs it.
enum ReadmeExample {
    static func run(path: String, address: String) async throws -> SyncAgent.Summary {
        let store = try Store(path: path)
        try await store.track(.all)

        try await store.write(author: "till 3") { db in
            try db.execute(sql: "UPDATE invoice SET paid = 1 WHERE id = 17")
        }

        let place = try SpaceAddress("shop", at: address, as: "till 3")
        let agent = try SyncAgent(store: store, joining: place)
        let summary = try await agent.sync()
        return summary
    }
}
