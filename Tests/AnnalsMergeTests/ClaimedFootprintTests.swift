import AnnalsCore
import AnnalsMerge
import AnnalsWire
import SeededRandom
import Testing

/// A footprint holds where it claims all that a transaction touches, and no longer where it claims one hash less.
@Suite struct ClaimedFootprintTests {
    /// A table with a key of two columns, a unique index that folds case, one that cannot be hashed, and two references.
    static let child = FootprintRules(
        table: "child",
        key: .init(
            columnIndexes: [1, 0], columns: [.init(name: "b", affinity: .real), .init(name: "a", affinity: .text, collation: .rTrim)]),
        uniques: [
            .init(
                columnIndexes: [2, 3],
                columns: [.init(name: "c", affinity: .text, collation: .noCase), .init(name: "d", affinity: .integer)]),
            .init(columnIndexes: [4], columns: [.init(name: "lower(e)", affinity: .blob)], isCoarse: true, coarseColumns: [4]),
        ],
        references: [
            .init(columnIndexes: [3], parentTable: "parent", parentColumns: [.init(name: "id", affinity: .integer)]),
            .init(columnIndexes: [4], parentTable: "child", parentColumns: [.init(name: "c", affinity: .text, collation: .noCase)]),
        ])
    static let parent = FootprintRules(
        table: "parent", key: .init(columnIndexes: [0], columns: [.init(name: "id", affinity: .integer)]), uniques: [], references: [])

    typealias Change = (rules: FootprintRules, old: [Value]?, new: [Value]?)

    static func value(_ random: inout SeededGenerator) -> Value {
        switch Int.random(in: 0..<6, using: &random) {
        case 0: .null
        case 1: .integer(.random(in: -3...3, using: &random))
        case 2: .real(Double(Int.random(in: -6...6, using: &random)) / 2)
        case 3: .text(ByteString(["a", "A", "a ", "1", " 1.0 ", "2.5"].randomElement(using: &random) ?? ""))
        case 4: .blob(ByteString([0, 1, 255].shuffled(using: &random)))
        default: .integer(.random(in: .min ... .max, using: &random))
        }
    }

    static func changes(_ random: inout SeededGenerator) -> [Change] {
        (0..<Int.random(in: 1...12, using: &random)).map { _ in
            let rules = Bool.random(using: &random) ? child : parent
            let columns = rules.table == "child" ? 6 : 2
            func row() -> [Value] { (0..<columns).map { _ in value(&random) } }
            let old = row()
            switch Int.random(in: 0..<4, using: &random) {
            case 0: return (rules, nil, old)
            case 1: return (rules, old, nil)
            case 2: return (rules, old, row())
            default:
                var new = old
                new[Int.random(in: 0..<columns, using: &random)] = value(&random)
                return (rules, old, new)
            }
        }
    }

    static func footprint(_ changes: [Change], _ id: TransactionID, _ key: FootprintKey) -> Footprint {
        var builder = FootprintBuilder(transaction: id, key: key)
        for change in changes { builder.add(change.rules, old: change.old, new: change.new) }
        return builder.finish()
    }

    static func holds(_ claimed: Footprint, _ changes: [Change], _ id: TransactionID, _ key: FootprintKey) throws -> Bool {
        let claim = try #require(ClaimedFootprint(claimed, of: id, key: key))
        let hashers = [child, parent].map { TableHasher($0, key) }
        for change in changes { claim.note(hashers[change.rules.table == "child" ? 0 : 1], change.old, change.new) }
        return claim.holds
    }

    /// The same footprint without one of its hashes or flags, for each of them.
    static func less(_ footprint: Footprint) -> [Footprint] {
        var all: [Footprint] = []
        for (index, group) in footprint.groups.enumerated() {
            func add(_ change: (inout Footprint.Group) -> Void) {
                var copy = footprint
                change(&copy.groups[index])
                all.append(copy)
            }
            for place in group.writes.indices { add { $0.writes.remove(at: place) } }
            for place in group.reads.indices where !group.writes.contains(group.reads[place]) { add { $0.reads.remove(at: place) } }
            if group.writesWhole { add { $0.writesWhole = false } }
            if group.readsWhole && !group.writesWhole { add { $0.readsWhole = false } }
        }
        return all
    }

    @Test func `what an honest author claims holds, and one hash less does not`() throws {
        try Seeds.each(300) { seed, random throws in
            let id = TransactionID.random()
            let key = Bool.random(using: &random) ? .none : FootprintKey(id: 7, low: .random(in: 0 ... .max, using: &random), high: 2)
            let changes = Self.changes(&random)
            let honest = Self.footprint(changes, id, key)
            #expect(try Self.holds(honest, changes, id, key), "seed \(seed)")
            for less in Self.less(honest) {
                let holds = try Self.holds(less, changes, id, key)
                #expect(!holds, "seed \(seed): \(less)")
                #expect(!honest.isWithin(less), "seed \(seed)")
            }
        }
    }

    @Test func `of more rows than a footprint names the whole table is claimed`() throws {
        let changes: [Change] = (0...Footprint.hashesPerTable).map { (Self.parent, nil, [.integer(Int64($0)), .null]) }
        let id = TransactionID.random()
        let honest = Self.footprint(changes, id, .none)
        #expect(honest.groups.contains { $0.writesWhole })
        #expect(try Self.holds(honest, changes, id, .none))
        for less in Self.less(honest) { #expect(try Self.holds(less, changes, id, .none) == false) }
    }

    @Test func `a footprint is of its transaction alone, and one under another key or rule meets everything`() throws {
        let id = TransactionID.random()
        let honest = Self.footprint([], id, .none)
        #expect(try Self.holds(honest, [], id, .none))
        #expect(try Self.holds(honest, [], .random(), .none) == false)
        #expect(ClaimedFootprint(.everything, of: id, key: .none) == nil)
        #expect(ClaimedFootprint(honest, of: id, key: FootprintKey(id: 1, low: 0, high: 0)) == nil)
    }
}
