import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import Foundation
import GRDB
import Testing

@testable import AnnalsStore

/// The Chinook sample files, which are not part of the project.
enum Chinook {
    static let names = ["chinook.sqlite", "chinook-autoincrement.sqlite"]

    static func path(_ name: String) -> String {
        var package = URL(fileURLWithPath: #filePath)
        for _ in 0..<4 { package.deleteLastPathComponent() }
        return package.appendingPathComponent("../shared/data").standardized.appendingPathComponent(name).path
    }

    static var isThere: Bool { names.allSatisfy { FileManager.default.fileExists(atPath: path($0)) } }
}

@Suite("Law 8 on real data", .enabled(if: Chinook.isThere, "needs the Chinook files in ../shared/data"))
struct ChinookReplayTests {
    @Test("Chinook, edited by the sqlite3 shell, replays to every token (needs ../shared/data)", arguments: Chinook.names)
    func replay(name: String) throws {
        let store = try HistoryFile(copyOf: Chinook.path(name))
        let report = try store.track()
        #expect(report.tables.filter { !$0.isTracked }.isEmpty)
        let digest = try store.digest()
        var copies: [Int64: RowDump] = [0: try store.rows()]
        for edit in Self.edits {
            try store.file.shell(edit)
            let number = try #require(try store.recordExternalChanges(), "\(edit)")
            copies[number] = try store.rows()
        }
        #expect(copies.count == Self.edits.count + 1)
        for (number, copy) in copies.sorted(by: { $0.key < $1.key }) {
            try store.replay(to: store.token(number))
            let replayed = try RowDump(path: store.path("replayed.db"))
            #expect(replayed == copy, "token \(number): \(replayed.difference(from: copy))")
        }
        // The shell has foreign keys off.
        #expect(try store.findings().filter { $0.code != .foreignKey } == [])
        try store.replay(to: store.token(0))
        let oldest = try HistoryFile(copyOf: store.path("replayed.db"))
        try oldest.track()
        #expect(try oldest.digest() == digest)
    }

    private static let edits = [
        "UPDATE Customer SET City = 'Kraków', Fax = NULL WHERE CustomerId % 7 = 0;",
        "INSERT INTO Artist VALUES(276, 'New'); INSERT INTO Album VALUES(348, 'First', 276);",
        "PRAGMA foreign_keys = ON; BEGIN; UPDATE Track SET AlbumId = 348 WHERE AlbumId = 1; DELETE FROM Album WHERE AlbumId = 1; COMMIT;",
        "INSERT OR REPLACE INTO Genre SELECT GenreId, upper(Name) FROM Genre;",
        "DELETE FROM PlaylistTrack WHERE TrackId % 3 = 0;",
        "UPDATE Track SET UnitPrice = UnitPrice * 2, Composer = 'nobody';",
        "UPDATE Employee SET EmployeeId = EmployeeId + 100; UPDATE Employee SET ReportsTo = ReportsTo + 100;",
        "BEGIN; DELETE FROM InvoiceLine; DELETE FROM Invoice; INSERT INTO Artist(Name) VALUES('x'); COMMIT;",
        "UPDATE PlaylistTrack SET PlaylistId = -PlaylistId; INSERT INTO PlaylistTrack SELECT 1, TrackId FROM Track WHERE TrackId > 3400;",
    ]
}
