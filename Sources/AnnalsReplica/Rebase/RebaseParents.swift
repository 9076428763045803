import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// Whom a reference calls, and how that row is called now.
extension RebaseAttempt {
    /// What a reference comes to.
    enum Parent {
        /// It is called as ever.
        case unchanged
        /// This is how it looks now.
        case called([Value])
        case dead(RowLineage.ID, RowLineage.Tombstone)
        /// It was set aside.
        case lost
    }

    package func parent(named name: CandidateKey) throws -> Parent {
        switch asked[name] {
        case .row(let number)?: return try parent(inPlay: number, name.places)
        case .life(let id)?: return try parent(.life(id), name)
        case nil: break
        }
        let occupant = lineage.meant(by: name)
        if case .untouched = occupant {
            guard let number = found[name] else { return .unchanged }
            return try parent(inPlay: number, name.places)
        }
        return try parent(occupant, name)
    }

    package func parent(_ occupant: RowLineage.Occupant, _ name: CandidateKey) throws -> Parent {
        let table = try rebase.table(name.table)
        var fate = try fate(of: occupant, in: table)
        while case .merged(let target) = fate { fate = target }
        switch fate {
        case .alive(let row, _):
            guard let number = found[table.keyName(of: row)] else { return .called(row) }
            return try parent(inPlay: number, name.places)
        case .dead(let life, let tombstone):
            guard let number = returned[life] else { return .dead(life, tombstone) }
            return try parent(inPlay: number, name.places)
        case .setAside: return .lost
        case .merged, .nothing: return .unchanged
        }
    }

    /// A parent that the transaction itself touches. Rows made one with others are called as those.
    private func parent(inPlay number: Int, _ places: [Int]) throws -> Parent {
        var number = number
        while let target = rows[number].substitute { number = target }
        try settleIfCalledByReferences(number, places)
        if let target = rows[number].substitute { number = target }
        if let row = rows[number].after { return .called(row) }
        return rows[number].end == .setAside ? .lost : .unchanged
    }

    /// A row that is called by references of its own has its name only when those are settled.
    func settleIfCalledByReferences(_ number: Int, _ places: [Int]) throws {
        guard places.contains(where: rows[number].table.referencePlaces.contains) else { return }
        try settleReferences(ofRow: number)
    }

    // MARK: Parents of rows that come back

    /// The references of a row that comes back are looked up as of its death.
    func settleParents(ofReturned number: Int, _ tombstone: RowLineage.Tombstone) throws {
        let table = rows[number].table
        let own = Set(askers(of: number).flatMap { verdicts[$0].asked.map(\.column) })
        for (key, reference) in table.references.enumerated() where !reference.places.contains(where: own.contains) {
            guard let occupant = tombstone.parents[key], let name = table.parentName(key, in: tombstone.row) else { continue }
            switch try parent(occupant, name) {
            case .unchanged: continue
            case .called(let parent):
                var row = rows[number].after ?? tombstone.row
                follow(table, key, parent, in: &row)
                rows[number].after = row
            case .dead(let life, let parentTombstone):
                if reference.onDelete == .restrict || reference.onDelete == .noAction,
                    try bringBack(life, parentTombstone, Cause(rows[number].cause.change, .revival(life))) != nil
                {
                    continue
                }
                try loseParent(ofReturned: number, key)
            case .lost: try loseParent(ofReturned: number, key)
            }
        }
    }

    private func loseParent(ofReturned number: Int, _ key: Int) throws {
        let table = rows[number].table
        if let values = try valuesOnDelete(table.references[key], table) {
            for (place, value) in zip(table.references[key].places, values) { rows[number].after?[place] = value }
        } else if let life = rows[number].life {
            lack(.leaveDead(life))
        }
    }
}
