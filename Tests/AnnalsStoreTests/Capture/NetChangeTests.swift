import AnnalsCore
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsSchema
@testable import AnnalsStore

/// Rows are (key, value). The ids of the raw changes are their indexes.
@Suite("Raw changes become net changes")
struct NetChangeTests {
    typealias Pair = (Int64, String)

    private func row(_ pair: Pair?) -> [Value]? {
        pair.map { [.integer($0.0), .text($0.1)] }
    }

    private func change(_ old: Pair?, _ new: Pair?) -> NetChange {
        NetChange(old: row(old), new: row(new))
    }

    private func fold(_ steps: [(Pair?, Pair?)], order: RawChangeOrder = .asHappened) -> [NetChange] {
        var folder = NetChangeFolder(IdentityRule(key: [0], collations: ["BINARY"]), order: order)
        for (index, step) in steps.enumerated() {
            folder.add(RawChange(id: Int64(index + 1), old: row(step.0), new: row(step.1)))
        }
        return folder.finish()
    }

    @Test func oneRawChangeIsTheNetChange() {
        #expect(fold([(nil, (1, "a"))]) == [change(nil, (1, "a"))])
        #expect(fold([((1, "a"), (1, "b"))]) == [change((1, "a"), (1, "b"))])
        #expect(fold([((1, "a"), nil)]) == [change((1, "a"), nil)])
        #expect(fold([((1, "a"), (2, "a"))]) == [change((1, "a"), (2, "a"))])
    }

    @Test func firstOldAndLastNewValuesRemain() {
        #expect(fold([((1, "a"), (1, "b")), ((1, "b"), (1, "c"))]) == [change((1, "a"), (1, "c"))])
        #expect(fold([(nil, (1, "a")), ((1, "a"), (1, "b"))]) == [change(nil, (1, "b"))])
        #expect(fold([((1, "a"), (1, "b")), ((1, "b"), nil)]) == [change((1, "a"), nil)])
    }

    @Test func whatCancelsOutIsNoChange() {
        #expect(fold([((1, "a"), (1, "b")), ((1, "b"), (1, "a"))]).isEmpty)
        #expect(fold([(nil, (1, "a")), ((1, "a"), nil)]).isEmpty)
        #expect(fold([((1, "a"), nil), (nil, (1, "a"))]).isEmpty)
        #expect(fold([((1, "a"), (2, "a")), ((2, "a"), (1, "a"))]).isEmpty)
    }

    @Test func aDeleteAndAnInsertOfOneKeyAreAnUpdate() {
        #expect(fold([((1, "a"), nil), (nil, (1, "b"))]) == [change((1, "a"), (1, "b"))])
        #expect(fold([((1, "a"), (2, "a")), ((2, "a"), nil), (nil, (1, "b"))]) == [change((1, "a"), (1, "b"))])
    }

    @Test func chainsOfKeyChangesAreOneMove() {
        #expect(fold([((1, "a"), (2, "a")), ((2, "a"), (3, "b")), ((3, "b"), (3, "c"))]) == [change((1, "a"), (3, "c"))])
        #expect(fold([(nil, (1, "a")), ((1, "a"), (2, "a"))]) == [change(nil, (2, "a"))])
        #expect(fold([((1, "a"), (2, "a")), ((2, "a"), nil)]) == [change((1, "a"), nil)])
    }

    @Test func aSwapOfKeysIsTwoMoves() {
        let steps: [(Pair?, Pair?)] = [((1, "a"), (9, "a")), ((2, "b"), (1, "b")), ((9, "a"), (2, "a"))]
        #expect(Set(fold(steps)) == [change((1, "a"), (2, "a")), change((2, "b"), (1, "b"))])
    }

    @Test func aKeyLeftBehindCanBeTakenByANewRow() {
        let steps: [(Pair?, Pair?)] = [((1, "a"), (2, "a")), (nil, (1, "new"))]
        #expect(Set(fold(steps)) == [change((1, "a"), (2, "a")), change(nil, (1, "new"))])
        let onto: [(Pair?, Pair?)] = [((2, "b"), nil), ((1, "a"), (2, "a"))]
        #expect(Set(fold(onto)) == [change((2, "b"), nil), change((1, "a"), (2, "a"))])
    }

    @Test func aTriggerThatRanBeforeOursIsPutRight() {
        // AFTER INSERT … UPDATE, nested twice; AFTER UPDATE … UPDATE; AFTER DELETE … INSERT.
        #expect(fold([((1, "b"), (1, "c")), ((1, "a"), (1, "b")), (nil, (1, "a"))]) == [change(nil, (1, "c"))])
        #expect(fold([((1, "b"), (1, "c")), ((1, "a"), (1, "b"))]) == [change((1, "a"), (1, "c"))])
        #expect(fold([(nil, (1, "b")), ((1, "a"), nil)]) == [change((1, "a"), (1, "b"))])
        #expect(fold([((1, "a"), nil), (nil, (1, "a"))], order: .unknown).isEmpty)
    }

    @Test func aBeforeTriggerThatChangesTheSameRowIsFollowed() {
        let wide: ([String]) -> [Value] = { [.integer(1)] + $0.map { Value.text($0) } }
        var folder = NetChangeFolder(IdentityRule(key: [0], collations: ["BINARY"]))
        // The trigger writes the second column. SQLite reads the new value again, but not the old one.
        folder.add(RawChange(id: 1, old: wide(["a", "x"]), new: wide(["a", "stamp"])))
        folder.add(RawChange(id: 2, old: wide(["a", "x"]), new: wide(["b", "stamp"])))
        #expect(folder.finish() == [NetChange(old: wide(["a", "x"]), new: wide(["b", "stamp"]))])
        #expect(fold([((1, "a"), (1, "stamp")), ((1, "a"), nil)]) == [change((1, "a"), nil)])
        #expect(fold([(nil, (1, "a")), ((1, "a"), (1, "stamp")), ((1, "a"), (1, "b")), ((1, "b"), nil)]).isEmpty)
    }

    @Test func anEvictionStandsWhereItHappened() {
        var folder = NetChangeFolder(IdentityRule(key: [0], collations: ["BINARY"]))
        folder.add(RawChange(id: 1, old: nil, new: row((1, "b"))))
        folder.add(RawChange(id: 2, old: row((1, "b")), new: row((1, "a"))))
        folder.add(RawChange(id: 3, old: row((1, "a")), new: nil, precedes: 1))
        #expect(folder.finish().isEmpty)
        folder.add(RawChange(id: 1, old: nil, new: row((1, "a"))))
        folder.add(RawChange(id: 2, old: row((1, "a")), new: row((1, "b"))))
        folder.add(RawChange(id: 3, old: row((1, "a")), new: nil, precedes: 1))
        #expect(folder.finish() == [change((1, "a"), (1, "b"))])
    }

    @Test func keysThatTheIndexTakesForEqualAreOneRow() {
        let rule = IdentityRule(key: [0], collations: ["nocase"])
        var folder = NetChangeFolder(rule)
        folder.add(RawChange(id: 1, old: [.text("ab")], new: nil))
        folder.add(RawChange(id: 2, old: nil, new: [.text("AB")]))
        #expect(folder.finish() == [NetChange(old: [.text("ab")], new: [.text("AB")])])
        #expect(rule.identity(of: [.text("Ä")]) != rule.identity(of: [.text("ä")]))
        let trimmed = IdentityRule(key: [0], collations: ["RTRIM"])
        #expect(trimmed.identity(of: [.text("a  ")]) == trimmed.identity(of: [.text("a")]))
        #expect(trimmed.identity(of: [.text("   ")]) == trimmed.identity(of: [.text("")]))
        #expect(trimmed.identity(of: [.real(2)]) == trimmed.identity(of: [.integer(2)]))
        #expect(trimmed.identity(of: [.real(2.5)]) != trimmed.identity(of: [.integer(2)]))
        #expect(trimmed.identity(of: [.real(9.223372036854775807e18)]) != trimmed.identity(of: [.integer(.max)]))
        #expect(trimmed.identity(of: [.text("1")]) != trimmed.identity(of: [.integer(1)]))
        #expect(trimmed.identity(of: [.null], rowid: 1) != trimmed.identity(of: [.null], rowid: 2))
    }

    @Test func aNetChangeTellsTheColumnsThatDiffer() {
        #expect(change(nil, (1, "a")).rowChange(key: [0]) == .insert([.integer(1), .text("a")]))
        #expect(change((1, "a"), nil).rowChange(key: [0]) == .delete([.integer(1), .text("a")]))
        #expect(change((1, "a"), (1, "a")).rowChange(key: [0]) == nil)
        #expect(
            change((1, "a"), (2, "a")).rowChange(key: [0])
                == .update(key: [.integer(1)], columns: [ColumnChange(column: 0, old: .integer(1), new: .integer(2))]))
    }

    /// The result of the steps of a path does not depend on their order.
    @Test(arguments: 0..<80 as Range<UInt64>)
    func theEndsOfAPathDoNotDependOnTheOrderOfItsSteps(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var steps: [(Pair?, Pair?)] = []
        var expected: [NetChange] = []
        for key in 1...3 as ClosedRange<Int64> {
            let states: [Pair?] = [nil, (key, "a"), (key, "b"), (key, "c")]
            let path = (0...Int.random(in: 1...8, using: &generator)).map { _ in Int.random(in: 0...3, using: &generator) }
            let own = zip(path, path.dropFirst()).filter { $0 != $1 }.map { (states[$0], states[$1]) }
            steps += own.shuffled(using: &generator)
            if path.first != path.last { expected.append(change(states[path[0]], states[path[path.count - 1]])) }
        }
        #expect(Set(fold(steps, order: .unknown)) == Set(expected), "seed \(seed)")
    }

    /// Writes in order, with moves between keys, compared with a simple model of the rows.
    @Test(arguments: 0..<80 as Range<UInt64>)
    func randomWritesInOrderGiveTheDifference(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var rows: [Int64: String] = [1: "a", 2: "b", 3: "c"]
        var life: [Int64: Int] = [1: 1, 2: 2, 3: 3]
        let before = rows
        let lifeBefore = life
        var steps: [(Pair?, Pair?)] = []
        for step in 0..<Int.random(in: 1...30, using: &generator) {
            let key = Int64.random(in: 1...6, using: &generator)
            let value = ["a", "b", "c"].randomElement(using: &generator) ?? ""
            guard let old = rows[key] else {
                steps.append((nil, (key, value)))
                rows[key] = value
                life[key] = 100 + step
                continue
            }
            switch Int.random(in: 0...2, using: &generator) {
            case 0:
                steps.append(((key, old), nil))
                rows[key] = nil
                life[key] = nil
            case 1 where old != value:
                steps.append(((key, old), (key, value)))
                rows[key] = value
            default:
                let free = Int64.random(in: 1...6, using: &generator)
                guard rows[free] == nil else { continue }
                steps.append(((key, old), (free, value)))
                (rows[key], rows[free]) = (nil, value)
                (life[key], life[free]) = (nil, life[key])
            }
        }
        let changes = fold(steps)
        var result = before
        for change in changes { if case .integer(let key)? = change.old?[0] { result[key] = nil } }
        for change in changes {
            if case .integer(let key)? = change.new?[0], case .text(let text)? = change.new?[1] { result[key] = text.string }
        }
        #expect(result == rows, "seed \(seed)")
        // A row that existed before and after is one change, not a delete and an insert.
        for (key, name) in lifeBefore {
            guard let end = life.first(where: { $0.value == name })?.key, end != key else { continue }
            #expect(changes.contains { $0.old?[0] == .integer(key) && $0.new?[0] == .integer(end) }, "seed \(seed)")
        }
    }
}
