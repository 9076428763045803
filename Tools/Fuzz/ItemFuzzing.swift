@testable import AnnalsCore
@testable import AnnalsWire

/// The parts of bodies and batches, each separately. The first byte selects the part.
enum ItemFuzzing {
    static let target = FuzzTarget("item", seeds: seeds) { bytes in
        guard let first = bytes.first else { return }
        let kinds = kinds
        try kinds[Int(first) % kinds.count](Array(bytes.dropFirst()))
    }

    private static let kinds: [@Sendable ([UInt8]) throws -> Void] = [
        { try check($0, { try $0.readJournalEntry() }, { $0.journalEntry($1) }) },
        { try check($0, { try $0.readSchemaEntry() }, { $0.schemaEntry($1) }) },
        { try check($0, { try $0.readPolicySetting() }, { $0.policySetting($1) }) },
        { try check($0, { try $0.readResolution() }, { $0.resolution($1) }) },
        { try check($0, { try $0.readVoidedEntry() }, { $0.voidedEntry($1) }) },
        { try check($0, { try $0.readTransactionInfo() }, { $0.transactionInfo($1) }) },
        { try check($0, { try $0.readValues() }, { $0.values($1) }) },
        { try check($0, { try $0.readColumnChanges() }, { $0.columnChanges($1) }) },
        { try check($0, { try SeenLog(from: &$0) }, { $1.encode(into: &$0) }) },
        { try check($0, { try BatchDictionary(from: &$0).layouts }, { _ = BatchDictionary.write($1, into: &$0) }) },
        { bytes in
            let entry = try JournalEntry.decode(bytes)
            expect(entry.encode() == bytes, "an entry has one encoding")
        },
        { bytes in
            _ = ReplicaKey.isSigned(Array(bytes.dropFirst(96)), by: Array(bytes.prefix(32)), signature: bytes.dropFirst(32).prefix(64))
            _ = ReplicaKey(bytes: Array(bytes.prefix(32))).map { try? $0.sign(bytes) }
        },
    ]

    private static func check<Item>(
        _ bytes: [UInt8], _ read: (inout ByteReader) throws -> Item, _ write: (inout ByteWriter, Item) -> Void
    ) throws {
        var reader = ByteReader(bytes)
        let item = try read(&reader)
        var writer = ByteWriter()
        write(&writer, item)
        expect(writer.bytes[...] == bytes[..<reader.offset], "one content is written in one way")
    }

    @Sendable private static func seeds(_ fixtures: Fixtures) throws -> [[UInt8]] {
        let entry = JournalEntry(
            kind: .update, table: "seats", key: [.text("blue"), .integer(1)], columns: ["person"], policy: "sum", base: [.null],
            stored: [.integer(5)], incoming: [.real(6)], winner: .incoming, storedReplica: .relay, storedTime: .zero,
            storedPosition: Position(12))
        let layout = TableLayout(name: "seats", columns: ["row", "hall"], key: [1, 0])
        let schema = SchemaEntry(version: 2, statements: ["CREATE TABLE seats(row, hall)"], tracked: [layout], isBreaking: true)
        let id = TransactionID(high: 1, low: 2)
        let contents: [(inout ByteWriter) -> Void] = [
            { $0.journalEntry(entry) }, { $0.schemaEntry(schema) },
            { $0.policySetting(PolicySetting(table: "seats", column: "row", aspect: .update, policy: "sum")) },
            { $0.resolution(ConflictResolution(conflict: ConflictID(replica: .relay, transaction: id, index: 3), choice: .incoming)) },
            { $0.voidedEntry(VoidedEntry(position: Position(3), digest: .sha256([1]))) },
            { $0.transactionInfo(TransactionInfo(id: id, time: .zero, author: "Ada", replicaName: "till", contextName: "form")) },
            { $0.values([.null, .integer(7), .integer(-700), .real(1.5), .text("a"), .blob([1])]) },
            { $0.columnChanges([ColumnChange(column: 1, old: .null, new: .integer(1))]) },
            { SeenLog(position: Position(3), digest: .sha256([2])).encode(into: &$0) },
            { _ = BatchDictionary.write([3: layout, 200: layout], into: &$0) }, { $0.journalEntry(entry) },
            { $0.bytes((0..<128).map { UInt8($0) }) },
        ]
        return contents.enumerated().map { number, write in
            var writer = ByteWriter()
            writer.byte(UInt8(number))
            write(&writer)
            return writer.bytes
        }
    }
}
