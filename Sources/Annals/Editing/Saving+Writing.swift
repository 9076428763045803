import AnnalsCore
import AnnalsStore
import GRDB

/// Writes what was planned, by the records' own functions.
extension Saving {
    mutating func write() throws {
        while !waiting.isEmpty {
            let round = waiting
            waiting = []
            var isMoving = false
            for planned in round {
                if isWaitingForParent(planned, among: round) { continue }
                if try attempt(planned) { isMoving = true }
            }
            guard !isMoving, !waiting.isEmpty else { continue }
            try settleRefusals()
        }
    }

    /// A new row that it refers to may get another key, or give way to a stored one. Two that refer to each other wait for nobody.
    private mutating func isWaitingForParent(_ planned: PlannedRow, among round: [PlannedRow]) -> Bool {
        if case .delete = planned.action { return false }
        let parents = Set(planned.row.references(in: planned.values).map(\.parent)).subtracting([planned.identifier])
        guard !parents.isEmpty else { return false }
        let isWaiting = round.contains { other in
            guard case .insert = other.action, parents.contains(other.identifier) else { return false }
            return written[other.identifier] == nil && names[other.identifier] == nil && !refers(other, to: planned.identifier)
        }
        guard isWaiting else { return false }
        var patient = planned
        patient.refusal = nil
        waiting.append(patient)
        return true
    }

    private func refers(_ planned: PlannedRow, to identifier: PersistentIdentifier) -> Bool {
        planned.row.references(in: planned.values).contains { $0.parent == identifier }
    }

    /// Writes one row; false where a constraint refuses it, which then waits.
    private mutating func attempt(_ planned: PlannedRow) throws -> Bool {
        var planned = planned
        let (names, asked) = (names, planned.identifier)
        planned.values = planned.row.referring(planned.values) { names[$0] ?? $0 }
        if case .insert = planned.action { planned.identifier = planned.table.identifier(of: planned.values.map { $0 ?? .null }) }
        do {
            var identifier = planned.identifier
            try db.inSavepoint {
                identifier = try perform(planned)
                return .commit
            }
            if identifier != asked { self.names[asked] = identifier }
            written[asked] = planned.changed
            written[identifier] = planned.changed
            return true
        } catch let error as DatabaseError {
            guard let refusal = Refused(error) else { throw error }
            planned.refusal = refusal
            waiting.append(planned)
            return false
        } catch let error as AnnalsError {
            throw error
        } catch is RecordError {
            throw AnnalsError.refused([
                ConstraintConflict(
                    kind: .foreignKey, table: planned.table.name, identifier: planned.identifier, name: nil, columns: [], values: [:],
                    mine: planned.mine, others: [])
            ])
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            throw AnnalsError.validation(planned.identifier, error)
        }
    }

    /// Returns what the row is called now.
    private func perform(_ planned: PlannedRow) throws -> PersistentIdentifier {
        guard let record = planned.row.record else { return planned.identifier }
        switch planned.action {
        case .delete(let stored): try delete(record, planned, stored)
        case .insert: return try insert(record, planned)
        case .update(let stored): try update(record, planned, stored)
        }
        return planned.identifier
    }

    private func delete<Record: EditableRecord>(_ record: Record, _ planned: PlannedRow, _ stored: [Value]) throws {
        // It may be gone with its parent.
        try Self.fitting(record, stored, planned, planned.table.primaryKey).delete(db)
    }

    private func insert<Record: EditableRecord>(_ record: Record, _ planned: PlannedRow) throws -> PersistentIdentifier {
        let table = planned.table
        var values = planned.values
        let isProvisional = start.isProvisional(planned.identifier)
        if isProvisional, let place = table.rowidAlias { values[place] = .null }
        var inserted = try Self.fitting(record, values, planned, table.columns.indices)
        try inserted.insert(db, onConflict: .abort)
        let rowid = db.lastInsertedRowID
        guard isProvisional, let place = table.rowidAlias else {
            try complete(planned.identifier, table, values, written: inserted)
            return planned.identifier
        }
        // What the record noted itself, or else SQLite's number: in its `didInsert` it may have inserted something else.
        var key = try RecordCoding.encode(inserted, table)[place] ?? .null
        if key.isNull { key = .integer(rowid) }
        return PersistentIdentifier(table: table.name, key: [key])
    }

    private func update<Record: EditableRecord>(_ record: Record, _ planned: PlannedRow, _ stored: [Value]) throws {
        let table = planned.table
        let changed = stored.indices.filter { planned.values[$0] != stored[$0] }
        let fitting = try Self.fitting(record, planned.values, planned, changed + table.primaryKey)
        let encoded = try RecordCoding.encode(fitting, table)
        let own = changed.filter { encoded[$0] != nil }
        if !own.isEmpty { try fitting.update(db, onConflict: .abort, columns: own.map { table.columns[$0].name }) }
        try complete(planned.identifier, table, planned.values, written: fitting)
    }

    /// Writes the columns that the record type does not have.
    private func complete<Record: EditableRecord>(
        _ identifier: PersistentIdentifier, _ table: DeclaredTable, _ values: [Value?], written: Record
    ) throws {
        let encoded = try RecordCoding.encode(written, table)
        let rest = values.indices.filter { values[$0] != nil && encoded[$0] == nil }
        guard !rest.isEmpty, let stored = try session.row(identifier.key, of: table) else { return }
        let changed = rest.filter { values[$0] != stored[$0] }
        guard !changed.isEmpty else { return }
        func assignments(_ places: [Int], _ separator: String) -> String {
            places.map { "\(table.columns[$0].name.quotedDatabaseIdentifier) = ?" }.joined(separator: separator)
        }
        try db.execute(
            sql: """
                UPDATE \(table.name.quotedDatabaseIdentifier) SET \(assignments(changed, ", "))
                WHERE \(assignments(table.primaryKey, " AND "))
                """,
            arguments: StatementArguments(changed.map { (values[$0] ?? .null).databaseValue } + identifier.key.map(\.databaseValue)))
    }

    /// The app's record, as long as it would write these values; else one that is made from them.
    private static func fitting<Record: EditableRecord>(
        _ record: Record, _ values: [Value?], _ planned: PlannedRow, _ places: some Sequence<Int>
    ) throws -> Record {
        let encoded = try RecordCoding.encode(record, planned.table)
        let given = planned.row.now
        // What it was given is stored in the column's own form, so what the app handed in counts as fitting too.
        let isFitting = places.allSatisfy { place in
            encoded[place] == nil || encoded[place] == values[place]
                || (given?[place] == encoded[place] && isSame(values[place], encoded[place]))
        }
        if isFitting { return record }
        return try RecordCoding.decode(Record.self, values, planned.table, planned.row.generated)
    }

    /// Whether one is the other as a column with an affinity stores it.
    private static func isSame(_ stored: Value?, _ written: Value?) -> Bool {
        guard let stored, let written else { return false }
        return stored.databaseValue == written.databaseValue
    }

    // MARK: What constraints refuse

    private mutating func settleRefusals() throws {
        var refused: [(planned: PlannedRow, conflict: ConstraintConflict)] = []
        for planned in waiting where planned.refusal != nil { refused.append((planned, try conflict(planned))) }
        guard !refused.isEmpty else {
            throw AnnalsError.editing("new rows refer to each other in a circle", hint: "Save one of them first")
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

    /// Whether this very save gave the holder its value, or is to take it away: nobody else is in the way.
    private func isOwn(_ refused: (planned: PlannedRow, conflict: ConstraintConflict)) -> Bool {
        let places = Set(refused.conflict.columns.compactMap(refused.planned.table.place(of:)))
        return refused.conflict.others.contains { other in
            let isPlanned = waiting.contains { $0.identifier == other.identifier && !$0.changed.isDisjoint(with: places) }
            return isPlanned || !(written[other.identifier]?.isDisjoint(with: places) ?? true)
        }
    }

    private func resolveByPolicy(_ refused: inout [(planned: PlannedRow, conflict: ConstraintConflict)]) throws {
        switch policy.rule {
        case .error: break
        case .custom(let resolver):
            var conflicts = refused.map(\.conflict)
            try resolver.resolve(constraintConflicts: &conflicts, in: db)
            guard conflicts.count == refused.count else {
                throw AnnalsError.editing("a merge policy took conflicts away", hint: "Set the resolution of each, and leave their order")
            }
            for place in refused.indices { refused[place].conflict.resolution = conflicts[place].resolution }
        case .storeTrump, .rollback:
            for place in refused.indices { refused[place].conflict.resolution = .keepStore }
        case .objectTrump, .overwrite:
            for place in refused.indices {
                let isNew = if case .insert = refused[place].planned.action { true } else { false }
                // Two rows that exist are made one by nobody; only overwriting says that one goes.
                let isOverwriting = if case .overwrite = policy.rule { true } else { false }
                if isNew ? refused[place].conflict.others.count == 1 : isOverwriting { refused[place].conflict.resolution = .keepObject }
            }
        }
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
                if let place = table.place(of: name) { planned.values[place] = stored[place] }
            }
            if planned.values != stored.map(Optional.some) { waiting.append(planned) }
        case (.keepObject, .insert):
            guard let other = conflict.others.first?.identifier, let stored = try session.row(other.key, of: table) else { return }
            names[planned.identifier] = other
            var values = zip(planned.values, stored).map { $0 ?? $1 }
            for place in table.primaryKey { values[place] = stored[place] }
            planned.identifier = other
            planned.action = .update(from: stored)
            planned.values = values
            if values != stored { waiting.append(planned) }
        case (.keepObject, .update):
            for other in conflict.others {
                let conditions = table.primaryKey.map { "\(table.columns[$0].name.quotedDatabaseIdentifier) = ?" }
                try db.execute(
                    sql: "DELETE FROM \(table.name.quotedDatabaseIdentifier) WHERE \(conditions.joined(separator: " AND "))",
                    arguments: StatementArguments(other.identifier.key.map(\.databaseValue)))
            }
            waiting.append(planned)
        case (.values(let values), _):
            planned.values = try setting(values, in: planned.values, table)
            waiting.append(planned)
        }
    }
}
