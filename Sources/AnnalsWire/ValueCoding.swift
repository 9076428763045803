package import AnnalsCore

/// The first byte of a value. It states the storage class. For a small integer it also contains the value, and for a
/// short text or blob the length.
enum ValueTag {
    static let null: UInt8 = 0x00
    static let integer: UInt8 = 0x01
    static let real: UInt8 = 0x02
    static let text: UInt8 = 0x03
    static let blob: UInt8 = 0x04
    /// 0x20…0x3f: a blob of 0…31 bytes, so that a UUID fits.
    static let shortBlob: UInt8 = 0x20
    /// 0x40…0x7f: a text of 0…63 bytes.
    static let shortText: UInt8 = 0x40
    /// 0x80…0xff: the integers −16…111.
    static let smallInteger: UInt8 = 0x80

    static let smallestSmall: Int64 = -16
    static let largestSmall: Int64 = 111
    static let shortBlobBytes = 31
    static let shortTextBytes = 63
}

/// A value in encoded bytes, without a copy. The ranges refer to the reader's bytes.
package enum WireValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text(Range<Int>)
    case blob(Range<Int>)
}

extension ByteWriter {
    package mutating func value(_ value: Value) {
        switch value {
        case .null: null()
        case .integer(let integer): self.integer(integer)
        case .real(let real): self.real(real)
        case .text(let text): text.bytes.withUnsafeBytes { self.text($0) }
        case .blob(let blob): blob.bytes.withUnsafeBytes { self.blob($0) }
        }
    }

    /// The count, then the values.
    package mutating func values(_ values: [Value]) {
        varint(values.count)
        for value in values { self.value(value) }
    }

    package mutating func null() {
        byte(ValueTag.null)
    }

    package mutating func integer(_ value: Int64) {
        if value >= ValueTag.smallestSmall, value <= ValueTag.largestSmall {
            byte(ValueTag.smallInteger + UInt8(truncatingIfNeeded: value - ValueTag.smallestSmall))
        } else {
            byte(ValueTag.integer)
            zigzag(value)
        }
    }

    /// Negative zero becomes zero, and NaN becomes NULL, as in SQLite.
    package mutating func real(_ value: Double) {
        if value.isNaN {
            null()
        } else {
            byte(ValueTag.real)
            fixed64LE((value + 0).bitPattern)
        }
    }

    package mutating func text(_ content: UnsafeRawBufferPointer) {
        self.content(content, ValueTag.text, short: ValueTag.shortText, upTo: ValueTag.shortTextBytes)
    }

    package mutating func blob(_ content: UnsafeRawBufferPointer) {
        self.content(content, ValueTag.blob, short: ValueTag.shortBlob, upTo: ValueTag.shortBlobBytes)
    }

    private mutating func content(_ content: UnsafeRawBufferPointer, _ tag: UInt8, short: UInt8, upTo shortBytes: Int) {
        if content.count <= shortBytes {
            byte(short + UInt8(truncatingIfNeeded: content.count))
        } else {
            byte(tag)
            varint(content.count)
        }
        bytes(content)
    }
}

extension ByteReader {
    package mutating func readValue() throws(WireError) -> Value {
        value(try readWireValue())
    }

    /// A count, then the values. The count is limited to the maximum of one row.
    package mutating func readValues() throws(WireError) -> [Value] {
        let count = try readColumnCount()
        var values: [Value] = []
        for _ in 0..<count { values.append(try readValue()) }
        return values
    }

    package mutating func readWireValue() throws(WireError) -> WireValue {
        let tag = try readByte()
        if tag >= ValueTag.smallInteger { return .integer(Int64(tag - ValueTag.smallInteger) + ValueTag.smallestSmall) }
        if tag >= ValueTag.shortText { return .text(try readRange(Int(tag - ValueTag.shortText))) }
        if tag >= ValueTag.shortBlob { return .blob(try readRange(Int(tag - ValueTag.shortBlob))) }
        switch tag {
        case ValueTag.null: return .null
        case ValueTag.integer: return .integer(try readLongInteger())
        case ValueTag.real: return .real(try readReal())
        case ValueTag.text:
            let range = try readLengthPrefixed()
            guard range.count > ValueTag.shortTextBytes else { throw .badValue("value") }
            return .text(range)
        case ValueTag.blob:
            let range = try readLengthPrefixed()
            guard range.count > ValueTag.shortBlobBytes else { throw .badValue("value") }
            return .blob(range)
        default: throw .badValue("value")
        }
    }

    /// The value, copied from the bytes.
    package func value(_ value: WireValue) -> Value {
        switch value {
        case .null: .null
        case .integer(let integer): .integer(integer)
        case .real(let real): .real(real)
        case .text(let range): .text(ByteString(Array(bytes[range])))
        case .blob(let range): .blob(ByteString(Array(bytes[range])))
        }
    }

    private mutating func readLongInteger() throws(WireError) -> Int64 {
        let integer = try readZigzag()
        guard integer < ValueTag.smallestSmall || integer > ValueTag.largestSmall else { throw .badValue("value") }
        return integer
    }

    private mutating func readReal() throws(WireError) -> Double {
        let real = Double(bitPattern: try readFixed64LE())
        guard !real.isNaN, real != 0 || real.sign == .plus else { throw .badValue("value") }
        return real
    }
}

extension UnsafeRawBufferPointer {
    /// A value copied out of a body's bytes.
    package func value(_ value: WireValue) -> Value {
        switch value {
        case .null: .null
        case .integer(let integer): .integer(integer)
        case .real(let real): .real(real)
        case .text(let range): .text(ByteString(UnsafeRawBufferPointer(rebasing: self[range])))
        case .blob(let range): .blob(ByteString(UnsafeRawBufferPointer(rebasing: self[range])))
        }
    }
}
