import AnnalsCore

/// What became of a row that the transaction names (merge rules 22 and 23).
enum RowOutcome {
    case alive([Value], RowIdentities.ID?)
    case dead(RowIdentities.ID, RowIdentities.Tombstone)
    indirect case merged(into: RowOutcome)
    case setAside
    case nothing
}

/// Finds the row that had a key when the transaction was written, wherever it is now.
struct RowResolver {
    let state: RebaseState

    /// What became of the row that the transaction found under this key.
    func outcome(of name: CandidateKey, key: [Value], in table: MergeTable) throws -> RowOutcome {
        let occupant = state.context.rowIdentities.meant(by: name)
        if case .untouched = occupant {
            // By the key itself: its column may compare otherwise than its index.
            guard let row = try state.source.row(withKey: key, in: table) else { return .nothing }
            return .alive(row, nil)
        }
        return try outcome(of: occupant, in: table)
    }

    func outcome(of occupant: RowIdentities.Occupant, in table: MergeTable, depth: Int = 0) throws -> RowOutcome {
        switch state.context.rowIdentities.known(occupant) {
        case .nobody: return .nothing
        case .untouched(let name):
            guard let row = try state.source.row(named: name, in: table) else { return .nothing }
            return .alive(row, nil)
        case .row(let id):
            switch state.context.rowIdentities[id].state {
            case .alive(let key):
                guard let row = try state.source.row(withKey: key, in: table) else { return .nothing }
                return .alive(row, id)
            case .dead(let tombstone): return .dead(id, tombstone)
            case .merged(let target):
                // Two rows that were each merged into the other have no place.
                guard depth < MergeLimits.mergedRowsFollowed else { return .nothing }
                return .merged(into: try outcome(of: target, in: table, depth: depth + 1))
            case .setAside: return .setAside
            case .gone: return .nothing
            }
        }
    }
}
