import AnnalsCore

/// Where the parents of one foreign key's untracked children went during a merge.
///
/// The children are changed at the end, so they still have the values that their parents had at the beginning.
struct ReferencedParents {
    /// The last values of parents that are deleted, by those at the beginning.
    private(set) var gone: [[Value]: [Value]] = [:]
    /// The current values of parents that have others now, by those at the beginning.
    private var current: [[Value]: [Value]] = [:]
    /// The same in the other direction.
    private var beginnings: [[Value]: [Value]] = [:]
    /// The values at the beginning of parents that a merge gave other values.
    private var renumbered: Set<[Value]> = []
    /// The changes of the current step: old and new values, nil for a deleted parent.
    private var step: [(old: [Value], new: [Value]?)] = []

    mutating func note(_ old: [Value], _ new: [Value]?) {
        if old != new { step.append((old, new)) }
    }

    /// The changes of a step happen at once.
    mutating func endStep() {
        guard !step.isEmpty else { return }
        var moved: [(beginning: [Value], new: [Value])] = []
        for (old, new) in step {
            let isTaken = current[old] != nil || gone[old] != nil
            // A parent that was inserted during the merge has no children yet.
            guard let beginning = beginnings[old] ?? (isTaken ? nil : old) else { continue }
            if let new {
                moved.append((beginning, new))
            } else {
                gone[beginning] = old
                leave(beginning)
            }
        }
        move(moved)
        step = []
    }

    private mutating func leave(_ beginning: [Value]) {
        guard let last = current.removeValue(forKey: beginning) else { return }
        if beginnings[last] == beginning { beginnings[last] = nil }
    }

    /// All leave their values before one gets them.
    private mutating func move(_ moved: [(beginning: [Value], new: [Value])]) {
        for (beginning, _) in moved { leave(beginning) }
        for (beginning, new) in moved {
            current[beginning] = new
            beginnings[new] = beginning
        }
    }

    /// Notes that a merge deleted parents and inserted them again with other values, all at once.
    mutating func noteInsertedAgain(_ moves: [(old: [Value], new: [Value])]) {
        endStep()
        // Another parent may have the old values now.
        let undone = Dictionary(gone.map { ($0.value, $0.key) }, uniquingKeysWith: { one, _ in one })
        let moved = moves.map { (beginning: undone[$0.old] ?? $0.old, new: $0.new) }
        for (beginning, _) in moved {
            gone[beginning] = nil
            renumbered.insert(beginning)
        }
        move(moved)
    }

    struct Move {
        var old: [Value]
        var new: [Value]
        /// A merge gave the parent its values, and no program or person.
        var isRenumbered: Bool
    }

    /// The parents that have other values now. The children are about to get these.
    mutating func takeMoves() -> [Move] {
        defer { (current, beginnings, renumbered) = ([:], [:], []) }
        return current.filter { $0.key != $0.value }.map { Move(old: $0.key, new: $0.value, isRenumbered: renumbered.contains($0.key)) }
    }
}
