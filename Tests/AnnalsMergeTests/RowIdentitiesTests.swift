import AnnalsCore
import AnnalsMerge
import Testing

/// Merge rules 21 to 23: who is meant by a key, after others changed, deleted, moved and brought back rows.
@Suite("Row identities") struct RowIdentitiesTests {
    private static let replica = ReplicaID(high: 1, low: 1)

    private func mark(_ position: Int64) -> WriteMark {
        WriteMark(time: HybridTime(milliseconds: position), replica: Self.replica, position: Position(position))
    }

    private func name(_ key: Int64) -> CandidateKey { CandidateKey(table: "t", columnIndexes: [0], values: [.integer(key)]) }

    private func side(_ key: Int64, _ value: String = "") -> RowImage {
        RowImage(row: [.integer(key), .text(value)], key: [.integer(key)], names: [name(key)], parents: [])
    }

    private func insert(_ key: Int64, mark: RowMark? = nil) -> NotedChange { NotedChange(old: nil, new: side(key), mark: mark) }
    private func delete(_ key: Int64, mark: RowMark? = nil, into: CandidateKey? = nil) -> NotedChange {
        NotedChange(old: side(key), new: nil, mark: mark, mergedInto: into)
    }
    private func move(_ key: Int64, to other: Int64) -> NotedChange { NotedChange(old: side(key), new: side(other)) }

    private func state(_ identities: RowIdentities, _ key: Int64) -> String {
        switch identities.meant(by: name(key)) {
        case .nobody: return "nobody"
        case .untouched: return "untouched"
        case .row(let id):
            switch identities[id].state {
            case .alive(let key): return "alive at \(key[0].integer ?? -1)"
            case .dead(let tombstone): return "dead since \(tombstone.mark.position.rawValue)"
            case .merged: return "merged"
            case .setAside: return "set aside"
            case .gone: return "gone"
            }
        }
    }

    @Test("A row inserted in the pulled entries is nobody the outbox means")
    func born() {
        var identities = RowIdentities()
        identities.note([insert(7)], by: mark(11))
        #expect(state(identities, 7) == "nobody" && state(identities, 8) == "untouched")
    }

    @Test("A deleted row stays dead when a stranger takes its key")
    func secondLife() {
        var identities = RowIdentities()
        identities.note([delete(7)], by: mark(11))
        identities.note([insert(7)], by: mark(12))
        #expect(state(identities, 7) == "dead since 11")
        identities.note([delete(7)], by: mark(13))
        #expect(state(identities, 7) == "dead since 11")
    }

    @Test("A moved row is followed, through a chain and through a swap")
    func moves() {
        var identities = RowIdentities()
        identities.note([move(1, to: 5)], by: mark(11))
        identities.note([move(5, to: 9)], by: mark(12))
        #expect(state(identities, 1) == "alive at 9" && state(identities, 5) == "nobody")
        identities.note([move(2, to: 3), move(3, to: 2)], by: mark(13))
        #expect(state(identities, 2) == "alive at 3" && state(identities, 3) == "alive at 2")
        identities.note([delete(9)], by: mark(14))
        #expect(state(identities, 1) == "dead since 14")
    }

    @Test("A revived row is the old life if its death is among the pulled entries, and another otherwise")
    func revived() {
        var identities = RowIdentities()
        identities.note([delete(7)], by: mark(11))
        identities.note([insert(7, mark: .revived(Position(11), changed: []))], by: mark(12))
        #expect(state(identities, 7) == "alive at 7")
        identities.note([insert(8, mark: .revived(Position(3), changed: []))], by: mark(13))
        #expect(state(identities, 8) == "nobody")
        #expect(identities.revived(Position(3), at: name(8)) != nil && identities.revived(Position(4), at: name(8)) == nil)
    }

    @Test("The second of two lives that died is not the one the first's author brings back")
    func twoDeaths() {
        var identities = RowIdentities()
        identities.note([delete(2)], by: mark(51))
        identities.note([insert(2)], by: mark(52))
        identities.note([delete(2)], by: mark(61))
        identities.note([insert(2, mark: .revived(Position(61), changed: []))], by: mark(70))
        #expect(state(identities, 2) == "dead since 51")
    }

    @Test("Merged and set aside rows are told from dead ones")
    func links() {
        var identities = RowIdentities()
        identities.note([delete(1, mark: .merged(into: [.integer(2)]), into: name(2)), delete(3, mark: .setAside)], by: mark(11))
        #expect(state(identities, 1) == "merged" && state(identities, 3) == "set aside")
    }

    @Test("Cells have marks of their last writer, a row that was born those of its birth")
    func cells() throws {
        var identities = RowIdentities()
        identities.note([NotedChange(old: side(1, "a"), new: side(1, "b"))], by: mark(11))
        identities.note([insert(2)], by: mark(12))
        guard case .row(let changed) = identities.meant(by: name(1)), case .row(let born) = identities.occupant(of: name(2)) else {
            Issue.record("nobody is there")
            return
        }
        #expect(identities[changed].writer(of: 0) == nil && identities[changed].writer(of: 1) == mark(11))
        #expect(identities[born].writer(of: 0) == mark(12) && identities[born].latestWriter == mark(12))
    }

    @Test("The outbox calls its own renumbered row by the number it asked for")
    func names() {
        var identities = RowIdentities()
        identities.note([insert(13)], by: mark(11))
        identities.note([RebasedRowNames(before: nil, after: side(16), asked: [name(13)])])
        #expect(state(identities, 13) == "alive at 16" && state(identities, 16) == "nobody")
        identities.note([RebasedRowNames(before: nil, after: nil, asked: [name(14)], end: .setAside)])
        #expect(state(identities, 14) == "set aside")
        identities.note([RebasedRowNames(before: side(16), after: side(20), asked: [name(21)])])
        #expect(state(identities, 21) == "alive at 20")
    }
}
