import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Logging
import Synchronization
import Testing

@Suite("What another program writes between two steps of a sync")
struct WritesBetweenStepsTests {
    /// Writes as another program after some commits of a store.
    private struct Intruder: LogHandler {
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace
        let act: @Sendable () -> Void

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            if event.message.description.hasPrefix("COMMIT") { act() }
        }
    }

    @Test func `is recorded and sent, also while children without parents are settled`() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE parent(id TEXT PRIMARY KEY NOT NULL);
                CREATE TABLE child(id TEXT PRIMARY KEY NOT NULL, parent TEXT REFERENCES parent(id) ON DELETE CASCADE);
                INSERT INTO parent VALUES('p'), ('q'); INSERT INTO child VALUES('c', 'p');
                """)
        try world.outside(0, "DELETE FROM parent WHERE id = 'p'", foreignKeys: false)
        let written = Mutex(0)
        var configuration = world.configuration("traced")
        configuration.trace = StatementTrace(
            Logger(label: "statements") { _ in
                Intruder {
                    let number = written.withLock { written in
                        defer { written += 1 }
                        return written
                    }
                    guard number < 6 else { return }
                    do {
                        try world.outside(0, "INSERT INTO child VALUES('c\(number)', 'q')")
                    } catch {
                        Issue.record(error)
                    }
                }
            }, level: .info)
        let store = try Store(path: world.stores[0].path, configuration: configuration)
        try await SyncAgent(store: store, transport: world.relay, environment: world.environment).sync()
        #expect(written.withLock { $0 } >= 6)
        try await world.settle()
        for (index, store) in world.stores.enumerated() {
            let rows = try await world.rows(index, "SELECT id FROM child ORDER BY id")
            #expect(rows == (0..<6).map { ["c\($0)".databaseValue] })
            #expect(try await store.verify() == [])
        }
    }
}
