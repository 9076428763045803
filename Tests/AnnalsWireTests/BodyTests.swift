import AnnalsCore
import AnnalsWire
import Testing

@Suite struct BodyTests {
    @Test func `changes and marks of every kind come back as they were`() throws {
        let decoded = try decodeChanges(Samples.firstBody)
        #expect(decoded.map(\.ref) == Samples.firstChanges.map(\.ref))
        #expect(decoded.map(\.changes) == Samples.firstChanges.map(\.changes))
    }

    @Test func `every value kind, the journal and the info come back as they were`() throws {
        var body = try BodyReader(bytes: Samples.secondBody)
        #expect(body.info == Samples.secondInfo)
        #expect(body.tables == [200])
        #expect(try body.nextTable() == 200)
        var change = WireChange()
        #expect(try body.nextChange(into: &change))
        #expect(body.markedChange(change) == MarkedChange(.insert(Samples.everyValue)))
        #expect(try !body.nextChange(into: &change))
        #expect(try body.nextTable() == nil)
        #expect(try body.journalEntries() == Samples.journal)
        #expect(try body.schemaEntry() == nil)
    }

    @Test func `a schema entry comes back as it was, and parts not asked for are stepped over`() throws {
        var body = try BodyReader(bytes: Samples.thirdBody)
        #expect(body.info == Samples.thirdInfo)
        #expect(try body.schemaEntry() == Samples.schema)
        #expect(try body.journalEntries() == [])
        #expect(try body.nextTable() == nil)
        body = try BodyReader(bytes: Samples.secondBody)
        #expect(try body.journalEntries() == Samples.journal)
        body = try BodyReader(bytes: Samples.firstBody)
        #expect(try [body.nextTable(), body.nextTable(), body.nextTable(), body.nextTable()] == [3, 200, 3, nil])
    }

    @Test func `streaming and values give the same bytes`() throws {
        var streamed = BodyEncoder(info: Samples.firstInfo)
        streamed.beginTable(3)
        streamed.beginInsert(columns: 2)
        streamed.integer(5)
        "abc".utf8.withContiguousStorageIfAvailable { streamed.text(UnsafeRawBufferPointer($0)) }
        streamed.beginUpdate(key: 1, columns: 1)
        streamed.integer(5)
        streamed.columnIndex(1)
        streamed.real(2.5)
        [UInt8](repeating: 3, count: 40).withUnsafeBytes { streamed.blob($0) }
        streamed.beginTable(3)
        streamed.beginDelete(columns: 1)
        streamed.null()
        #expect(streamed.changeCount == 3)

        var whole = BodyEncoder(info: Samples.firstInfo)
        whole.beginTable(3)
        whole.insert([.integer(5), .text("abc")])
        whole.update(
            key: [.integer(5)], columns: [ColumnChange(column: 1, old: .real(2.5), new: .blob([UInt8](repeating: 3, count: 40)))])
        whole.delete([.null])
        #expect(streamed.finish() == whole.finish())
    }

    @Test func `a large body comes in pieces that make the same body`() throws {
        func encoder() -> BodyEncoder {
            var body = BodyEncoder(info: Samples.secondInfo)
            for table in [200, 3] {
                body.beginTable(table)
                for number in 0..<30_000 { body.insert([.integer(Int64(number)), .text("row \(number)")]) }
            }
            for entry in Samples.journal { body.journal(entry) }
            body.schema(Samples.schema)
            return body
        }
        var (whole, inPieces) = (encoder(), encoder())
        let byteCount = whole.byteCount
        let body = whole.finish()
        let pieces = inPieces.finishInPieces()
        #expect(pieces.count > 2 && pieces.allSatisfy { $0.count < 300_000 })
        #expect(Array(pieces.joined()) == body && body.count > byteCount)
        #expect(whole.byteCount == 0 && inPieces.byteCount == 0)

        var reader = try BodyReader(bytes: body)
        #expect(reader.tables == [3, 200])
        var change = WireChange()
        var count = 0
        while try reader.nextTable() != nil {
            while try reader.nextChange(into: &change) { count += 1 }
        }
        #expect(count == 60_000)
        #expect(try reader.journalEntries() == Samples.journal)
        #expect(try reader.schemaEntry() == Samples.schema)

        var small = BodyEncoder(info: Samples.secondInfo)
        #expect(small.finishInPieces().count == 1)
    }

    @Test func `an update's columns are put in order`() throws {
        var body = BodyEncoder(info: Samples.firstInfo)
        body.beginTable(1)
        let (first, second) = (ColumnChange(column: 1, old: .null, new: .integer(1)), ColumnChange(column: 7, old: .null, new: .integer(7)))
        body.update(key: [.integer(1)], columns: [second, first])
        let changes = try decodeChanges(body.finish())
        #expect(changes[0].changes == [MarkedChange(.update(key: [.integer(1)], columns: [first, second]))])
    }

    @Test func `a table that the head does not list is refused`() throws {
        var encoder = BodyEncoder(info: Samples.secondInfo)
        encoder.beginTable(5)
        encoder.insert([.integer(1)])
        var bytes = encoder.finish()
        // The last bytes: section, table 5, insert of one column, its value, end of changes, end of body.
        #expect(bytes.suffix(7) == [1, 5, 1, 1, 0x91, 0, 0])
        bytes[bytes.count - 6] = 6
        #expect(throws: WireError.badValue("table")) { try decodeChanges(bytes) }
    }

    @Test func `an empty body is its info`() throws {
        var encoder = BodyEncoder(info: Samples.firstInfo)
        var body = try BodyReader(bytes: encoder.finish())
        #expect(body.info == Samples.firstInfo)
        #expect(try body.nextTable() == nil)
        #expect(try body.schemaEntry() == nil)
    }
}
