import AnnalsCore
import AnnalsHistory

/// What a revert undoes in one row: the row before and after.
///
/// It is the change of one transaction, or what several transactions of one author did to the row together. Then other transactions
/// may have changed the row between them:
///
/// - In another column, that is no obstacle.
/// - In the same column, the author overwrote work of others, and nobody can say which value is right. The column is noted as
///   interrupted, and is an obstacle.
struct UndoneChange {
    var change: NetChange
    /// The columns that other transactions changed between the undone ones.
    private(set) var interrupted: Set<Int> = []
    /// A rebase undid and repeated the change together with other work.
    private(set) var isEntangled = false
    /// For each column the first undone transaction that changed it. Work after it is in the way. `Int64.max` if none did.
    private var first: [Int64]
    /// The first undone transaction that this replica wrote, so that a rebase may have repeated it; nil if others wrote all of them.
    private(set) var firstOwn: Int64?

    /// - Parameter isOwn: whether this replica wrote the transaction.
    init(_ change: NetChange, _ number: Int64, isOwn: Bool = true) {
        self.change = change
        firstOwn = isOwn ? number : nil
        first = Array(repeating: .max, count: (change.old ?? change.new ?? []).count)
        noteFirst(change, number)
    }

    /// The first undone transaction that changed a column.
    func first(_ columnIndex: Int) -> Int64 { first[columnIndex] }

    /// The transactions together left the row as it was.
    var isNothing: Bool { change.old == change.new && (interrupted.isEmpty || change.old == nil) }

    mutating func keepInterrupted(_ columnIndexes: Set<Int>) {
        interrupted.formIntersection(columnIndexes)
    }

    /// Others may have changed all columns of the change after it.
    mutating func interrupt() {
        interrupted.formUnion(first.indices.filter { first[$0] != .max })
    }

    /// Follows what rebases did to the row later: each undoes the change and repeats it from other old values. Columns in which it did
    /// something else are interrupted: other own work is in between.
    mutating func follow(_ rebases: [NetChange]) {
        guard let old = change.old, let new = change.new else { return followRow(rebases) }
        for columnIndex in first.indices where first[columnIndex] != .max {
            var (value, isUndone) = (old[columnIndex], false)
            let changing = rebases.filter { $0.hasChanged(columnIndex) }
            for rebase in Self.withoutRepeats(changing, { ($0.old?[columnIndex], $0.new?[columnIndex]) }) {
                guard let from = rebase.old?[columnIndex], let to = rebase.new?[columnIndex],
                    isUndone ? to == new[columnIndex] : from == new[columnIndex] && to == value
                else {
                    interrupted.insert(columnIndex)
                    isEntangled = true
                    break
                }
                if isUndone { value = from }
                isUndone.toggle()
            }
            // A rebase that did not repeat it left nothing to undo.
            change.old?[columnIndex] = isUndone ? new[columnIndex] : value
        }
    }

    /// The same for a row that the change inserted or deleted.
    private mutating func followRow(_ rebases: [NetChange]) {
        var (before, isUndone) = (change.old, false)
        for rebase in Self.withoutRepeats(rebases, { ($0.old, $0.new) }) {
            guard isUndone ? rebase.new == change.new : rebase.old == change.new && rebase.new == before else {
                isEntangled = true
                return interrupt()
            }
            if isUndone { before = rebase.old }
            isUndone.toggle()
        }
        guard !isUndone, (before == nil) == (change.old == nil) else { return interrupt() }
        change.old = before
    }

    /// Without each two rebases of which the second one undid what the first one did: nobody else had changed the value. So it does not
    /// matter whose work they undid and repeated.
    private static func withoutRepeats<Side: Equatable>(_ rebases: [NetChange], _ sides: (NetChange) -> (old: Side?, new: Side?))
        -> [NetChange]
    {
        var rest: [NetChange] = []
        for rebase in rebases {
            let next = sides(rebase)
            if let last = rest.last.map(sides), last.old == next.new, last.new == next.old {
                rest.removeLast()
            } else {
                rest.append(rebase)
            }
        }
        return rest
    }

    private mutating func noteFirst(_ next: NetChange, _ number: Int64) {
        for columnIndex in first.indices where next.hasChanged(columnIndex) {
            first[columnIndex] = min(first[columnIndex], number)
        }
    }

    // MARK: Several transactions

    /// Adds the change of a later transaction to the same key.
    mutating func merge(_ next: NetChange, _ number: Int64, isOwn: Bool = true) {
        noteFirst(next, number)
        if isOwn, firstOwn == nil { firstOwn = number }
        switch (change.new, next.old) {
        case (nil, _?) where change.old == nil:
            // The author's own row came and went, and this is another one.
            self = UndoneChange(next, number, isOwn: isOwn)
        case (nil, nil):
            change.new = next.new
            change.leftOut = []
        case (let mine?, let found?):
            mergeValues(next, from: mine, found)
        case (nil, _?), (_?, nil):
            // Another transaction inserted or deleted the row in between. Of a row that the author had inserted nothing is left then.
            if change.old != nil { interrupted.formUnion(first.indices) }
            change.new = next.new
            change.leftOut = []
        }
    }

    private mutating func mergeValues(_ next: NetChange, from mine: [Value], _ found: [Value]) {
        var (old, new) = (change.old, next.new)
        for columnIndex in mine.indices {
            if next.leftOut.contains(columnIndex) {
                new?[columnIndex] = mine[columnIndex]
            } else if !change.hasChanged(columnIndex) {
                old?[columnIndex] = found[columnIndex]
            } else if !next.hasChanged(columnIndex) {
                new?[columnIndex] = mine[columnIndex]
            } else if mine[columnIndex] != found[columnIndex], change.old.map({ $0[columnIndex] != found[columnIndex] }) ?? true {
                interrupted.insert(columnIndex)
            }
        }
        change.leftOut.removeAll { !next.leftOut.contains($0) }
        (change.old, change.new) = (old, new)
    }
}

extension NetChange {
    /// Whether the column has another value, or the row was inserted or deleted.
    func hasChanged(_ columnIndex: Int) -> Bool {
        guard let old, let new else { return true }
        return old[columnIndex] != new[columnIndex]
    }
}
