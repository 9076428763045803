package import AnnalsCore
package import AnnalsSchema

/// What one transaction did to one row of one table: the whole row before and after.
package struct NetChange: Hashable, Sendable {
    /// All stored columns before; nil when the transaction inserted the row.
    package var old: [Value]?
    /// All stored columns after; nil when it deleted the row.
    package var new: [Value]?
    /// Places of large values that an update left as they were and that its history does not hold; both rows have NULL there.
    package var leftOut: [Int] = []
    package var oldRowid: Int64?
    package var newRowid: Int64?

    package init(old: [Value]?, new: [Value]?, leftOut: [Int] = [], oldRowid: Int64? = nil, newRowid: Int64? = nil) {
        self.old = old
        self.new = new
        self.leftOut = leftOut
        self.oldRowid = oldRowid
        self.newRowid = newRowid
    }

    /// Gives both rows a value that stayed.
    package mutating func fill(_ place: Int, _ value: Value) {
        old?[place] = value
        new?[place] = value
    }

    /// The change as history and the wire tell it; nil when before and after are the same.
    package func rowChange(key: [Int]) -> RowChange? {
        switch (old, new) {
        case (nil, nil): return nil
        case (nil, let new?): return .insert(new)
        case (let old?, nil): return .delete(old)
        case (let old?, let new?):
            let columns = old.indices.filter { old[$0] != new[$0] }.map { ColumnChange(column: $0, old: old[$0], new: new[$0]) }
            return columns.isEmpty ? nil : .update(key: key.map { old[$0] }, columns: columns)
        }
    }
}

/// Makes the raw changes of one transaction of one table into what the transaction did to each row.
///
/// Every raw change is a step of a row from one state to another, existing and not existing being states like others. The
/// row began where its first step begins and ended where its last one ends. Two things can blur that:
///
/// - SQLite promises no order among triggers. A program's AFTER INSERT trigger that updates the new row may have run
///   before ours, and then the update stands before the insert. So where the steps do not follow one another, the row
///   began in the state that is left more often than entered, and ended in the one entered more often than left: the
///   ends of a path can be told from its steps in any order.
/// - A program's BEFORE trigger may change the very row that is being changed; SQLite then hands our trigger the old row
///   it had read before. Such a step is taken to continue from where the row was.
///
/// A change of key is a departure from one key and an arrival at another; the row keeps its identity through it. A
/// delete and an insert of one key are an update.
///
///     var folder = NetChangeFolder(IdentityRule(table))
///     for change in rawChanges { folder.add(change) }
///     let changes = folder.finish()
///
/// It holds every row it is given, so feed large transactions only the rows that were changed more than once.
package struct NetChangeFolder: Sendable {
    private let rule: IdentityRule
    private let rawOrder: RawChangeOrder
    /// nil: all identities.
    private let isMeant: (@Sendable (RowIdentity) -> Bool)?
    /// What happened under each identity, in the order in which they were first met: so the outcome does not depend on hashing.
    private var slots: [RowSlot] = []
    /// The place of each among them.
    private var places: [RowIdentity: Int] = [:]

    package init(_ rule: IdentityRule, order: RawChangeOrder = .asHappened) {
        self.init(rule, order: order, of: nil)
    }

    /// - Parameter isMeant: which identities it follows. Where rows end can be told of some at a time, and `finish` needs all.
    init(_ rule: IdentityRule, order: RawChangeOrder = .asHappened, of isMeant: (@Sendable (RowIdentity) -> Bool)?) {
        self.rule = rule
        rawOrder = order
        self.isMeant = isMeant
    }

    /// Takes one raw change, in the order of their ids.
    package mutating func add(_ change: RawChange) {
        let from = change.old.map { rule.identity(of: $0, rowid: change.oldRowid) }
        let to = change.new.map { rule.identity(of: $0, rowid: change.newRowid) }
        let old = change.old.map { RowState($0, of: from) }
        let new = change.new.map { RowState($0, of: to) }
        if let from, from == to {
            append(RowEdge(id: change.id, from: old, to: new, leftOut: change.leftOut), at: from)
            return
        }
        if let from { append(RowEdge(id: change.id, from: old, to: nil, next: to, precedes: change.precedes), at: from) }
        if let to { append(RowEdge(id: change.id, from: nil, to: new), at: to) }
    }

    private mutating func append(_ edge: RowEdge, at identity: RowIdentity) {
        if let isMeant, !isMeant(identity) { return }
        if let place = places[identity] { return slots[place].append(edge) }
        places[identity] = slots.count
        var slot = RowSlot()
        slot.append(edge)
        slots.append(slot)
    }

    /// What became of each row that was changed, nil for one that is gone, in the order in which they were first met.
    package func ends() -> [(identity: RowIdentity, row: [Value]?)] {
        places.sorted { $0.value < $1.value }.map { ($0.key, RowLives(slots[$0.value], rawOrder).end?.row) }
    }

    /// The rows that differ, in the order in which they were first changed. Leaves the folder empty.
    package mutating func finish() -> [NetChange] {
        // What some changes leave out is told apart from the rest of the row.
        let columns = slots.indices.map { slots[$0].leavesOut ? slots[$0].takeColumns() : [] }
        let lives = slots.indices.map { RowLives(slots[$0], rawOrder, columns: columns[$0]) }
        let ends = lives.indices.map { lives[$0].start == nil ? nil : end(ofLifeAt: $0, lives) }
        var isContinued = [Bool](repeating: false, count: lives.count)
        for case let end? in ends { isContinued[end] = true }
        (slots, places) = ([], [:])
        var changes: [NetChange] = []
        for (place, here) in lives.enumerated() {
            let born = isContinued[place] ? nil : here.end
            if let start = here.start {
                // A row that ended while another began under its key is one update.
                let end = ends[place].map { lives[$0].end } ?? born
                append(start, end, leftOut: end == nil ? [] : columns[place].filter { !$0.isTold }.map(\.place), to: &changes)
                if ends[place] != nil { append(nil, born, to: &changes) }
            } else {
                append(nil, born, to: &changes)
            }
        }
        return changes
    }

    private func append(_ old: RowState?, _ new: RowState?, leftOut: [Int] = [], to changes: inout [NetChange]) {
        guard old != new else { return }
        changes.append(NetChange(old: old?.row, new: new?.row, leftOut: leftOut, oldRowid: old?.rowid, newRowid: new?.rowid))
    }

    /// Where the row that was here before is after; nil when it is gone.
    ///
    /// Under each identity arrivals and departures take turns, so the first departure is that of the row that was
    /// there before, the second that of the first to arrive after it.
    private func end(ofLifeAt start: Int, _ lives: [RowLives]) -> Int? {
        var place = start
        var rank = 0
        var seen: Set<Int64> = []
        while true {
            let here = lives[place]
            guard rank < here.departures.count else { return here.end == nil ? nil : place }
            let departure = here.departures[rank]
            // A change is passed once; contradictory ones must not lead in a circle.
            guard seen.insert(departure.id).inserted, let next = departure.next, let there = places[next],
                let arrival = lives[there].arrivals.firstIndex(of: departure.id)
            else { return nil }
            rank = arrival + (lives[there].start == nil ? 0 : 1)
            place = there
        }
    }
}
