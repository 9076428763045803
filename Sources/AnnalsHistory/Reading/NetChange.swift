package import AnnalsCore
package import AnnalsSchema

/// The net change of one row in one transaction: the whole row before and after.
package struct NetChange: Hashable, Sendable {
    /// All stored columns before; nil if the transaction inserted the row.
    package var old: [Value]?
    /// All stored columns after; nil if it deleted the row.
    package var new: [Value]?
    /// Indices of large values that an update did not change and that history does not have. Both rows have NULL there.
    package var leftOut: [Int] = []
    package var oldRowid: Int64?
    package var newRowid: Int64?
    /// When the row was written last, in milliseconds since 1970; nil if that is unknown or was not read.
    package var time: Int64?

    package init(old: [Value]?, new: [Value]?, leftOut: [Int] = [], oldRowid: Int64? = nil, newRowid: Int64? = nil) {
        self.old = old
        self.new = new
        self.leftOut = leftOut
        self.oldRowid = oldRowid
        self.newRowid = newRowid
    }

    /// How long before the transaction's time the row was written last, in milliseconds. 0 if that is unknown.
    package func age(at transaction: HybridTime) -> Int64 { time.map { max(0, transaction.milliseconds - $0) } ?? 0 }

    /// Sets an unchanged value in both rows.
    package mutating func fill(_ columnIndex: Int, _ value: Value) {
        old?[columnIndex] = value
        new?[columnIndex] = value
    }

    /// The change in the form of history and the wire; nil if the rows are equal.
    package func rowChange(key: [Int]) -> RowChange? { RowChange(old: old, new: new, key: key) }
}

/// Computes the net changes of rows from the raw changes of one transaction in one table.
///
/// Every raw change is a step of a row from one state to another; not existing is a state too. The row begins at the start of its
/// first step and ends at the end of its last step. Two things can disturb this:
///
/// - SQLite promises no order among triggers. A program's AFTER INSERT trigger that updates the new row may run before the capture
///   trigger. Then the update is before the insert. If the steps are not a sequence, the row begins in the state that is left more
///   often than entered, and ends in the state that is entered more often than left. This gives the two ends of a path from its
///   steps in any order.
/// - A program's BEFORE trigger may change the row that is being changed. SQLite then passes the old row that it had read before to
///   the capture trigger. Such a step is taken to continue from the actual state.
///
/// A change of key is a departure from one key and an arrival at another, and the row keeps its identity. A delete and an insert of
/// one key are an update.
///
///     var folder = NetChangeFolder(IdentityRule(table))
///     for change in rawChanges { folder.add(change) }
///     let changes = folder.finish()
///
/// It keeps every row in memory. For large transactions, give it only the rows that were changed more than once.
package struct NetChangeFolder: Sendable {
    private let rule: IdentityRule
    private let rawOrder: RawChangeOrder
    /// nil: all identities.
    private let isMeant: (@Sendable (RowIdentity) -> Bool)?
    /// The changes of each identity, in the order of first occurrence, so that the result does not depend on hashing.
    private var slots: [RowSlot] = []
    /// The index of each identity in `slots`.
    private var slotIndexes: [RowIdentity: Int] = [:]

    package init(_ rule: IdentityRule, order: RawChangeOrder = .asHappened) {
        self.init(rule, order: order, of: nil)
    }

    /// - Parameter isMeant: the identities to follow. The ends of rows can be computed for a part of the identities; `finish` needs
    ///   all.
    init(_ rule: IdentityRule, order: RawChangeOrder = .asHappened, of isMeant: (@Sendable (RowIdentity) -> Bool)?) {
        self.rule = rule
        rawOrder = order
        self.isMeant = isMeant
    }

    /// Adds one raw change. Add them in the order of their ids.
    package mutating func add(_ change: RawChange) {
        let from = change.old.map { rule.identity(of: $0, rowid: change.oldRowid) }
        let to = change.new.map { rule.identity(of: $0, rowid: change.newRowid) }
        let old = change.old.map { RowState($0, of: from) }
        let new = change.new.map { RowState($0, of: to) }
        if let from, from == to {
            append(RowEdge(id: change.id, from: old, to: new, leftOut: change.leftOut, time: change.time), at: from)
            return
        }
        if let from { append(RowEdge(id: change.id, from: old, to: nil, next: to, precedes: change.precedes, time: change.time), at: from) }
        if let to { append(RowEdge(id: change.id, from: nil, to: new, time: change.time), at: to) }
    }

    private mutating func append(_ edge: RowEdge, at identity: RowIdentity) {
        if let isMeant, !isMeant(identity) { return }
        if let index = slotIndexes[identity] { return slots[index].append(edge) }
        slotIndexes[identity] = slots.count
        var slot = RowSlot()
        slot.append(edge)
        slots.append(slot)
    }

    /// A row's identity, its first and its final state, which are nil if there was no row, and the id of its last raw change.
    package typealias End = (identity: RowIdentity, start: [Value]?, row: [Value]?, change: Int64)

    /// The final state of each changed row, in the order of first occurrence.
    package func ends() -> [End] {
        slotIndexes.sorted { $0.value < $1.value }.map { identity, index in
            let row = RowIncarnations(slots[index], rawOrder)
            return (identity, row.start?.row, row.end?.row, slots[index].edges.map(\.id).max() ?? 0)
        }
    }

    /// The rows that differ, in the order of their first change. Empties the folder.
    package mutating func finish() -> [NetChange] {
        // Columns that some changes leave out are computed separately.
        let columns = slots.indices.map { slots[$0].leavesOut ? slots[$0].takeColumns() : [] }
        let incarnations = slots.indices.map { RowIncarnations(slots[$0], rawOrder, columns: columns[$0]) }
        let ends = incarnations.indices.map { incarnations[$0].start == nil ? nil : end(ofIncarnationAt: $0, incarnations) }
        let times = slots.map(\.lastTime)
        var isContinued = [Bool](repeating: false, count: incarnations.count)
        for case let end? in ends { isContinued[end] = true }
        (slots, slotIndexes) = ([], [:])
        var changes: [NetChange] = []
        for (index, here) in incarnations.enumerated() {
            let inserted = isContinued[index] ? nil : here.end
            if let start = here.start {
                // If a row ended and another one began under its key, this is one update.
                let end = ends[index].map { incarnations[$0].end } ?? inserted
                let time = [times[index], ends[index].flatMap { times[$0] }].compactMap { $0 }.max()
                append(start, end, time, leftOut: end == nil ? [] : columns[index].filter { !$0.isKnown }.map(\.columnIndex), to: &changes)
                if ends[index] != nil { append(nil, inserted, times[index], to: &changes) }
            } else {
                append(nil, inserted, times[index], to: &changes)
            }
        }
        return changes
    }

    private func append(_ old: RowState?, _ new: RowState?, _ time: Int64?, leftOut: [Int] = [], to changes: inout [NetChange]) {
        guard old != new else { return }
        var change = NetChange(old: old?.row, new: new?.row, leftOut: leftOut, oldRowid: old?.rowid, newRowid: new?.rowid)
        change.time = time
        changes.append(change)
    }

    /// The index of the row's final identity; nil if the row was deleted.
    ///
    /// Arrivals and departures alternate under each identity. So the first departure is that of the row that existed before, and
    /// the second is that of the first row that arrived.
    private func end(ofIncarnationAt start: Int, _ incarnations: [RowIncarnations]) -> Int? {
        var index = start
        var rank = 0
        var seen: Set<Int64> = []
        while true {
            let here = incarnations[index]
            guard rank < here.departures.count else { return here.end == nil ? nil : index }
            let departure = here.departures[rank]
            // Each change is followed once. Contradictory changes must not cause an endless loop.
            guard seen.insert(departure.id).inserted, let next = departure.next, let there = slotIndexes[next],
                let arrival = incarnations[there].arrivals.firstIndex(of: departure.id)
            else { return nil }
            rank = arrival + (incarnations[there].start == nil ? 0 : 1)
            index = there
        }
    }
}
