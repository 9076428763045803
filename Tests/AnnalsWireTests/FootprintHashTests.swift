import AnnalsCore
import AnnalsWire
import Testing

@Suite struct FootprintHashTests {
    static let key = FootprintKey(id: 9, low: 0x0706_0504_0302_0100, high: 0x0f0e_0d0c_0b0a_0908)
    let hash = FootprintHash(key: key)

    @Test func `SipHash gives its authors' values, however the bytes come`() {
        // From the paper's appendix: key 00…0f, input 00…0e; and the empty input from its reference program.
        let input = (UInt8(0)..<15).map { $0 }
        for cut in 0...input.count {
            var state = SipHash(key: (Self.key.low, Self.key.high))
            input[..<cut].withUnsafeBytes { state.update($0) }
            input[cut...].withUnsafeBytes { state.update($0) }
            #expect(state.finish() == 0xa129_ca61_49be_45e5)
        }
        #expect(SipHash(key: (Self.key.low, Self.key.high)).finish() == 0x726f_db47_dd0e_0e31)
    }

    @Test func `the hash is that of the bytes the format names`() {
        var writer = ByteWriter()
        writer.byte(3)
        writer.string("people")
        writer.varint(2)
        writer.string("name")
        writer.string("team")
        for value in [Value.text("Zoë"), .integer(7)] { writer.value(value) }
        var state = SipHash(key: (Self.key.low, Self.key.high))
        state.update(writer.bytes)
        #expect(hash.tupleHash(table: "people", columns: ["name", "team"], values: [.text("Zoë"), .integer(7)]) == state.finish())
    }

    @Test func `every value is hashed as bodies hold it`() {
        for value in Samples.everyValue {
            if case .real(let real) = value, Int64(exactly: real) != nil { continue }
            var writer = ByteWriter()
            writer.byte(2)
            writer.string("t")
            writer.value(value)
            var state = SipHash(key: (Self.key.low, Self.key.high))
            state.update(writer.bytes)
            #expect(hash.rowHash(table: "t", key: [value]) == state.finish(), "\(value)")
        }
    }

    @Test func `an index is its columns in any order, and names are folded`() {
        let one = hash.tupleHash(table: "Seats", columns: ["Row", "hall"], values: [.integer(1), .text("blue")])
        let other = hash.tupleHash(table: "seats", columns: ["HALL", "row"], values: [.text("blue"), .integer(1)])
        #expect(one == other)
        #expect(hash.indexHash(table: "seats", columns: ["row", "hall"]) == hash.indexHash(table: "SEATS", columns: ["hall", "Row"]))
        #expect(hash.tableHash("Größe") != hash.tableHash("GRÖSSE"))
    }

    @Test func `a real that is an integer hashes as that integer`() {
        func row(_ value: Value) -> UInt64 { hash.rowHash(table: "t", key: [value]) }
        #expect(row(.real(7)) == row(.integer(7)))
        #expect(row(.real(-0.0)) == row(.integer(0)))
        #expect(row(.real(-9_223_372_036_854_775_808)) == row(.integer(.min)))
        #expect(row(.real(9_223_372_036_854_775_808)) != row(.integer(.max)))
        #expect(row(.real(7.5)) != row(.integer(7)))
        #expect(row(.text("7")) != row(.integer(7)))
        #expect(row(.text("7")) != row(.blob(Array("7".utf8))))
    }

    @Test func `kinds, tables, columns and keys are told apart`() {
        let id = TransactionID(high: 1, low: 2)
        let hashes = [
            hash.tableHash("a"), hash.tableHash("b"), hash.rowHash(table: "a", key: [.integer(1)]),
            hash.rowHash(table: "b", key: [.integer(1)]), hash.tupleHash(table: "a", columns: ["x"], values: [.integer(1)]),
            hash.tupleHash(table: "a", columns: ["y"], values: [.integer(1)]), hash.indexHash(table: "a", columns: ["x"]),
            hash.idHash(id), hash.transactionGroup, hash.schemaHash, hash.conflictGroup, FootprintHash().tableHash("a"),
            hash.rowHash(table: "a", key: [.text("x"), .text("yz")]), hash.rowHash(table: "a", key: [.text("xy"), .text("z")]),
        ]
        #expect(Set(hashes).count == hashes.count)
    }
}
