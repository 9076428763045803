import Annals
import Foundation
@testable import SeededRandom
import Testing

@Suite("The stored form of a value")
struct StoredFormTests {
    struct Detail: Codable, Hashable, Sendable {
        var name: String
        var counts: [String: Int]
        var date: Date?
    }

    struct Everything: Codable, Hashable, Identifiable, ActiveRecord {
        static let databaseTableName = "everything"
        var id: UUID
        var string: String
        var bool: Bool
        var int16: Int16
        var int32: Int32
        var int64: Int64
        var float: Float
        var double: Double
        var date: Date
        var data: Data
        var url: URL
        var decimal: Decimal
        var detail: Detail
    }

    private static func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.create(table: "everything") { t in
                t.primaryKey("id", .blob)
                t.column("string", .text)
                t.column("bool", .boolean)
                t.column("int16", .integer)
                t.column("int32", .integer)
                t.column("int64", .integer)
                t.column("float", .double)
                t.column("double", .double)
                t.column("date", .datetime)
                t.column("data", .blob)
                t.column("url", .text)
                t.column("decimal", .text)
                t.column("detail", .jsonText)
            }
        }
        return store
    }

    private static func value(float: Float = 0.1) throws -> Everything {
        Everything(
            id: try #require(UUID(uuidString: "00112233-4455-6677-8899-AABBCCDDEEFF")), string: "éa\n'ü", bool: true, int16: .min,
            int32: .max, int64: .min, float: float, double: -0.0, date: Date(timeIntervalSince1970: 1_700_000_000.125),
            data: Data([0, 255]), url: try #require(URL(string: "https://example.org/a%20b?c=d#e")),
            decimal: try #require(Decimal(string: "12.50")),
            detail: Detail(name: "a/b", counts: ["z": 1, "a": 2, "m": 3], date: Date(timeIntervalSince1970: 1)))
    }

    @Test("comes back as the value that it was, for every type of the table")
    func roundTrip() async throws {
        let store = try await Self.store()
        let value = try Self.value()
        try await store.write { db in try value.insert(in: db) }
        #expect(try await store.fetch(Everything.query) == [value])
    }

    @Test("is the one that the documentation's table says")
    func forms() async throws {
        let store = try await Self.store()
        let value = try Self.value(float: 0.5)
        let forms = try await store.write { db in
            try value.insert(in: db)
            let columns = try db.columns(in: "everything").map(\.name)
            let quoted = columns.map { "typeof(\($0)) || ' ' || quote(\($0))" }.joined(separator: ", ")
            return try Row.fetchOne(db, sql: "SELECT \(quoted) FROM everything").map { row in
                zip(columns, row.databaseValues).map { "\($0): \(String.fromDatabaseValue($1) ?? "NULL")" }
            }
        }
        #expect(
            forms == [
                "id: blob X'00112233445566778899AABBCCDDEEFF'", "string: text 'éa\n''ü'", "bool: integer 1", "int16: integer -32768",
                "int32: integer 2147483647", "int64: integer -9223372036854775808", "float: real 0.5",
                "double: real 0.0", "date: text '2023-11-14 22:13:20.125'", "data: blob X'00FF'",
                "url: text 'https://example.org/a%20b?c=d#e'", "decimal: text '12.5'",
                #"detail: text '{"counts":{"a":2,"m":3,"z":1},"date":1000,"name":"a\/b"}'"#,
            ])
    }

    @Test("does not hold what the documentation's table says that it does not")
    func limits() throws {
        let text = try DatabaseQueue().read { db in try String.fetchOne(db, sql: "SELECT ?", arguments: ["a\0b"]) }
        #expect(text == "a")
        #expect(Decimal.fromDatabaseValue(Decimal.nan.databaseValue) == nil)
        let endOf9999 = Date(timeIntervalSince1970: 253_402_300_799)
        #expect(Date.fromDatabaseValue(endOf9999.databaseValue) == endOf9999)
        #expect(Date.fromDatabaseValue((endOf9999 + 1).databaseValue) == nil)
    }

    @Test("is the same for equal values, however they were made")
    func equalBytes() throws {
        let decimals = ["1", "1.0", "1.00", "0.1e1", "10e-1"].compactMap { Decimal(string: $0) }
        #expect(Set(decimals.map(\.databaseValue)) == ["1".databaseValue])
        #expect(Set([Decimal(5) / 2, Decimal(2.5), try #require(Decimal(string: "2.500"))].map(\.databaseValue)).count == 1)
        let long = "12345678901234567890.123456789"
        #expect(try #require(Decimal(string: long)).databaseValue == long.databaseValue)
        #expect((-0.0).databaseValue == 0.0.databaseValue)
        let lower = UUID(uuidString: "00112233-4455-6677-8899-aabbccddeeff")
        #expect(lower?.databaseValue == UUID(uuidString: "00112233-4455-6677-8899-AABBCCDDEEFF")?.databaseValue)
        #expect(Data([9, 0, 1]).dropFirst().databaseValue == Data([0, 1]).databaseValue)
        #expect(true.databaseValue == 1.databaseValue)
        // The order of a dictionary in memory differs each time.
        var counts: [String: Int] = [:]
        for number in (0..<40).shuffled() { counts["k\(number)"] = number }
        func json(_ counts: [String: Int]) throws -> String {
            String(decoding: try Everything.databaseJSONEncoder(for: "detail").encode(counts), as: UTF8.self)
        }
        var again: [String: Int] = [:]
        again.reserveCapacity(1_000)
        for number in 0..<40 { again["k\(number)"] = number }
        #expect(try json(counts) == json(again))
    }

    @Test(
        "of a date is a whole millisecond: stored once it stays what it is, and equal dates have equal texts",
        arguments: Seeds.givenOrNew(20))
    func dates(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            let date = Date(timeIntervalSince1970: Double.random(in: -2_000_000_000...5_000_000_000, using: &random))
            let stored = date.asStored
            #expect(abs(stored.timeIntervalSince(date)) < 0.001_001, "seed \(seed)")
            #expect(Date.fromDatabaseValue(date.databaseValue) == stored, "seed \(seed)")
            #expect(stored.databaseValue == date.databaseValue && stored.asStored == stored, "seed \(seed)")
        }
        let whole = Date(timeIntervalSince1970: Double(Int64.random(in: 0...4_000_000_000_000, using: &random)) / 1_000)
        #expect(abs(whole.asStored.timeIntervalSince(whole)) < 0.000_001, "seed \(seed): a whole millisecond stays")
    }
}
