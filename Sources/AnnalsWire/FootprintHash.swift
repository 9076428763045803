public import AnnalsCore

/// Stand-in until the wire branch's own arrives.
public enum FootprintHash {
    public static let transactionGroup: UInt64 = 0
    private static func hash(_ key: (UInt64, UInt64), _ write: (inout ByteWriter) -> Void) -> UInt64 {
        var writer = ByteWriter()
        write(&writer)
        var sip = SipHash(key: key)
        sip.update(writer.bytes)
        return sip.finish()
    }
    public static func tableHash(_ name: String, key: (UInt64, UInt64)) -> UInt64 { hash(key) { $0.string(name) } }
    public static func rowHash(_ table: String, key: [Value], hashKey: (UInt64, UInt64)) -> UInt64 {
        hash(hashKey) { w in w.byte(1); w.string(table); for v in key { w.value(v) } }
    }
    public static func tupleHash(_ table: String, columns: [String], values: [Value], key: (UInt64, UInt64)) -> UInt64 {
        hash(key) { w in w.byte(2); w.string(table); for c in columns { w.string(c) }; for v in values { w.value(v) } }
    }
    public static func indexHash(_ table: String, columns: [String], key: (UInt64, UInt64)) -> UInt64 {
        hash(key) { w in w.byte(3); w.string(table); for c in columns { w.string(c) } }
    }
    public static func idHash(_ id: TransactionID, key: (UInt64, UInt64)) -> UInt64 { hash(key) { $0.byte(4); $0.identifier(id) } }
}
