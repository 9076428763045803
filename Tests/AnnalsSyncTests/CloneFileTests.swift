import AnnalsSync
import Foundation
import GRDB
import Testing

@Suite struct CloneFileTests {
    @Test(
        "a clone is in WAL mode whatever the store that made the space is, and one file when nobody has it open",
        arguments: ["wal", "delete"])
    func journal(mode: String) async throws {
        let world = try await SyncedStores(
            replicas: 1, schema: "CREATE TABLE item(id TEXT PRIMARY KEY NOT NULL); INSERT INTO item VALUES('a')")
        try await world.stores[0].setJournalMode(mode)
        let path = world.folder.file("clone.db")
        _ = try await world.joining("clone").clone(to: path)
        #expect(!FileManager.default.fileExists(atPath: path + "-wal"))
        let queue = try DatabaseQueue(path: path)
        #expect(try await queue.read { db in try String.fetchOne(db, sql: "PRAGMA journal_mode") } == "wal")
        #expect(try await queue.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM item") } == 1)
    }
}
