package import AnnalsCore

/// The entries that one command voids.
package enum VoidSelection: Sendable, Hashable {
    /// The entries at these positions, with all others of the same batches.
    case range(ClosedRange<Position>)
    /// The entries of one author from a position on, with all others of the same batches.
    case author(ReplicaID, from: Position)
    /// The reported entries.
    case reported
}

/// The results for a selection, in the order of the attempts: newest first, because an older entry is not voided while
/// later entries may depend on it.
package struct SelectionOutcome: Sendable {
    package var voided: [VoidOutcome] = []
    package var refused: [(position: Position, refusal: VoidRefusal)] = []
}

extension RelayDatabase {
    /// Voids entries one by one, each in its own transaction and with its own audit line. It skips entries that are
    /// void already. A refused entry does not stop the others.
    ///
    /// - Throws: `RelayLogError`.
    package func void(
        _ selection: VoidSelection, of name: SpaceName, withLater: Bool, now: Int64, by: Operator? = nil
    ) async throws -> SelectionOutcome {
        let positions = try await RelayLogError.wrapped {
            try await storage.read { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                return switch selection {
                case .range(let range): try ReportStorage.runs(in: range, of: space.id, db)
                case .author(let author, let from): try ReportStorage.runs(of: author, in: space.id, from: from, db)
                case .reported: try ReportStorage.positions(of: space.id, after: space.horizon, in: db)
                }
            }
        }
        var outcome = SelectionOutcome()
        var done: Set<Position> = []
        for position in positions where !done.contains(position) {
            do {
                let one = try await void(position, of: name, withLater: withLater, now: now, by: by)
                done.formUnion(one.voided)
                outcome.voided.append(one)
            } catch VoidRefusal.isVoided {
                continue
            } catch let refusal as VoidRefusal {
                outcome.refused.append((position, refusal))
            }
        }
        return outcome
    }
}
