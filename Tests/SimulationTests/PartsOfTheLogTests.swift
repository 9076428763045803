import AnnalsCore
import AnnalsWire
import Testing

@testable import Simulation

/// Transactions in parts, as the oracle reads them.
@Suite("The oracle sees parts that are no whole")
struct PartsOfTheLogTests {
    typealias Small = SmallSchema

    private func law(_ frames: [LogFrame]) throws -> String? {
        var oracle = try Oracle(schema: Small.schema, rows: Rows())
        return #expect(throws: Violation.self) { try oracle.absorb(frames) }?.law
    }

    @Test("A transaction in parts takes effect with the last of them")
    func whole() throws {
        var oracle = try Oracle(schema: Small.schema, rows: Rows())
        try oracle.absorb(Small.parts(from: 1, transaction: 1, inserting: ["a", "b", "c"]))
        #expect((0...3).map { oracle.rows(at: $0).rows(of: "t1").count } == [0, 0, 0, 3])
        #expect((0...3).map { oracle.isInside($0) } == [false, true, true, false])
        #expect((1...3).map { oracle.entry(at: $0).span } == [1...3, 1...3, 1...3])
        #expect(oracle.position(of: Small.identifier(1)) == 3)
        #expect(oracle.entry(at: 3).changes.count == 3 && oracle.entry(at: 2).changes.isEmpty)
    }

    @Test("Parts that are given to the log one by one, in another order, or with others between are told")
    func divided() throws {
        let parts = try Small.parts(from: 1, transaction: 1, inserting: ["a", "b", "c"])
        let other = try Small.frame(2, transaction: 2, inserting: [[.text("d"), .integer(1), .null]])
        #expect(try law([parts[0]]) == "law 6")
        #expect(try law(Array(parts.dropLast())) == "law 6")
        #expect(try law([parts[0], other]) == "law 6")
        #expect(try law([parts[1]]) == "law 6")
        #expect(try law([parts[0], parts[2]]) == "law 6")
    }

    @Test("Parts of different transactions, digests or bases are told")
    func mixed() throws {
        let parts = try Small.parts(from: 1, transaction: 1, inserting: ["a", "b"])
        let digest = try BatchHeader.parse(parts[0].batch).certificates[0].digest
        let last = BatchPart(number: 1, count: 2)
        let wrong = [
            try Small.frame(2, transaction: 2, inserting: [[.text("b"), .integer(1), .null]], part: last, after: digest),
            try Small.frame(2, transaction: 1, inserting: [[.text("b"), .integer(1), .null]], part: last),
            try Small.frame(2, transaction: 1, inserting: [[.text("b"), .integer(1), .null]], part: last, base: 1, after: digest),
        ]
        for frame in wrong { #expect(try law([parts[0], frame]) == "law 6") }
    }

    @Test("Parts that a replica keeps are told where they are no beginning, have others between them, or do not follow its position")
    func kept() throws {
        var oracle = try Oracle(schema: Small.schema, rows: Rows())
        try oracle.absorb([Small.frame(1, transaction: 1, inserting: [[.text("z"), .integer(1), .null]])])
        try oracle.absorb(Small.parts(from: 2, transaction: 2, inserting: ["a", "b", "c"]))
        try oracle.absorb(Small.parts(from: 5, transaction: 3, inserting: ["d", "e"]))
        for (kept, position) in [([2], 1), ([2, 3], 1), ([5], 4)] as [([Int64], Int64)] {
            #expect(oracle.isBeginning(kept, after: position))
        }
        for (kept, position) in [
            ([], 1), ([2, 3, 4], 1), ([3], 1), ([2], 3), ([2, 3, 4, 5], 4), ([2, 3, 4, 5], 1), ([3], 2), ([1], 0), ([7], 6), ([1, 2], 0),
        ] as [([Int64], Int64)] {
            #expect(!oracle.isBeginning(kept, after: position), "\(kept) after \(position)")
        }
    }

    @Test("Two logs are the same up to where they part")
    func same() throws {
        var one = try Oracle(schema: Small.schema, rows: Rows())
        try one.absorb([Small.frame(1, transaction: 1, inserting: [[.text("z"), .integer(1), .null]])])
        var other = one
        try one.absorb([Small.frame(2, transaction: 2, inserting: [[.text("a"), .integer(1), .null]])])
        #expect(one.isSame(as: other, upTo: 1) && !one.isSame(as: other, upTo: 2))
        try other.absorb([Small.frame(2, transaction: 3, inserting: [[.text("a"), .integer(1), .null]])])
        #expect(one.isSame(as: other, upTo: 0) && one.isSame(as: other, upTo: 1) && !one.isSame(as: other, upTo: 2))
    }
}
