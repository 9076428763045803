import AnnalsCore
import SeededRandom
import Testing

@testable import AnnalsRows

/// Random changes of the keys of parents, compared with parents that keep an identity.
@Suite struct ReferencedParentsTests {
    @Test(arguments: UInt64(1)...200)
    func `children know where their own parent went`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        // The key of each parent, by its identity; the first ones have children, which hold the key of the beginning.
        var keys: [Int: Int] = [:]
        for identity in 0..<6 { keys[identity] = identity }
        let beginnings = keys
        var next = 6
        var parents = ReferencedParents()
        for _ in 0..<Int.random(in: 1...6, using: &random) {
            // All changes of a step happen at once, so keys can be exchanged.
            var changed = keys
            let moving = keys.keys.sorted().filter { _ in Bool.random(using: &random) }
            for identity in moving { changed[identity] = nil }
            for identity in moving where Int.random(in: 0..<4, using: &random) > 0 {
                changed[identity] = (0..<9).filter { key in !changed.values.contains(key) }.randomElement(using: &random)
            }
            if let free = (0..<9).first(where: { key in !changed.values.contains(key) }), Bool.random(using: &random) {
                changed[next] = free
                next += 1
            }
            for (identity, key) in keys.sorted(by: { $0.key < $1.key }) {
                parents.note([.integer(Int64(key))], changed[identity].map { [.integer(Int64($0))] })
            }
            parents.endStep()
            keys = changed
        }
        let gone = Set(parents.gone.keys)
        let moves = Dictionary(uniqueKeysWithValues: parents.takeMoves().map { ($0.old, $0.new) })
        for (identity, beginning) in beginnings {
            let old: [Value] = [.integer(Int64(beginning))]
            if let key = keys[identity] {
                #expect((moves[old] ?? old) == [.integer(Int64(key))], "seed \(seed), parent \(identity)")
                #expect(!gone.contains(old), "seed \(seed), parent \(identity)")
            } else {
                #expect(gone.contains(old) && moves[old] == nil, "seed \(seed), parent \(identity)")
            }
        }
    }

    @Test func `a row that is inserted again keeps its children, also if another row has its key now`() {
        func key(_ number: Int64) -> [Value] { [.integer(number)] }
        var parents = ReferencedParents()
        // An unsent row 7 is undone, a pulled change gives row 1 the key 7, and the unsent row is inserted again as 8.
        parents.note(key(7), nil)
        parents.endStep()
        parents.note(key(1), key(7))
        parents.noteInsertedAgain([(key(7), key(8))])
        // The same again: 8 is undone, and inserted as 9.
        parents.note(key(8), nil)
        parents.noteInsertedAgain([(key(8), key(9))])
        #expect(parents.gone.isEmpty)
        #expect(Dictionary(uniqueKeysWithValues: parents.takeMoves().map { ($0.old, $0.new) }) == [key(1): key(7), key(7): key(9)])
    }
}
