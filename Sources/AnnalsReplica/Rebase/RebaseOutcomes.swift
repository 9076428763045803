import AnnalsCore
import AnnalsMerge
import AnnalsRows

/// Who is meant (merge rules 22 and 23): the life that was there when the transaction was written, wherever it is now.
enum RowOutcome {
    case alive([Value], RowLineage.ID?)
    case dead(RowLineage.ID, RowLineage.Tombstone)
    indirect case merged(into: RowOutcome)
    case setAside
    case nothing
}

extension RebaseAttempt {
    /// What became of the row that the transaction found under this key.
    func fate(of name: CandidateKey, key: [Value], in table: RowTable) throws -> RowOutcome {
        let occupant = lineage.meant(by: name)
        if case .untouched = occupant {
            // By the key itself: its column may compare otherwise than its index.
            guard let row = try table.row(key) else { return .nothing }
            return .alive(row, nil)
        }
        return try fate(of: occupant, in: table)
    }

    func fate(of occupant: RowLineage.Occupant, in table: RowTable, depth: Int = 0) throws -> RowOutcome {
        switch lineage.known(occupant) {
        case .nobody: return .nothing
        case .untouched(let name):
            guard let row = try session.row(named: name, in: table) else { return .nothing }
            return .alive(row, nil)
        case .life(let id):
            switch lineage[id].state {
            case .alive(let key):
                guard let row = try table.row(key) else { return .nothing }
                return .alive(row, id)
            case .dead(let tombstone): return .dead(id, tombstone)
            case .merged(let target):
                // Two rows that were each made one with the other have nowhere to be.
                guard depth < ApplyLimits.mergedRowsFollowed else { return .nothing }
                return .merged(into: try fate(of: target, in: table, depth: depth + 1))
            case .setAside: return .setAside
            case .gone: return .nothing
            }
        }
    }

    /// Whether the incoming transaction or what is stored was written later; ties by ReplicaID.
    package func winner(against mark: WriteMark) -> JournalEntry.Side {
        LastWriterWins.winner(
            incoming: transaction.info.time.clamped(toReceipt: rebase.relayTime), of: rebase.replica, stored: mark)
    }
}
