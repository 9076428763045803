import AnnalsCore
import AnnalsMerge
import SeededRandom
import Testing

@Suite("Combining numbers") struct NumberCombinerTests {
    @Test(
        "sum adds both differences",
        arguments: [(10, 12, 15, 17), (10, 15, 15, 20), (0, -3, 4, 1), (5, 5, 9, 9), (5, 9, 5, 9)] as [(Int64, Int64, Int64, Int64)])
    func sum(base: Int64, stored: Int64, incoming: Int64, expected: Int64) {
        #expect(
            ColumnPolicy.sum.combine(base: .integer(base), stored: .integer(stored), incoming: .integer(incoming)) == .integer(expected))
    }

    @Test("sum stays exact beyond 2^53 and where only the difference overflows")
    func exactSum() {
        let large: Int64 = 9_007_199_254_740_993
        #expect(ColumnPolicy.sum.combine(base: .integer(0), stored: .integer(large), incoming: .integer(2)) == .integer(large + 2))
        #expect(ColumnPolicy.sum.combine(base: .integer(.min), stored: .integer(.min + 1), incoming: .integer(5)) == .integer(6))
    }

    @Test(
        "sum combines no overflow, no text, no NULL, nothing infinite, and nothing without a base",
        arguments: [
            (.integer(0), .integer(.max), .integer(1)), (.integer(.max), .integer(-2), .integer(.min)),
            (.integer(1), .text("2"), .integer(3)),
            (.null, .integer(1), .integer(2)), (.integer(1), .null, .integer(2)), (.real(0), .real(1e308), .real(1.5e308)),
            (.real(0), .real(.infinity), .real(1)), (nil, .integer(1), .integer(2)), (.blob([1]), .integer(1), .integer(2)),
        ] as [(Value?, Value, Value)])
    func noSum(base: Value?, stored: Value, incoming: Value) {
        #expect(ColumnPolicy.sum.combine(base: base, stored: stored, incoming: incoming) == nil)
    }

    @Test("sum of integers is symmetric, and where one side is unchanged it is the other")
    func sumProperties() {
        Seeds.each(500) { seed, random in
            func value() -> Int64 { .random(in: -1_000_000...1_000_000, using: &random) }
            let (base, stored, incoming) = (Value.integer(value()), Value.integer(value()), Value.integer(value()))
            let sum = ColumnPolicy.sum.combine(base: base, stored: stored, incoming: incoming)
            #expect(sum == ColumnPolicy.sum.combine(base: base, stored: incoming, incoming: stored), "ANNALS_SEED=\(seed)")
            #expect(ColumnPolicy.sum.combine(base: base, stored: stored, incoming: base) == stored, "ANNALS_SEED=\(seed)")
            #expect(ColumnPolicy.sum.combine(base: base, stored: base, incoming: incoming) == incoming, "ANNALS_SEED=\(seed)")
        }
    }

    @Test("sum of reals keeps the other side exactly where one is unchanged")
    func realSum() {
        #expect(ColumnPolicy.sum.combine(base: .real(0.1), stored: .real(0.1), incoming: .real(0.3)) == .real(0.3))
        #expect(ColumnPolicy.sum.combine(base: .real(1), stored: .real(2.5), incoming: .integer(3)) == .real(4.5))
    }

    @Test("min and max compare as SQLite does, also an integer with a real that cannot hold it")
    func extremes() {
        let large: Int64 = 9_007_199_254_740_993
        let real = Double(9_007_199_254_740_992)
        func both(_ a: Value, _ b: Value) -> [Value?] {
            [
                ColumnPolicy.min.combine(base: .integer(0), stored: a, incoming: b),
                ColumnPolicy.max.combine(base: .integer(0), stored: a, incoming: b),
            ]
        }
        #expect(both(.integer(3), .integer(7)) == [.integer(3), .integer(7)])
        #expect(both(.integer(large), .real(real)) == [.real(real), .integer(large)])
        #expect(both(.integer(.max), .real(0x1p63)) == [.integer(.max), .real(0x1p63)])
        #expect(both(.real(-0x1p63), .integer(.min + 1)) == [.real(-0x1p63), .integer(.min + 1)])
        #expect(both(.integer(1), .real(1.5)) == [.integer(1), .real(1.5)])
        #expect(both(.integer(-1), .real(-1.5)) == [.real(-1.5), .integer(-1)])
        #expect(both(.integer(9), .text("1")) == [.integer(9), .text("1")])
        #expect(both(.text("b"), .text("B")) == [.text("B"), .text("b")])
        #expect(both(.text("z"), .blob([0])) == [.text("z"), .blob([0])])
        #expect(both(.null, .integer(1)) == [nil, nil])
    }

    @Test("Of two equal numbers the stored one stays")
    func equalExtremes() {
        #expect(ColumnPolicy.min.combine(base: nil, stored: .integer(1), incoming: .real(1)) == .integer(1))
        #expect(ColumnPolicy.max.combine(base: nil, stored: .real(1), incoming: .integer(1)) == .real(1))
    }

    @Test(
        "Names of policies are read as they are written",
        arguments: ["lastWriterWins", "mergeByPropertyStoreTrump", "sum", "sql: :stored + 1"])
    func names(name: String) {
        #expect(ColumnPolicy(name)?.description == name)
        #expect(ColumnPolicy("sql:") == nil && ColumnPolicy("Sum") == nil)
        #expect(RowPolicy("custom: mine")?.description == "custom: mine" && RowPolicy("custom:") == nil)
    }
}
