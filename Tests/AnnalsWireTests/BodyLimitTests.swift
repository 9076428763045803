import AnnalsCore
import Testing

@testable import AnnalsWire

/// Bytes that repeat pack to almost nothing, so what a body may hold is counted before anything is made of it.
@Suite struct BodyLimitTests {
    /// A body with tables, and then bytes as they are.
    private static func body(tables: [Int] = [3], _ rest: (inout ByteWriter) -> Void) -> [UInt8] {
        var writer = ByteWriter()
        // A body without anything: no table, and the end.
        var empty = BodyEncoder(info: Samples.thirdInfo)
        writer.bytes(empty.finish().dropLast(2))
        writer.varint(tables.count)
        for table in tables { writer.varint(table) }
        rest(&writer)
        return writer.bytes
    }

    private static func items(section: UInt8, _ count: Int, _ item: [UInt8]) -> [UInt8] {
        body { writer in
            writer.byte(section)
            writer.varint(count)
            for _ in 0..<count { writer.bytes(item) }
            writer.byte(0)
        }
    }

    @Test func `policies are counted before they are read`() throws {
        // Aspect update, no table: three bytes each.
        var small = try BodyReader(bytes: Self.items(section: 4, WireLimits.maximumDecisions, [0, 0, 0]))
        #expect(try small.rest().policies.count == WireLimits.maximumDecisions)
        var large = try BodyReader(bytes: Self.items(section: 4, WireLimits.maximumDecisions + 1, [0, 0, 0]))
        #expect(throws: WireError.tooLarge("policy")) { try large.rest() }
    }

    @Test(
        arguments: [
            (2, WireLimits.maximumJournalEntries), (5, WireLimits.maximumDecisions), (6, WireLimits.maximumDecisions),
            (8, WireLimits.maximumDecisions),
        ]
            as [(UInt8, Int)])
    func `journal entries, resolutions, voids and references are counted, too`(section: UInt8, limit: Int) throws {
        let bytes = Self.body { writer in
            writer.byte(section)
            writer.varint(limit + 1)
            writer.bytes([UInt8](repeating: 0, count: limit + 1))
        }
        var body = try BodyReader(bytes: bytes)
        #expect {
            try body.rest()
        } throws: {
            if case .tooLarge? = $0 as? WireError { true } else { false }
        }
    }

    @Test func `tables are counted, and a section's is found among many`() throws {
        let many = (0..<WireLimits.maximumTables).map { 2 * $0 }
        var body = try BodyReader(
            bytes: Self.body(tables: many) { writer in
                writer.bytes([1, 4, 1, 1, 0x90, 0, 1, 5, 0, 0])
            })
        #expect(try body.nextTable() == 4)
        #expect(throws: WireError.badValue("table")) { try body.nextTable() }
        #expect(throws: WireError.tooLarge("tables")) {
            try BodyReader(bytes: Self.body(tables: Array(0...WireLimits.maximumTables)) { $0.byte(0) })
        }
    }

    @Test func `empty table sections are few`() throws {
        func sections(_ count: Int) -> [UInt8] {
            Self.body { writer in
                for _ in 0..<count { writer.bytes([1, 3, 0]) }
                writer.byte(0)
            }
        }
        var few = try BodyReader(bytes: sections(WireLimits.maximumEmptySections))
        _ = try few.rest()
        var many = try BodyReader(bytes: sections(WireLimits.maximumEmptySections + 1))
        #expect(throws: WireError.tooLarge("empty sections")) { try many.rest() }
    }

    @Test(
        arguments: [
            // An insert and a delete without a column; an update without a key, and one without a column.
            ([1, 0], "row"), ([3, 0], "row"), ([2, 0, 1, 0, 0x90, 0x90], "key"), ([2, 1, 0, 0x90], "columns"),
            // The row that a deleted one was merged into has a key.
            ([0x13, 0, 1, 0x90], "key"),
        ] as [([UInt8], String)])
    func `a change has a key and a column at least`(change: [UInt8], part: String) throws {
        var body = try BodyReader(bytes: Self.body { $0.bytes([1, 3] + change + [0, 0]) })
        #expect(throws: WireError.badValue(part)) { try body.rest() }
    }

    @Test func `names and statements are counted before they are read`() throws {
        func count(_ count: Int, _ head: [UInt8], bytesEach: Int = 1) -> [UInt8] {
            var writer = ByteWriter()
            writer.bytes(head)
            writer.varint(count)
            writer.bytes([UInt8](repeating: 0, count: bytesEach * count + 1))
            return writer.bytes
        }
        // A schema entry: version, flag, statements, and tables of which the first has no name.
        for (bytes, part) in [
            (count(WireLimits.maximumStatements + 1, [2, 0]), "statements"),
            (count(WireLimits.maximumTables + 1, [2, 0, 0], bytesEach: 3), "tables"),
            (count(WireLimits.maximumColumns + 1, [2, 0, 0, 1, 0]), "columns"),
        ] {
            let section = Self.body { $0.bytes([3] + bytes + [0]) }
            var body = try BodyReader(bytes: section)
            #expect(throws: WireError.tooLarge(part)) { try body.rest() }
        }
        // A journal entry: kind, flags, table, key, columns.
        let entry = Self.body { $0.bytes([2, 1] + count(WireLimits.maximumColumns + 1, [0, 0, 0, 0]) + [0]) }
        var body = try BodyReader(bytes: entry)
        #expect(throws: WireError.tooLarge("columns")) { try body.rest() }
    }

    @Test func `the layouts of a batch are counted before they are read`() throws {
        var writer = ByteWriter()
        writer.varint(WireLimits.maximumTables + 1)
        writer.bytes([UInt8](repeating: 0, count: 4 * WireLimits.maximumTables + 4))
        var reader = ByteReader(writer.bytes)
        #expect(throws: WireError.tooLarge("tables")) { try BatchDictionary(from: &reader) }
        var batch = Samples.part(.whole)
        for reference in 0...WireLimits.maximumTables { batch.layout(ref: reference, Samples.seats) }
        #expect(throws: WireError.tooLarge("tables")) { try batch.finish() }
    }
}
