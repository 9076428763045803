import AnnalsCore
import AnnalsWire
import Testing

@Suite struct FootprintTests {
    static let forms: [Footprint] = [
        Footprint(), .everything, Footprint(rules: 7, keyID: .max, everything: true),
        Footprint(groups: [.init(table: 1, writes: [1, 2, .max], reads: [0])]),
        Footprint(keyID: 9, groups: [.init(table: 0, writesWhole: true), .init(table: 5, readsWhole: true, writes: [4])]),
        Footprint(groups: [.init(table: 3, writesWhole: true, readsWhole: true)]),
    ]

    @Test(arguments: forms)
    func `a footprint comes back as it was`(footprint: Footprint) throws {
        #expect(footprint.isNormal)
        #expect(try Footprint.decode(footprint.encode()) == footprint)
    }

    @Test func `groups and hashes are put in order`() throws {
        let untidy = Footprint(groups: [
            .init(table: 9, writes: [3, 1, 3]), .init(table: 2, reads: [5]), .init(table: 9, readsWhole: true, writes: [2], reads: [8]),
            .init(table: 4),
        ])
        let tidy = Footprint(groups: [.init(table: 2, reads: [5]), .init(table: 9, readsWhole: true, writes: [1, 2, 3])])
        #expect(!untidy.isNormal)
        #expect(untidy.normalized() == tidy)
        #expect(try Footprint.decode(untidy.encode()) == tidy)
    }

    @Test func `disorder is refused`() {
        var writer = ByteWriter()
        writer.bytes([1, 0, 0, 1])
        writer.fixed64LE(1)
        writer.bytes([0, 2])
        writer.fixed64LE(2)
        writer.fixed64LE(1)
        writer.byte(0)
        #expect(throws: WireError.badValue("footprint")) { try Footprint.decode(writer.bytes) }
    }

    @Test func `writes meet writes and reads, reads meet only writes`() {
        let write = Footprint(groups: [.init(table: 1, writes: [5])])
        let read = Footprint(groups: [.init(table: 1, reads: [5])])
        let elsewhere = Footprint(groups: [.init(table: 2, writes: [5], reads: [5])])
        #expect(write.conflicts(with: write))
        #expect(write.conflicts(with: read))
        #expect(read.conflicts(with: write))
        #expect(!read.conflicts(with: read))
        #expect(!write.conflicts(with: elsewhere))
    }

    @Test func `what is within another touches nothing more`() {
        func footprint(writes: [UInt64] = [], reads: [UInt64] = [], wholly: Bool = false, table: UInt64 = 1) -> Footprint {
            Footprint(groups: [.init(table: table, writesWhole: wholly, writes: writes, reads: reads)])
        }
        let known = footprint(writes: [1, 2], reads: [3])
        for within in [Footprint(), known, footprint(writes: [2]), footprint(reads: [1, 3]), footprint(writes: [1], reads: [2, 3])] {
            #expect(within.isWithin(known), "\(within)")
            #expect(within.isWithin(.everything))
        }
        let more = [
            footprint(writes: [1, 4]), footprint(reads: [4]), footprint(writes: [3]), footprint(writes: [1], table: 2),
            footprint(reads: [3], table: 2), footprint(wholly: true), .everything, Footprint(rules: 2, groups: known.groups),
            Footprint(keyID: 7, groups: known.groups),
        ]
        for footprint in more { #expect(!footprint.isWithin(known), "\(footprint)") }
        #expect(known.isWithin(footprint(wholly: true)))
        let readWhole = Footprint(groups: [.init(table: 1, readsWhole: true)])
        #expect(!readWhole.isWithin(known) && readWhole.isWithin(footprint(wholly: true)))
        #expect(footprint(reads: [9]).isWithin(readWhole) && !footprint(writes: [9]).isWithin(readWhole))
    }

    @Test func `a whole table meets every hash of its group`() {
        let whole = Footprint(groups: [.init(table: 1, writesWhole: true)])
        let wholeRead = Footprint(groups: [.init(table: 1, readsWhole: true)])
        let write = Footprint(groups: [.init(table: 1, writes: [5])])
        let read = Footprint(groups: [.init(table: 1, reads: [5])])
        let other = Footprint(groups: [.init(table: 2, writes: [5])])
        for footprint in [whole, wholeRead, write, read] { #expect(whole.conflicts(with: footprint)) }
        #expect(wholeRead.conflicts(with: write))
        #expect(!wholeRead.conflicts(with: read))
        #expect(!wholeRead.conflicts(with: wholeRead))
        #expect(!whole.conflicts(with: other))
    }

    @Test func `everything, other rules and another key meet all`() {
        let nothing = Footprint()
        #expect(!nothing.conflicts(with: nothing))
        #expect(nothing.conflicts(with: .everything))
        #expect(nothing.conflicts(with: Footprint(rules: 2)))
        #expect(nothing.conflicts(with: Footprint(keyID: 1)))
    }
}
