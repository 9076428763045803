import AnnalsCore

/// Finds the row that a reference names, as it is now (merge rule 24).
struct ParentResolver {
    let state: RebaseState

    enum Parent {
        /// The reference names it as before.
        case unchanged
        /// The parent row as it is now.
        case alive([Value])
        case dead(RowIdentities.ID, RowIdentities.Tombstone)
        case setAside
    }

    func parent(named name: CandidateKey) throws -> Parent {
        switch state.requestedNames[name] {
        case .row(let number)?: return try parent(inPlay: number, name.columnIndexes)
        case .identity(let id)?: return try parent(.row(id), name)
        case nil: break
        }
        let occupant = state.context.rowIdentities.meant(by: name)
        if case .untouched = occupant {
            guard let number = state.foundNames[name] else { return .unchanged }
            return try parent(inPlay: number, name.columnIndexes)
        }
        return try parent(occupant, name)
    }

    func parent(_ occupant: RowIdentities.Occupant, _ name: CandidateKey) throws -> Parent {
        let table = try state.source.table(named: name.table)
        var outcome = try RowResolver(state: state).outcome(of: occupant, in: table)
        while case .merged(let target) = outcome { outcome = target }
        switch outcome {
        case .alive(let row, _):
            guard let number = state.foundNames[table.keyName(of: row)] else { return .alive(row) }
            return try parent(inPlay: number, name.columnIndexes)
        case .dead(let rowID, let tombstone):
            guard let number = state.restored[rowID] else { return .dead(rowID, tombstone) }
            return try parent(inPlay: number, name.columnIndexes)
        case .setAside: return .setAside
        case .merged, .nothing: return .unchanged
        }
    }

    /// A parent that the transaction itself touches. A row that was merged into another is named as that one.
    private func parent(inPlay number: Int, _ columnIndexes: [Int]) throws -> Parent {
        var number = state.resolved(number)
        try ReferencePlanner(state: state).settleIfNamedByReferences(number, columnIndexes)
        if let target = state.rows[number].substitute { number = target }
        if let row = state.rows[number].after { return .alive(row) }
        return state.rows[number].end == .setAside ? .setAside : .unchanged
    }
}
