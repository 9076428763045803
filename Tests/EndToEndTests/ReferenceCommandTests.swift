import Foundation
import Testing

@Suite("annals reference: references that the schema does not declare", .timeLimit(.minutes(20)))
struct ReferenceCommandTests {
    private static let beets = """
        CREATE TABLE albums (id INTEGER PRIMARY KEY, album TEXT);
        CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT, album_id INTEGER);
        """

    @Test("the whole way: track and join name the suggestion, add decides, and both albums keep their items")
    func beets() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.shell("beets.db", Self.beets)
            let tracked = try await shop.succeed("track", "beets.db", "--all")
            #expect(tracked.output.contains("items.album_id -> albums.id looks like a reference"))
            let suggested = try await shop.succeed("reference", "beets.db", "suggest", "--json").objects()
            #expect(suggested.count == 1)
            let suggestion = try #require(suggested.first)
            #expect(
                Set(suggestion.keys) == ["table", "columns", "parent", "parentColumns", "onDelete", "coverage", "reason", "strength"])
            #expect(suggestion["table"] as? String == "items" && suggestion["columns"] as? [String] == ["album_id"])
            #expect(suggestion["parent"] as? String == "albums" && suggestion["parentColumns"] as? [String] == ["id"])
            #expect(suggestion["strength"] as? String == "strong" && suggestion["coverage"] is NSNull)

            let join = ["join", "beets.db", "--relay", url, "--space", "music"]
            let refused = try await shop.annals(join[0], join[1], join[2], join[3], join[4], join[5])
            shop.expectFailure(refused, 65, "items.album_id -> albums.id")
            #expect(refused.errors.contains("add items.album_id albums.id") && refused.errors.contains("--references"))
            shop.expectFailure(
                try await shop.annals(join[0], join[1], join[2], join[3], join[4], join[5], "--dry-run"), 65, "items.album_id -> albums.id")
            try await shop.succeed(join[0], join[1], join[2], join[3], join[4], join[5], "--dry-run", "--references", "ignore")

            try await shop.succeed("reference", "beets.db", "add", "items.album_id", "albums.id", "--on-delete", "cascade")
            #expect(try await shop.succeed("reference", "beets.db", "suggest").output.contains("no column looks like a reference"))
            try await shop.succeed("join", "beets.db", "--relay", url, "--space", "music")
            try await shop.succeed("clone", url, "music", "laptop.db")
            for store in ["beets.db", "laptop.db"] {
                try await shop.shell(
                    store, "INSERT INTO albums VALUES (1, 'of \(store)'); INSERT INTO items VALUES (1, 'in \(store)', 1);")
            }
            for _ in 0..<2 { try await shop.succeed("sync", "beets.db", "laptop.db") }
            try await shop.expectEqual("beets.db", "laptop.db")
            #expect(
                try await shop.shell("laptop.db", "SELECT title, album FROM items JOIN albums ON albums.id = album_id ORDER BY 1;")
                    == "in beets.db|of beets.db\nin laptop.db|of laptop.db")
            let listed = try await shop.succeed("reference", "laptop.db", "--json").objects()
            #expect(listed.first?["onDelete"] as? String == "cascade" && listed.first?["decision"] as? String == "reference")
        }
    }

    @Test("none, remove, list, conditions and --references")
    func decisions() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.shell("beets.db", Self.beets + "CREATE TABLE note (id INTEGER PRIMARY KEY, kind TEXT, owner INTEGER);")
            try await shop.succeed("track", "beets.db", "--all")
            try await shop.succeed("reference", "beets.db", "none", "items.album_id")
            try await shop.succeed("reference", "beets.db", "add", "note.owner", "albums.id", "--when", "kind = 'album'")
            try await shop.succeed("reference", "beets.db", "add", "note.owner", "items.id", "--when", "kind IN ('item', 'track')")
            let list = try await shop.succeed("reference", "beets.db", "list").output
            #expect(list.contains("nothing") && list.contains("kind = 'album'") && list.contains("items.id"))
            try await shop.succeed("reference", "beets.db", "remove", "note.owner")
            try await shop.succeed("reference", "beets.db", "remove", "items.album_id")
            #expect(try await shop.succeed("reference", "beets.db").output.contains("no reference is added"))
            shop.expectFailure(try await shop.annals("reference", "beets.db", "remove", "note.owner"), 64, "nothing is decided")
            shop.expectFailure(try await shop.annals("reference", "beets.db", "add", "items", "albums.id"), 64, "names no column")
            shop.expectFailure(
                try await shop.annals("reference", "beets.db", "add", "items.album_id", "albums.id", "--when", "abs(id) = 1"), 64,
                "only have comparisons")
            shop.expectFailure(try await shop.annals("reference", "beets.db", "frobnicate"), 64, "give list")
            try await shop.succeed("join", "beets.db", "--relay", url, "--space", "music", "--references", "ignore")
            let listed = try await shop.succeed("reference", "beets.db", "list", "--json").objects()
            #expect(listed.map { $0["decision"] as? String } == ["none"])
        }
    }
}
