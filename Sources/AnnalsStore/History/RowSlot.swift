internal import AnnalsCore

/// A row as it stood at some moment, under one identity.
struct RowState: Hashable, Sendable {
    var row: [Value]
    /// Only where the rowid is the identity.
    var rowid: Int64?

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
    var id: Int64
    var from: RowState?
    var to: RowState?
    /// The identity the row moved on to.
    var next: RowIdentity?
}

/// Everything that happened under one identity within a transaction.
struct RowSlot: Sendable {
    var edges: [RowEdge] = []

    /// Left how often less than entered, per state: below zero for a beginning, above for an end.
    func balance() -> [RowState: Int] {
        var balance: [RowState: Int] = [:]
        for edge in edges {
            if let from = edge.from { balance[from, default: 0] -= 1 }
            if let to = edge.to { balance[to, default: 0] += 1 }
        }
        return balance
    }

    func balance(ofColumn column: Int) -> [Value: Int] {
        var balance: [Value: Int] = [:]
        for edge in edges {
            if let from = edge.from { balance[from.row[column], default: 0] -= 1 }
            if let to = edge.to { balance[to.row[column], default: 0] += 1 }
        }
        return balance
    }
}

/// What was under one identity before and after, and who came and went between.
struct RowLives: Sendable {
    private(set) var start: RowState?
    private(set) var end: RowState?
    /// Ids of the changes that brought a row here.
    private(set) var arrivals: [Int64] = []
    private(set) var departures: [(id: Int64, next: RowIdentity?)] = []

    init(_ slot: RowSlot) {
        for edge in slot.edges {
            if edge.from == nil { arrivals.append(edge.id) }
            if edge.to == nil { departures.append((edge.id, edge.next)) }
        }
        guard slot.edges.count > 1 else {
            start = slot.edges.first?.from
            end = slot.edges.first?.to
            return
        }
        let balance = slot.balance()
        let begins = arrivals.count < departures.count || (arrivals.count == departures.count && Self.begins(slot, balance))
        let ends = arrivals.count > departures.count || (arrivals.count == departures.count && begins)
        start = begins ? Self.start(slot, balance) : nil
        end = ends ? Self.end(slot, balance) : nil
    }

    /// Whether a row was there before, when as many came as went.
    private static func begins(_ slot: RowSlot, _ balance: [RowState: Int]) -> Bool {
        guard let first = slot.edges.first(where: { $0.from == nil || $0.to == nil }) else { return true }
        if first.to == nil { return true }
        // The arrival stands first, perhaps only because a trigger ran early: then some state was left that never came.
        let arrived = Set(slot.edges.filter { $0.from == nil }.map(\.to))
        return slot.edges.contains { edge in
            edge.from.map { balance[$0, default: 0] < 0 && !arrived.contains($0) } ?? false
        }
    }

    private static func start(_ slot: RowSlot, _ balance: [RowState: Int]) -> RowState? {
        let candidates = balance.filter { $0.value < 0 }
        guard candidates.count != 1 else { return candidates.first?.key }
        let first = slot.edges.first { $0.from.map { candidates.isEmpty || candidates[$0] != nil } ?? false }
        guard var state = first?.from, !candidates.isEmpty else { return first?.from }
        for column in state.row.indices {
            let left = slot.balance(ofColumn: column).filter { $0.value < 0 }
            if left[state.row[column]] == nil, left.count == 1, let value = left.first?.key { state.row[column] = value }
        }
        return state
    }

    private static func end(_ slot: RowSlot, _ balance: [RowState: Int]) -> RowState? {
        let candidates = balance.filter { $0.value > 0 }
        guard candidates.count != 1 else { return candidates.first?.key }
        // With none the row ended as it began: the state that was left first.
        guard !candidates.isEmpty else { return slot.edges.first { $0.from != nil }?.from }
        let last = slot.edges.last { $0.to.map { candidates[$0] != nil } ?? false }
        guard var state = last?.to else { return nil }
        for column in state.row.indices {
            let entered = slot.balance(ofColumn: column).filter { $0.value > 0 }
            if entered[state.row[column]] == nil, entered.count == 1, let value = entered.first?.key { state.row[column] = value }
        }
        return state
    }
}
