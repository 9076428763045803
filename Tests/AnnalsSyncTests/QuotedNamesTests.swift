import AnnalsCore
import AnnalsRows
import AnnalsHistory
import AnnalsStore
import AnnalsSync
import GRDB
import Testing

/// Names that the user chose, also names with SQL's quotes.
@Suite("Names with quotes in them", .timeLimit(.minutes(20)))
struct QuotedNamesTests {
    @Test(
        "other programs' writes, syncs, reverts and replays go as with any name",
        arguments: [("INTEGER PRIMARY KEY", ""), ("TEXT PRIMARY KEY NOT NULL", ""), ("TEXT PRIMARY KEY NOT NULL", " WITHOUT ROWID")])
    func everywhere(key: String, option: String) async throws {
        let schema = #"CREATE TABLE "we""i'r[d`" ("i""d" \#(key), "v""x" TEXT UNIQUE)\#(option);"#
        let world = try await SyncedStores(replicas: 2, schema: schema + #"INSERT INTO "we""i'r[d`" VALUES (1, 'a')"#)
        try world.outside(0, #"INSERT INTO "we""i'r[d`" VALUES (2, 'b')"#)
        try world.outside(1, #"UPDATE "we""i'r[d`" SET "v""x" = 'c'; INSERT INTO "we""i'r[d`" VALUES (3, 'b')"#)
        try await world.settle()
        try await world.expectAlike()
        let store = world.stores[0]
        try await store.revert(transaction: try await store.latestToken().number, later: .overwrite)
        try await world.settle()
        try await world.expectAlike()
        #expect(try await store.verify().isEmpty)
        let start = try await store.token(named: "start")
        _ = try await store.replay(to: start, output: world.folder.file("start.db"))
        #expect(try await !store.diff(from: start, to: store.latestToken()).isEmpty)
    }
}
