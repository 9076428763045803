import AnnalsCore
import AnnalsWire
import Testing

@Suite struct ByteCodingTests {
    @Test(arguments: [0, 1, 127, 128, 300, 16_383, 16_384, UInt64(Int64.max), .max])
    func `a number comes back as it was`(number: UInt64) throws {
        var writer = ByteWriter()
        writer.varint(number)
        var reader = ByteReader(writer.bytes)
        #expect(try reader.readVarint() == number)
        #expect(reader.isAtEnd)
    }

    @Test(arguments: [0, -1, 1, 63, -64, 64, .max, .min] as [Int64])
    func `a signed number comes back as it was`(number: Int64) throws {
        var writer = ByteWriter()
        writer.zigzag(number)
        var reader = ByteReader(writer.bytes)
        #expect(try reader.readZigzag() == number)
    }

    @Test func `a number has one form only`() {
        for bytes: [UInt8] in [
            [0x80, 0x00], [0xff, 0x80, 0x00], [UInt8](repeating: 0xff, count: 10), [UInt8](repeating: 0x80, count: 12),
        ] {
            var reader = ByteReader(bytes)
            #expect(throws: WireError.badValue("number")) { try reader.readVarint() }
        }
    }

    @Test(arguments: [
        Value.null, .integer(0), .integer(-16), .integer(-17), .integer(111), .integer(112), .integer(.max), .integer(.min), .real(0),
        .real(-1.5), .real(.infinity), .real(-.infinity), .real(.greatestFiniteMagnitude), .text(""), .text("ä"),
        .text(String(repeating: "x", count: 63)), .text(String(repeating: "x", count: 64)), .text(ByteString([0xff, 0x00])), .blob([]),
        .blob([UInt8](repeating: 7, count: 31)), .blob([UInt8](repeating: 7, count: 32)),
    ])
    func `a value comes back with class and bytes`(value: Value) throws {
        var writer = ByteWriter()
        writer.value(value)
        var reader = ByteReader(writer.bytes)
        #expect(try reader.readValue() == value)
        #expect(reader.isAtEnd)
    }

    @Test func `negative zero is written as zero and what is no number as null`() throws {
        var writer = ByteWriter()
        writer.value(.real(-0.0))
        writer.value(.real(.nan))
        var reader = ByteReader(writer.bytes)
        let zero = try reader.readWireValue()
        #expect(zero == .real(0))
        if case .real(let real) = zero { #expect(real.sign == .plus) }
        #expect(try reader.readValue() == .null)
    }

    @Test func `a value has one form only`() {
        let long: [[UInt8]] = [
            [0x01, 0x00],  // zero in the long form
            [0x02, 0, 0, 0, 0, 0, 0, 0, 0x80],  // negative zero
            [0x02, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f],  // not a number
            [0x03, 0x01, 0x61], [0x04, 0x00], [0x05], [0x1f],
        ]
        for bytes in long {
            var reader = ByteReader(bytes)
            #expect(throws: WireError.badValue("value")) { try reader.readWireValue() }
        }
    }

    @Test func `a count beyond what can follow is refused before memory is set aside`() {
        var writer = ByteWriter()
        writer.varint(UInt64.max / 2)
        writer.bytes([1, 2, 3])
        var reader = ByteReader(writer.bytes)
        #expect(throws: WireError.truncated) { try reader.readCount() }
        reader = ByteReader(writer.bytes)
        #expect(throws: WireError.truncated) { try reader.readValues() }
    }

    @Test func `a range beyond the bytes is cut down to them`() {
        let reader = ByteReader([1, 2, 3], range: 2..<9)
        #expect(reader.remaining == 1)
        #expect(ByteReader([1, 2, 3], range: 7..<9).isAtEnd)
    }

    @Test func `a time beyond the limit is written as the limit`() throws {
        var writer = ByteWriter()
        writer.time(HybridTime(milliseconds: .max, counter: .max))
        writer.time(HybridTime(milliseconds: .min))
        var reader = ByteReader(writer.bytes)
        #expect(try reader.readTime() == HybridTime(milliseconds: WireLimits.maximumMilliseconds, counter: .max))
        #expect(try reader.readTime() == HybridTime(milliseconds: -WireLimits.maximumMilliseconds))
        writer = ByteWriter()
        writer.zigzag(.max)
        reader = ByteReader(writer.bytes)
        #expect(throws: WireError.badValue("time")) { try reader.readMilliseconds() }
    }
}
