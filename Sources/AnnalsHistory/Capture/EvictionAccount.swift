internal import AnnalsCore
import AnnalsSchema

extension Evictions {
    /// One key's account: what came, what went, what was seen, what is there.
    struct Account {
        /// The raw changes of the key, in their order.
        package var slot: RowSlot
        /// How the row was once seen in another's way; nil when this very key was not.
        var noted: Note?
        /// How it is now.
        package var present: RowState?
        /// What some of the changes leave out, taken from all of these.
        package private(set) var withheld: WithheldColumns?

        init(slot: RowSlot, noted: Note?, present: RowState?) {
            var slot = slot
            slot.bringInOrder()
            (self.slot, self.noted, self.present) = (slot, noted, present)
            guard slot.leavesOut else { return }
            let withheld = WithheldColumns(slot, noted: noted?.row, present: present?.row)
            for place in withheld.places {
                self.slot.clear(place)
                self.noted?.row[place] = .null
                self.present?.row[place] = .null
            }
            self.withheld = withheld
        }
    }

    /// Values of a key's rows that some changes leave out.
    struct WithheldColumns {
        package let places: [Int]
        private let edges: [Int64: RowEdge]
        private let noted: [Value]?
        private let present: [Value]?

        init(_ slot: RowSlot, noted: [Value]?, present: [Value]?) {
            places = Set(slot.edges.flatMap(\.leftOut)).sorted()
            edges = Dictionary(slot.edges.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
            (self.noted, self.present) = (noted, present)
        }

        /// The state after the last of some changes, with what they brought or left as it was.
        package func whole(_ state: RowState, after changes: ArraySlice<RowEdge>, before rest: ArraySlice<RowEdge>) -> RowState {
            var state = state
            for place in places {
                func tells(_ edge: RowEdge) -> Bool { !edge.leftOut.contains(place) }
                let last = changes.last(where: tells).flatMap { edges[$0.id]?.to }
                let next = rest.first(where: tells).flatMap { edges[$0.id] }
                guard let row = last?.row ?? noted ?? next?.from?.row ?? present else { continue }
                state.row[place] = row[place]
            }
            return state
        }
    }

    /// A row removed unseen.
    struct Eviction: Hashable {
        package var state: RowState
        /// The raw change just before which it happened; nil when none of this key followed.
        package var precedes: Int64?
    }
}

extension Evictions.Account {
    /// Every removal that no raw change tells.
    package func evictions(_ order: RawChangeOrder) -> [Evictions.Eviction] {
        let arrivals = slot.edges.count { $0.from == nil }
        let departures = slot.edges.count { $0.to == nil }
        let count = arrivals - departures + (began(order) ? 1 : 0) - (present == nil ? 0 : 1)
        guard count > 0 else { return [] }
        let told = order == .asHappened ? inOrder(count, slot.edges) ?? inOrder(count, slot.actionsAfterArrivals) : nil
        return told ?? byBalance(count)
    }

    /// The row as it was noted, if that was before anything else happened to it.
    private var notedStart: RowState? {
        guard let noted, slot.edges.first.map({ $0.id > noted.mark }) ?? true else { return nil }
        return RowState(noted.row, rowid: noted.rowid)
    }

    /// Whether a row was there before the first raw change.
    private func began(_ order: RawChangeOrder) -> Bool {
        if notedStart != nil { return true }
        guard let first = slot.edges.first, let from = first.from else { return false }
        // Whatever leaves before anything has come was there.
        if order == .asHappened, let end = slot.edges.first(where: { $0.from == nil || $0.to == nil }), end.from != nil { return true }
        // An update may stand before the arrival of the row it changed, when a trigger or a foreign key's action ran
        // before ours. But a row that was noted before that arrival was there.
        guard let arrival = slot.edges.first(where: { $0.from == nil && $0.to == from }) else { return true }
        return noted.map { $0.mark < arrival.id } ?? false
    }

    /// Where a row arrives while another is still there, that one was removed. nil when the changes do not follow one
    /// another: a foreign key's action on the very row being changed, for one, is written down before that change.
    private func inOrder(_ count: Int, _ edges: [RowEdge]) -> [Evictions.Eviction]? {
        var evictions: [Evictions.Eviction] = []
        var here = notedStart ?? edges.first?.from
        var left: Set<RowState> = []
        for (index, edge) in edges.enumerated() {
            if edge.from == nil, let state = here, evictions.count < count {
                evictions.append(Evictions.Eviction(state: whole(state, after: index, of: edges), precedes: edge.id))
            } else if edge.from != here {
                guard let from = edge.from, here != nil, left.contains(from) else { return nil }
            }
            if let from = edge.from { left.insert(from) }
            here = edge.to
        }
        if let state = here, present == nil, evictions.count < count {
            evictions.append(Evictions.Eviction(state: whole(state, after: edges.count, of: edges), precedes: nil))
        }
        return evictions
    }

    /// A state with what some changes leave out, as it was after so many of them.
    private func whole(_ state: RowState, after count: Int, of edges: [RowEdge]) -> RowState {
        withheld?.whole(state, after: edges[..<count], before: edges[count...]) ?? state
    }

    /// States entered more often than left, the present one left aside.
    private func byBalance(_ count: Int) -> [Evictions.Eviction] {
        var balance = slot.balance()
        if let present { balance[present, default: 0] -= 1 }
        if let notedStart { balance[notedStart, default: 0] += 1 }
        // The latest first, each with the arrival that comes next.
        var candidates: [(state: RowState, count: Int, next: Int64?)] = []
        var next: Int64?
        for (place, edge) in slot.edges.enumerated().reversed() {
            if let state = edge.to { candidates.append((state, place + 1, next)) }
            if edge.from == nil { next = edge.id }
        }
        if let notedStart { candidates.append((notedStart, 0, next)) }
        var evictions: [Evictions.Eviction] = []
        for candidate in candidates where evictions.count < count {
            guard let surplus = balance[candidate.state], surplus > 0 else { continue }
            balance[candidate.state] = surplus - 1
            let state = whole(candidate.state, after: candidate.count, of: slot.edges)
            evictions.append(Evictions.Eviction(state: state, precedes: candidate.next))
        }
        return evictions
    }
}
