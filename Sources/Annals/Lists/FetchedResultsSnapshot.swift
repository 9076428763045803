import AnnalsStore
public import Foundation

/// A row of a list that could not be decoded.
public struct UndecodableRow: Sendable {
    public let identifier: PersistentIdentifier
    public let error: any Error
}

/// A list at one moment: its sections, its items in order, and the changes since the snapshot before.
///
///     let animation = snapshot.difference(from: shown)
///     selection = selection.map { snapshot.current($0, since: shown) }
///     for id in snapshot.reconfiguredItemIdentifiers { redraw(id, snapshot[id]) }
public struct FetchedResultsSnapshot<SectionID: Hashable & Sendable, Item: Identifiable & Sendable>: Sendable
where Item.ID: Hashable & Sendable {
    /// The sections that have items, in the order of their first items.
    public internal(set) var sectionIdentifiers: [SectionID] = []
    /// All items, section by section, and within a section in the request's order.
    public internal(set) var itemIdentifiers: [Item.ID] = []
    /// Items that the snapshot before also had, with other values now, whether they moved or not.
    public internal(set) var reconfiguredItemIdentifiers: Set<Item.ID> = []
    /// The rows that could not be decoded and are not in the list; empty unless the list skips them.
    public internal(set) var undecodableRows: [UndecodableRow] = []
    /// The point of history of this snapshot. Later transactions are not in it.
    public internal(set) var token: HistoryToken
    /// 1 for the first snapshot of an iteration, and one more for each further snapshot.
    public internal(set) var number = 0
    var ranges: [SectionID: Range<Int>] = [:]
    var items: [Item.ID: Item] = [:]
    /// New ids of items by the ids in the snapshot before, one entry for each snapshot with renumbered rows.
    var renumberings: [(number: Int, ids: [Item.ID: Item.ID])] = []

    public var count: Int { itemIdentifiers.count }
    public var isEmpty: Bool { itemIdentifiers.isEmpty }

    /// The item with its values; nil if it is not in the list.
    public subscript(id: Item.ID) -> Item? { items[id] }

    /// The items in order.
    public var allItems: [Item] { itemIdentifiers.compactMap { items[$0] } }

    /// The items of a section; empty for a section that is not in the list.
    public func itemIdentifiers(inSection section: SectionID) -> ArraySlice<Item.ID> {
        itemIdentifiers[ranges[section] ?? 0..<0]
    }

    /// The item at a place: the number of its section, and its number in the section. nil if there is none.
    ///
    ///     let item = snapshot.item(at: [0, 3])
    public func item(at path: IndexPath) -> Item? {
        guard path.count == 2, sectionIdentifiers.indices.contains(path[0]) else { return nil }
        let ids = itemIdentifiers(inSection: sectionIdentifiers[path[0]])
        guard path[1] >= 0, path[1] < ids.count else { return nil }
        return items[ids[ids.startIndex + path[1]]]
    }

    /// The place of an item; nil if it is not in the list. The time grows with the number of items.
    public func indexPath(of id: Item.ID) -> IndexPath? {
        guard items[id] != nil, let index = itemIdentifiers.firstIndex(of: id),
            let section = sectionIdentifiers.firstIndex(where: { ranges[$0]?.contains(index) ?? false })
        else { return nil }
        return [section, index - (ranges[sectionIdentifiers[section]]?.lowerBound ?? 0)]
    }

    /// The current id of an item that had the id `id` in an earlier snapshot of the same iteration.
    ///
    /// A sync may give a row another integer key if the space already uses that key for another row. An app that stores ids, such
    /// as a selection, updates them with this function. Every other id is returned unchanged.
    public func current(_ id: Item.ID, since old: Self) -> Item.ID {
        renumberings.lazy.filter { $0.number > old.number }.reduce(id) { $1.ids[$0] ?? $0 }
    }

    /// The inserts, removes and moves that change an earlier snapshot's items to these items, by id. A move is an insert and a
    /// remove that refer to each other.
    ///
    /// An item that got another key counts as the same item. The difference uses its current id, so it applies to the earlier ids
    /// after `current(_:since:)`.
    ///
    /// The time is n log n, also if every item moved.
    public func difference(from old: Self) -> CollectionDifference<Item.ID> {
        let isRenumbered = renumberings.contains { $0.number > old.number }
        let before = isRenumbered ? old.itemIdentifiers.map { current($0, since: old) } : old.itemIdentifiers
        return ListDifference.between(before, itemIdentifiers)
    }
}
