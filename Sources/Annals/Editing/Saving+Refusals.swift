import AnnalsCore
import AnnalsSchema
import AnnalsStore
import GRDB

/// Settles rows that a constraint refuses, once no other row of the save can free the value.
extension Saving {
    /// A resolver's answer to a conflict.
    struct Answer: Hashable {
        var columns: [String]
        var values: [String: DatabaseValue]
    }

    /// How often a resolver is asked for the values of one row. The limit exists because the save holds the write lock meanwhile.
    private static let answersTaken = 20

    mutating func settleRefusals() throws {
        var refused: [(planned: PlannedRow, conflict: ConstraintConflict)] = []
        for planned in waiting where planned.refusal != nil { refused.append((planned, try conflict(planned))) }
        guard !refused.isEmpty else {
            throw AnnalsError.editing(
                "new rows refer to each other in a cycle", hint: "Save one row without its reference first, then set the reference")
        }
        guard refused.allSatisfy({ $0.conflict.kind == .unique && !$0.conflict.others.isEmpty }),
            !refused.contains(where: isOwn)
        else { throw AnnalsError.refused(refused.map(\.conflict)) }
        try resolveByPolicy(&refused)
        let open = refused.map(\.conflict).filter { if case .unresolved = $0.resolution { true } else { false } }
        guard open.isEmpty else { throw AnnalsError.refused(open) }
        waiting.removeAll { $0.refusal != nil }
        for (planned, conflict) in refused {
            settledConstraints.append(conflict)
            try resolve(planned, conflict)
        }
    }

    /// Whether this save itself wrote the row with the taken value, or is about to change it. Then no other writer caused the
    /// conflict.
    private func isOwn(_ refused: (planned: PlannedRow, conflict: ConstraintConflict)) -> Bool {
        let columnIndexes = Set(refused.conflict.columns.compactMap(refused.planned.table.columnIndex(of:)))
        return refused.conflict.others.contains { other in
            let isPlanned = waiting.contains { $0.identifier == other.identifier && !$0.changed.isDisjoint(with: columnIndexes) }
            return isPlanned || !(written[other.identifier]?.isDisjoint(with: columnIndexes) ?? true)
        }
    }

    private mutating func resolveByPolicy(_ refused: inout [(planned: PlannedRow, conflict: ConstraintConflict)]) throws {
        switch policy.rule {
        case .error: break
        case .custom(let resolver):
            var conflicts = refused.map(\.conflict)
            try ClosureError.passing { try resolver.resolve(constraintConflicts: &conflicts, in: db) }
            guard conflicts.count == refused.count else {
                throw AnnalsError.editing(
                    "the merge policy resolver changed the number of conflicts", hint: "Set each resolution; do not add or remove conflicts"
                )
            }
            for index in refused.indices where isNew(conflicts[index].resolution, for: refused[index]) {
                refused[index].conflict.resolution = conflicts[index].resolution
            }
        case .storeTrump, .rollback:
            for index in refused.indices { refused[index].conflict.resolution = .keepStore }
        case .objectTrump, .overwrite:
            for index in refused.indices {
                let isNew = if case .insert = refused[index].planned.action { true } else { false }
                // No policy merges two existing rows into one. Only `overwrite` deletes one of them.
                let isOverwriting = if case .overwrite = policy.rule { true } else { false }
                if isNew ? refused[index].conflict.others.count == 1 : isOverwriting { refused[index].conflict.resolution = .keepObject }
            }
        }
    }

    /// Values that were refused once are not tried again.
    private mutating func isNew(
        _ resolution: ConstraintConflict.Resolution, for refused: (planned: PlannedRow, conflict: ConstraintConflict)
    ) -> Bool {
        guard case .values(let values) = resolution else { return true }
        var given = answers[refused.planned.identifier] ?? []
        guard given.count < Self.answersTaken, given.insert(Answer(columns: refused.conflict.columns, values: values)).inserted else {
            return false
        }
        answers[refused.planned.identifier] = given
        return true
    }

    private mutating func resolve(_ planned: PlannedRow, _ conflict: ConstraintConflict) throws {
        var planned = planned
        planned.refusal = nil
        let table = planned.table
        switch (conflict.resolution, planned.action) {
        case (.unresolved, _), (_, .delete): break
        case (.keepStore, .insert):
            names[planned.identifier] = conflict.others.first?.identifier
        case (.keepStore, .update(let stored)):
            if case .rollback = policy.rule { return }
            for name in conflict.columns {
                if let columnIndex = table.columnIndex(of: name) { planned.values[columnIndex] = stored[columnIndex] }
            }
            if planned.values != stored.map(Optional.some) { waiting.append(planned) }
        case (.keepObject, .insert):
            guard let other = conflict.others.first?.identifier, let stored = try session.row(other.key, of: table) else { return }
            names[planned.identifier] = other
            var values = zip(planned.values, stored).map { $0 ?? $1 }
            for columnIndex in table.primaryKey { values[columnIndex] = stored[columnIndex] }
            planned.identifier = other
            planned.action = .update(from: stored)
            planned.values = values
            if values != stored { waiting.append(planned) }
        case (.keepObject, .update):
            for other in conflict.others { try displace(other.identifier, table) }
            waiting.append(planned)
        case (.values(let values), _):
            planned.values = try setting(values, in: planned.values, table)
            waiting.append(planned)
        }
    }

    /// Deletes a stored row that has the unique value.
    private mutating func displace(_ identifier: PersistentIdentifier, _ table: DeclaredTable) throws {
        guard let stored = try session.row(identifier.key, of: table) else { return }
        let row = EditedRow(table: table, base: stored, now: nil, asOf: edits.newest)
        var planned = PlannedRow(identifier: identifier, row: row, action: .delete(stored: stored), values: stored)
        do {
            try db.execute(
                sql: "DELETE FROM \(table.name.quotedDatabaseIdentifier) WHERE \(table.keyCondition())",
                arguments: StatementArguments(identifier.key.map(\.databaseValue)))
        } catch let error as DatabaseError {
            guard let refusal = Refused(error) else { throw error }
            planned.refusal = refusal
            throw AnnalsError.refused([try conflict(planned)])
        }
        displaced.append(planned)
    }
}
