package import AnnalsCore

/// One row's change in a pulled entry.
package struct NotedChange: Sendable {
    package var old: RowImage?
    package var new: RowImage?
    package var mark: RowMark?
    /// The key of the row that a `merged` delete was merged into.
    package var mergedInto: CandidateKey?
    /// How long before the entry's time the row was written last, in milliseconds.
    package var age: Int64

    package init(old: RowImage?, new: RowImage?, mark: RowMark? = nil, mergedInto: CandidateKey? = nil, age: Int64 = 0) {
        self.age = age
        self.old = old
        self.new = new
        self.mark = mark
        self.mergedInto = mergedInto
    }
}

extension RowIdentities {
    /// Adds one pulled entry: who wrote which cells, and which rows were inserted, deleted or got other keys (merge
    /// rule 21).
    ///
    /// All keys that the entry gives up are free before any key is taken. So rows may swap keys.
    package mutating func note(_ entry: [NotedChange], by mark: WriteMark) {
        let ids = entry.map { change in change.old.map { rowID(of: $0) } }
        let parents = entry.map { change -> [Occupant?] in
            guard let old = change.old, change.new == nil else { return [] }
            return old.parents.map { $0.map(occupant(of:)) }
        }
        for (change, id) in zip(entry, ids) {
            if let old = change.old, let id { release(old.names, of: id) }
        }
        for (index, change) in entry.enumerated() {
            var mark = mark
            mark.time = mark.time.earlier(by: change.age)
            switch (change.old, ids[index], change.new) {
            case (let old?, let id?, let new?): noteUpdate(id, old, new, by: mark)
            case (let old?, let id?, nil):
                bury(id, as: old.names[0], at: mark.position)
                let tombstone = Tombstone(table: old.names[0].table, row: old.row, mark: mark, parents: parents[index])
                end(id, as: .dead(tombstone))
            case (nil, _, let new?): noteInsert(new, change.mark, by: mark)
            default: continue
            }
        }
        for (change, id) in zip(entry, ids) {
            guard change.new == nil, let id else { continue }
            switch change.mark {
            case .merged?: end(id, as: .merged(into: change.mergedInto.map(occupant(of:)) ?? .nobody))
            case .setAside?: end(id, as: .setAside)
            case .revived?, nil: continue
            }
        }
    }

    private mutating func noteUpdate(_ id: ID, _ old: RowImage, _ new: RowImage, by writer: WriteMark) {
        mark(id, columns: old.row.indices.filter { old.row[$0] != new.row[$0] }, by: writer)
        take(new, by: id)
    }

    private mutating func noteInsert(_ new: RowImage, _ mark: RowMark?, by writer: WriteMark) {
        guard case .revived(let position, let changed)? = mark else {
            take(new, by: begin(Row(state: .setAside, insertedBy: writer)))
            return
        }
        if let id = buried(new.names[0], at: position), case .dead(let tombstone) = self[id].state {
            let other = new.row.indices.filter { $0 < tombstone.row.count && new.row[$0] != tombstone.row[$0] }
            self.mark(id, columns: changed.map(\.column) + other, by: writer)
            take(new, by: id)
        } else {
            let id = begin(Row(state: .setAside, insertedBy: writer))
            take(new, by: id)
            noteRevival(of: new.names[0], at: position, as: id)
        }
    }
}
