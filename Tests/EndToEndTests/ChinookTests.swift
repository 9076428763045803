import Foundation
import Testing

/// Real data of another project. The files are not part of this project; ANNALS_TEST_DATA names their folder.
enum Chinook {
    static let folder: String? = {
        let named = ProcessInfo.processInfo.environment["ANNALS_TEST_DATA"]
        let beside = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../../shared/data").standardized
            .path
        return [named, beside].compactMap { $0 }.first { FileManager.default.fileExists(atPath: $0 + "/chinook.sqlite") }
    }()
}

@Suite(
    "The Chinook shop on two machines (skipped where its files are absent)", .enabled(if: Chinook.folder != nil), .timeLimit(.minutes(20)))
struct ChinookTests {
    @Test("edits on both sides by another program end in equal files", arguments: ["chinook.sqlite", "chinook-autoincrement.sqlite"])
    func bothSides(_ name: String) async throws {
        let folder = try #require(Chinook.folder)
        try await Workshop.with { shop in
            // Restored to a new file, so that the copy is writable in any case.
            try await shop.shell("shop.db", ".restore '\(folder)/\(name)'\nVACUUM;")
            let url = try await shop.relay()
            let tracked = try await shop.succeed("track", "shop.db", "--all", "--json").object()
            let tables = try #require(tracked["tables"] as? [[String: Any]])
            #expect(tables.count == 11 && tables.allSatisfy { $0["outcome"] as? String == "tracked" })
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "chinook")
            try await shop.succeed("clone", url, "chinook", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")

            try await shop.shell("shop.db", Self.edits(phone: true, name: "Shop"))
            try await shop.shell("laptop.db", Self.edits(phone: false, name: "Laptop"))
            try await shop.succeed("sync", "shop.db", "laptop.db")

            try await shop.expectEqual("shop.db", "laptop.db")
            for file in ["shop.db", "laptop.db"] {
                try await expectEdits(shop, file)
                try await shop.succeed("verify", file)
            }
        }
    }

    /// Different columns of one row; the same next integer keys with children; deletes; INSERT OR REPLACE.
    private static func edits(phone: Bool, name: String) -> String {
        """
        PRAGMA foreign_keys = ON;
        BEGIN;
        UPDATE Customer SET \(phone ? "Phone = '+1 555 0100'" : "Fax = '+1 555 0199'") WHERE CustomerId = 5;
        INSERT INTO Artist (Name) VALUES ('\(name) artist');
        INSERT INTO Album (Title, ArtistId) VALUES ('\(name) album', last_insert_rowid());
        INSERT INTO Track (Name, AlbumId, MediaTypeId, Milliseconds, UnitPrice)
            VALUES ('\(name) track', last_insert_rowid(), 1, 1000, 0.99);
        INSERT INTO Invoice (CustomerId, InvoiceDate, Total) VALUES (\(phone ? 5 : 6), '2024-01-01', 1.98);
        INSERT INTO InvoiceLine (InvoiceId, TrackId, UnitPrice, Quantity)
            VALUES (last_insert_rowid(), \(phone ? 1 : 2), 0.99, 2);
        DELETE FROM PlaylistTrack WHERE PlaylistId = \(phone ? 3 : 17);
        DELETE FROM InvoiceLine WHERE InvoiceLineId = \(phone ? 10 : 20);
        INSERT OR REPLACE INTO Genre (GenreId, Name) VALUES (\(phone ? 24 : 25), '\(name) genre');
        COMMIT;
        """
    }

    private func expectEdits(_ shop: Workshop, _ file: String) async throws {
        #expect(try await shop.shell(file, "SELECT Phone, Fax FROM Customer WHERE CustomerId = 5;") == "+1 555 0100|+1 555 0199")
        // Both new artists exist, each with its own album and track, with any numbers.
        let works = try await shop.shell(
            file,
            """
            SELECT a.Name, l.Title, t.Name FROM Artist a JOIN Album l USING (ArtistId) JOIN Track t USING (AlbumId)
            WHERE a.Name LIKE '% artist' AND a.ArtistId > 275 ORDER BY 1;
            """)
        #expect(works == "Laptop artist|Laptop album|Laptop track\nShop artist|Shop album|Shop track")
        let sales = try await shop.shell(
            file,
            "SELECT i.CustomerId, l.TrackId, l.Quantity FROM Invoice i JOIN InvoiceLine l USING (InvoiceId) WHERE InvoiceId > 412 ORDER BY 1;"
        )
        #expect(sales == "5|1|2\n6|2|2")
        #expect(try await shop.shell(file, "SELECT Name FROM Genre WHERE GenreId IN (24, 25) ORDER BY 1;") == "Laptop genre\nShop genre")
        #expect(
            try await shop.shell(
                file,
                """
                SELECT (SELECT count(*) FROM PlaylistTrack WHERE PlaylistId IN (3, 17)),
                    (SELECT count(*) FROM InvoiceLine WHERE InvoiceLineId IN (10, 20));
                """) == "0|0")
    }
}
