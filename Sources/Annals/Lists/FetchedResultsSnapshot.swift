public import AnnalsStore

/// A list as it was at one moment: its sections, its items in order, and what became of them since the snapshot before.
///
///     let animation = snapshot.difference(from: shown)
///     selection = selection.map { snapshot.current($0, since: shown) }
///     for id in snapshot.reconfiguredItemIdentifiers { redraw(id, snapshot[id]) }
public struct FetchedResultsSnapshot<SectionID: Hashable & Sendable, Item: Identifiable & Sendable>: Sendable
where Item.ID: Hashable & Sendable {
    /// The sections that have items, in the order of their first items.
    public internal(set) var sectionIdentifiers: [SectionID] = []
    /// All items, section by section, in the request's order within each.
    public internal(set) var itemIdentifiers: [Item.ID] = []
    /// Items that the snapshot before had too, with other values now; moved or not.
    public internal(set) var reconfiguredItemIdentifiers: Set<Item.ID> = []
    /// Where history stood: what is later is not in it.
    public internal(set) var token: HistoryToken
    /// 1 for the first snapshot of an iteration, then one more each time.
    public internal(set) var number = 0
    var ranges: [SectionID: Range<Int>] = [:]
    var items: [Item.ID: Item] = [:]
    /// Items that were called otherwise in the snapshot before, snapshot by snapshot.
    var renumberings: [(number: Int, ids: [Item.ID: Item.ID])] = []

    public var count: Int { itemIdentifiers.count }
    public var isEmpty: Bool { itemIdentifiers.isEmpty }

    /// The item with its values; nil for one that is not in the list.
    public subscript(id: Item.ID) -> Item? { items[id] }

    /// The items in order.
    public var allItems: [Item] { itemIdentifiers.compactMap { items[$0] } }

    /// The items of a section; none for one that is not in the list.
    public func itemIdentifiers(inSection section: SectionID) -> ArraySlice<Item.ID> {
        itemIdentifiers[ranges[section] ?? 0..<0]
    }

    /// What an item is called here that was called `id` in an earlier snapshot of the same iteration.
    ///
    /// An integer key that this store gave becomes another one where the space had it for another row; what an app holds on
    /// to by id, such as a selection, follows by this. Every other id stays as it is.
    public func current(_ id: Item.ID, since old: Self) -> Item.ID {
        renumberings.lazy.filter { $0.number > old.number }.reduce(id) { $1.ids[$0] ?? $0 }
    }

    /// What inserts, removes and moves lead from an earlier snapshot's items to these, by id. A move is an insert and a remove
    /// that name each other.
    ///
    /// An item that got another key has the same place in both: it is called by its id of now in the difference, so that the
    /// difference applies to the earlier ids after `current(_:since:)`.
    ///
    /// It takes n log n steps, also where everything moved.
    public func difference(from old: Self) -> CollectionDifference<Item.ID> {
        let isRenumbered = renumberings.contains { $0.number > old.number }
        let before = isRenumbered ? old.itemIdentifiers.map { current($0, since: old) } : old.itemIdentifiers
        return ListDifference.between(before, itemIdentifiers)
    }
}
