internal import AnnalsCore
import AnnalsSchema

extension Evictions {
    /// All facts about one key: its raw changes, its note and its current row.
    struct Account {
        /// The raw changes of the key, in their order.
        package var slot: RowSlot
        /// The note of the row; nil if no note has exactly this key.
        var noted: Note?
        /// The current row; nil if there is none.
        package var present: RowState?
        /// The columns that some of the changes leave out. Their values are removed from all fields above.
        package private(set) var withheld: WithheldColumns?

        init(slot: RowSlot, noted: Note?, present: RowState?) {
            var slot = slot
            slot.bringInOrder()
            (self.slot, self.noted, self.present) = (slot, noted, present)
            guard slot.leavesOut else { return }
            let withheld = WithheldColumns(slot, noted: noted?.row, present: present?.row)
            for columnIndex in withheld.columnIndexes {
                self.slot.clear(columnIndex)
                self.noted?.row[columnIndex] = .null
                self.present?.row[columnIndex] = .null
            }
            self.withheld = withheld
        }
    }

    /// The values in the columns that some changes of a key's rows leave out.
    struct WithheldColumns {
        package let columnIndexes: [Int]
        private let edges: [Int64: RowEdge]
        private let noted: [Value]?
        private let present: [Value]?

        init(_ slot: RowSlot, noted: [Value]?, present: [Value]?) {
            columnIndexes = Set(slot.edges.flatMap(\.leftOut)).sorted()
            edges = Dictionary(slot.edges.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
            (self.noted, self.present) = (noted, present)
        }

        /// The state after some changes, with the values that these changes wrote or left unchanged.
        package func whole(_ state: RowState, after changes: ArraySlice<RowEdge>, before rest: ArraySlice<RowEdge>) -> RowState {
            var state = state
            for columnIndex in columnIndexes {
                func hasValue(_ edge: RowEdge) -> Bool { !edge.leftOut.contains(columnIndex) }
                let last = changes.last(where: hasValue).flatMap { edges[$0.id]?.to }
                let next = rest.first(where: hasValue).flatMap { edges[$0.id] }
                guard let row = last?.row ?? noted ?? next?.from?.row ?? present else { continue }
                state.row[columnIndex] = row[columnIndex]
            }
            return state
        }
    }

    /// A row that was removed without a trigger.
    struct Eviction: Hashable {
        package var state: RowState
        /// The raw change before which the row was removed; nil if no raw change of this key followed.
        package var precedes: Int64?
    }
}

extension Evictions.Account {
    /// All removals without a raw change.
    package func evictions(_ order: RawChangeOrder) -> [Evictions.Eviction] {
        let arrivals = slot.edges.count { $0.from == nil }
        let departures = slot.edges.count { $0.to == nil }
        let count = arrivals - departures + (began(order) ? 1 : 0) - (present == nil ? 0 : 1)
        guard count > 0 else { return [] }
        let told = order == .asHappened ? inOrder(count, slot.edges) ?? inOrder(count, slot.actionsAfterArrivals) : nil
        return told ?? byBalance(count)
    }

    /// The noted row, if it was noted before its first raw change.
    private var notedStart: RowState? {
        guard let noted, slot.edges.first.map({ $0.id > noted.mark }) ?? true else { return nil }
        return RowState(noted.row, rowid: noted.rowid)
    }

    /// Whether a row existed before the first raw change.
    private func began(_ order: RawChangeOrder) -> Bool {
        if notedStart != nil { return true }
        guard let first = slot.edges.first, let from = first.from else { return false }
        // If a row disappears before any row appeared, it existed at the start.
        if order == .asHappened, let end = slot.edges.first(where: { $0.from == nil || $0.to == nil }), end.from != nil { return true }
        // An update may precede the insert of the row that it changed, if a trigger or a foreign key action ran before the capture
        // trigger. But a row that was noted before that insert existed.
        guard let arrival = slot.edges.first(where: { $0.from == nil && $0.to == from }) else { return true }
        return noted.map { $0.mark < arrival.id } ?? false
    }

    /// If a row appears while another one with its key exists, the other one was removed. nil if the changes are not a sequence.
    /// For example, a foreign key action on the row that is being changed is captured before that change.
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

    /// A state after the first `count` changes, with the values that some changes leave out.
    private func whole(_ state: RowState, after count: Int, of edges: [RowEdge]) -> RowState {
        withheld?.whole(state, after: edges[..<count], before: edges[count...]) ?? state
    }

    /// States that were entered more often than left, without the current state.
    private func byBalance(_ count: Int) -> [Evictions.Eviction] {
        var balance = slot.balance()
        if let present { balance[present, default: 0] -= 1 }
        if let notedStart { balance[notedStart, default: 0] += 1 }
        // The latest first, each with the next insert.
        var candidates: [(state: RowState, count: Int, next: Int64?)] = []
        var next: Int64?
        for (index, edge) in slot.edges.enumerated().reversed() {
            if let state = edge.to { candidates.append((state, index + 1, next)) }
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
