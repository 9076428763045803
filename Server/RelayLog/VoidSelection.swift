package import AnnalsCore

/// Which entries one command voids.
package enum VoidSelection: Sendable, Hashable {
    /// Those at these positions, with all that came in the same batches.
    case range(ClosedRange<Position>)
    /// Those of one author from a position on, with all that came in the same batches.
    case author(ReplicaID, from: Position)
    /// Those that receivers reported.
    case reported
}

/// What became of the entries of a selection, in the order in which they were tried: the newest first, since an older one is not
/// voided while later work may rest on it.
package struct SelectionOutcome: Sendable {
    package var voided: [VoidOutcome] = []
    package var refused: [(position: Position, refusal: VoidRefusal)] = []
}

extension RelayDatabase {
    /// Voids entries one after another, each in a transaction and with an audit line of its own. What is void already is passed over;
    /// one that is refused does not keep the others from being voided.
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
