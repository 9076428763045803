internal import AnnalsCore
import AnnalsSchema

/// The state of a row at some time, under one identity.
struct RowState: Hashable, Sendable {
    package var row: [Value]
    /// Set only if the rowid is the identity.
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

/// One raw change from the view of one identity; nil means that the row does not exist.
struct RowEdge: Sendable {
    package var id: Int64
    package var from: RowState?
    package var to: RowState?
    /// The identity that the row moved to.
    package var next: RowIdentity?
    /// It happened directly before the change with this id, although it was written later.
    package var precedes: Int64?
    /// Indices of values that it did not change and does not have.
    package var leftOut: [Int] = []
    /// When it was written, in milliseconds since 1970, if that was read.
    package var time: Int64?

    /// In the order of events. A change that precedes another one is sorted before it.
    static func happensBefore(_ left: RowEdge, _ right: RowEdge) -> Bool {
        let (a, b) = (left.precedes ?? left.id, right.precedes ?? right.id)
        return a == b ? left.precedes != nil && right.precedes == nil : a < b
    }
}

/// All changes of one identity within a transaction, in their order.
struct RowSlot: Sendable {
    private(set) var edges: [RowEdge] = []
    private var isInOrder = true

    package mutating func append(_ edge: RowEdge) {
        edges.append(edge)
        if edge.precedes != nil { isInOrder = false }
    }

    /// When it was changed last; nil if no time is known.
    var lastTime: Int64? { edges.lazy.compactMap(\.time).max() }

    /// Called once after all changes were added, because inserting one at its place would move all later ones.
    mutating func bringInOrder() {
        guard !isInOrder else { return }
        edges.sort(by: RowEdge.happensBefore)
        isInOrder = true
    }

    /// Deletes the values of a column.
    package mutating func clear(_ columnIndex: Int) {
        for index in edges.indices {
            edges[index].from?.row[columnIndex] = .null
            edges[index].to?.row[columnIndex] = .null
        }
    }

    /// The changes, with the action of a foreign key moved after the change that brought the row to this identity. If a row refers
    /// to itself and its key changes, the action is captured first.
    var actionsAfterArrivals: [RowEdge] {
        var sorted = edges
        for arrival in edges where arrival.from == nil {
            guard let index = sorted.firstIndex(where: { $0.id == arrival.id }),
                let action = sorted[..<index].lastIndex(where: { $0.from != nil && $0.from == arrival.to && $0.precedes == nil })
            else { continue }
            let edge = sorted.remove(at: action)
            sorted.insert(edge, at: index)
        }
        return sorted
    }

    /// For each state how often it was entered minus how often it was left; nil means that the row does not exist. The result is
    /// negative for the initial state and positive for the final one.
    package func balance() -> [RowState?: Int] {
        var balance: [RowState?: Int] = [:]
        for edge in edges {
            balance[edge.from, default: 0] -= 1
            balance[edge.to, default: 0] += 1
        }
        return balance
    }
}

/// Whether the order of a transaction's raw changes is reliable.
package enum RawChangeOrder: Sendable {
    /// The capture triggers were the first AFTER triggers to run, which `Drift` ensures.
    case asHappened
    /// A program's own triggers may have run before the capture triggers and written rows in between.
    case unknown
}

/// The states of one identity before and after, and the arrivals and departures in between.
struct RowIncarnations: Sendable {
    package private(set) var start: RowState?
    package private(set) var end: RowState?
    /// Ids of the changes that brought a row to this identity.
    private(set) var arrivals: [Int64] = []
    private(set) var departures: [(id: Int64, next: RowIdentity?)] = []

    /// - Parameter columns: the columns that were removed from the slot and computed separately.
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
            start?.row[column.columnIndex] = column.start
            end?.row[column.columnIndex] = column.end
        }
    }

    private typealias Ends = (start: RowState?, end: RowState?)

    /// Follows the changes as a sequence; nil if one does not continue the one before.
    ///
    /// If a program's BEFORE trigger changes the row that is being changed, SQLite still uses the old row that it had read. Such a
    /// change is stale: it begins at a state that was left before, and continues from the state that the trigger made.
    private static func inOrder(_ edges: [RowEdge], allowsStale: Bool = false) -> Ends? {
        guard let first = edges.first else { return nil }
        var present = first.to
        // A set of whole rows, which is not free to hash.
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

    /// The state that is left more often than entered, and the state that is entered more often than left; nil if there is not
    /// exactly one of each.
    ///
    /// Each change is a step from one state to another. The ends of the path follow from its steps in any order.
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
