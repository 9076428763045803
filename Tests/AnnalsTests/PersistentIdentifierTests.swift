import Annals
import Foundation
import Testing

@Suite("A row's identifier")
struct PersistentIdentifierTests {
    @Test(
        "is the same after it was kept as JSON",
        arguments: [
            [Value.integer(.max)], [.text("A"), .integer(-3)], [.real(0.5)], [.real(2)], [.blob([0, 255])], [.null, .text("")],
        ])
    func roundTrip(key: [Value]) throws {
        let identifier = PersistentIdentifier(table: "seat", key: key)
        let bytes = try JSONEncoder().encode(identifier)
        #expect(try JSONDecoder().decode(PersistentIdentifier.self, from: bytes) == identifier)
    }

    @Test("in JSON is what a person would write")
    func json() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let bytes = try encoder.encode(PersistentIdentifier(table: "seat", key: [.integer(12), .text("A")]))
        #expect(String(decoding: bytes, as: UTF8.self) == #"{"key":[12,"A"],"table":"seat"}"#)
    }

    @Test("finds the row as it is now, and nothing where there is none")
    func fetches() async throws {
        let store = try Store(inMemory: nil)
        let row = try await store.write { db in
            try db.execute(sql: "CREATE TABLE seat (number INTEGER, line TEXT, guest TEXT, PRIMARY KEY (line, number))")
            try db.execute(sql: "INSERT INTO seat VALUES (12, 'A', 'Ada')")
            return try (
                PersistentIdentifier(table: "seat", key: [.text("A"), .integer(12)]).fetch(db)?["guest"] as String?,
                PersistentIdentifier(table: "seat", key: [.text("B"), .integer(12)]).fetch(db)?["guest"] as String?,
                PersistentIdentifier(table: "seat", key: [.text("A")]).fetch(db)?["guest"] as String?
            )
        }
        #expect(row.0 == "Ada")
        #expect(row.1 == nil)
        #expect(row.2 == nil)
    }
}
