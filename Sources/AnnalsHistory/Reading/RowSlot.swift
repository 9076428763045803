internal import AnnalsCore
import AnnalsSchema

/// A row as it stood at some moment, under one identity.
struct RowState: Hashable, Sendable {
    package var row: [Value]
    /// Only where the rowid is the identity.
    package var rowid: Int64?

    init(_ row: [Value], rowid: Int64? = nil) {
        self.row = row
        self.rowid = rowid
    }

    init(_ row: [Value], of identity: RowIdentity?) {
        self.row = row
        if case .rowid(let rowid) = identity { self.rowid = rowid }
    }
}

/// One raw change as one identity saw it; nil stands for "no such row".
struct RowEdge: Sendable {
    package var id: Int64
    package var from: RowState?
    package var to: RowState?
    /// The identity the row moved on to.
    package var next: RowIdentity?
    /// It happened just before the change with this id, though it was written down later.
    package var precedes: Int64?
    /// Places of values that it left as they were and does not hold.
    package var leftOut: [Int] = []

    /// Earlier things first; what precedes a change before the change itself.
    static func happensBefore(_ left: RowEdge, _ right: RowEdge) -> Bool {
        let (a, b) = (left.precedes ?? left.id, right.precedes ?? right.id)
        return a == b ? left.precedes != nil && right.precedes == nil : a < b
    }
}

/// Everything that happened under one identity within a transaction, in its order.
struct RowSlot: Sendable {
    private(set) var edges: [RowEdge] = []
    private var isInOrder = true

    package mutating func append(_ edge: RowEdge) {
        edges.append(edge)
        if edge.precedes != nil { isInOrder = false }
    }

    /// To be done once all are there: one that is sorted in where it belongs moves all after it.
    mutating func bringInOrder() {
        guard !isInOrder else { return }
        edges.sort(by: RowEdge.happensBefore)
        isInOrder = true
    }

    /// Forgets the values at a place.
    package mutating func clear(_ place: Int) {
        for index in edges.indices {
            edges[index].from?.row[place] = .null
            edges[index].to?.row[place] = .null
        }
    }

    /// The same with what a foreign key's action did to a row behind the change that brought the row here: where a row refers
    /// to itself and its key changes, the action is written down first.
    var actionsAfterArrivals: [RowEdge] {
        var sorted = edges
        for arrival in edges where arrival.from == nil {
            guard let place = sorted.firstIndex(where: { $0.id == arrival.id }),
                let action = sorted[..<place].lastIndex(where: { $0.from != nil && $0.from == arrival.to && $0.precedes == nil })
            else { continue }
            let edge = sorted.remove(at: action)
            sorted.insert(edge, at: place)
        }
        return sorted
    }

    /// Entered how often more than left, per state, nil being "no such row": below zero for a beginning, above for an
    /// end.
    package func balance() -> [RowState?: Int] {
        var balance: [RowState?: Int] = [:]
        for edge in edges {
            balance[edge.from, default: 0] -= 1
            balance[edge.to, default: 0] += 1
        }
        return balance
    }
}

/// How far a raw change's place among its transaction's can be trusted.
package enum RawChangeOrder: Sendable {
    /// Ours were the first AFTER triggers to run, as `Drift` sees to.
    case asHappened
    /// A program's own triggers may have run before ours, and written rows in between.
    case unknown
}

/// What was under one identity before and after, and who came and went between.
struct RowLives: Sendable {
    package private(set) var start: RowState?
    package private(set) var end: RowState?
    /// Ids of the changes that brought a row here.
    private(set) var arrivals: [Int64] = []
    private(set) var departures: [(id: Int64, next: RowIdentity?)] = []

    /// - Parameter columns: what was taken out of the slot and is told apart.
    init(_ slot: RowSlot, _ order: RawChangeOrder, columns: [ColumnLife] = []) {
        var slot = slot
        slot.bringInOrder()
        for edge in slot.edges {
            if edge.from == nil { arrivals.append(edge.id) }
            if edge.to == nil { departures.append((edge.id, edge.next)) }
        }
        let states =
            switch order {
            case .asHappened:
                Self.inOrder(slot.edges) ?? Self.inOrder(slot.actionsAfterArrivals) ?? Self.inOrder(slot.edges, allowsStale: true)
                    ?? Self.inOrder(slot.actionsAfterArrivals, allowsStale: true) ?? Self.byBalance(slot)
            case .unknown: Self.byBalance(slot) ?? Self.inOrder(slot.edges, allowsStale: true)
            }
        start = states.map(\.start) ?? slot.edges.first?.from
        end = states.map(\.end) ?? slot.edges.last?.to
        for column in columns {
            start?.row[column.place] = column.start
            end?.row[column.place] = column.end
        }
    }

    private typealias Ends = (start: RowState?, end: RowState?)

    /// Follows the changes one after another; nil when one does not continue those before.
    ///
    /// A program's BEFORE trigger that changes the very row leaves SQLite with the old row it had read already: then a
    /// change is stale, it begins at a state that was left a moment ago, and continues from what the trigger made of it.
    private static func inOrder(_ edges: [RowEdge], allowsStale: Bool = false) -> Ends? {
        guard let first = edges.first else { return nil }
        var present = first.to
        // Whole rows, which cost something to hash.
        var left: Set<RowState> = []
        if allowsStale, let from = first.from { left.insert(from) }
        for edge in edges.dropFirst() {
            if edge.from != present {
                guard allowsStale, let from = edge.from, present != nil, left.contains(from) else { return nil }
            }
            if allowsStale, let from = edge.from { left.insert(from) }
            present = edge.to
        }
        return (first.from, present)
    }

    /// The state left more often than entered, and the one entered more often than left; nil when that is not one each.
    ///
    /// Each change taken as a step from one state to another, whatever their order: this is how a path's ends are told.
    private static func byBalance(_ slot: RowSlot) -> Ends? {
        let open = slot.balance().filter { $0.value != 0 }
        guard !open.isEmpty else {
            let first = slot.edges.first { $0.from == nil || $0.to == nil } ?? slot.edges.first
            return (first?.from, first?.from)
        }
        guard open.count == 2, let start = open.first(where: { $0.value == -1 }), let end = open.first(where: { $0.value == 1 }) else {
            return nil
        }
        return (start.key, end.key)
    }
}
