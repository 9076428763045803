import AnnalsCore
import AnnalsSchema
import AnnalsStore
import GRDB

/// Writes the planned rows with the records' own functions.
extension Saving {
    mutating func write() throws {
        while !waiting.isEmpty {
            let round = waiting
            waiting = []
            if try !attempt(all: round), !waiting.isEmpty { try settleRefusals() }
        }
    }

    /// Writes each row after the rows that it waits for: new rows that it refers to, and rows that hold a unique value it needs.
    private mutating func attempt(all round: [PlannedRow]) throws -> Bool {
        var pending = Dictionary(round.map { ($0.identifier, $0) }, uniquingKeysWith: { $1 })
        // A child that moves to another parent must be written before its old parent is deleted, or the cascade would delete it.
        var leaving: [PersistentIdentifier: [PersistentIdentifier]] = [:]
        for planned in round { for parent in planned.leftParents { leaving[parent, default: []].append(planned.identifier) } }
        var blocked: [PersistentIdentifier: [PlannedRow]] = [:]
        var isMoving = false
        for planned in round {
            var ready = [planned]
            while let next = ready.popLast() {
                if let other = parent(of: next, among: pending) ?? leaving[next.identifier]?.first(where: { pending[$0] != nil }) {
                    var patient = next
                    patient.refusal = nil
                    blocked[other, default: []].append(patient)
                } else if let refused = try attempt(next) {
                    if let holder = try holder(inTheWayOf: refused, among: pending) {
                        blocked[holder, default: []].append(refused)
                    } else {
                        waiting.append(refused)
                    }
                } else {
                    isMoving = true
                    pending[next.identifier] = nil
                    ready += (blocked.removeValue(forKey: next.identifier) ?? []).reversed()
                }
            }
        }
        waiting += blocked.values.flatMap(\.self)
        waiting.sort { ($0.rank, $0.row.order) < ($1.rank, $1.row.order) }
        return isMoving
    }

    /// A new parent may get another key, or be dropped in favour of a stored row, so its child waits for it. Two rows that refer
    /// to each other do not wait.
    private func parent(
        of planned: PlannedRow, among pending: [PersistentIdentifier: PlannedRow]
    ) -> PersistentIdentifier? {
        if case .delete = planned.action { return nil }
        return planned.row.references(in: planned.values).map(\.parent).first { parent in
            guard parent != planned.identifier, let other = pending[parent], case .insert = other.action else { return false }
            return !refers(other, to: planned.identifier)
        }
    }

    /// A row of this save that has the value and is not written yet.
    private func holder(
        inTheWayOf refused: PlannedRow, among pending: [PersistentIdentifier: PlannedRow]
    ) throws -> PersistentIdentifier? {
        guard refused.refusal?.kind == .unique else { return nil }
        let holders = try session.holders(of: refused.values.map { $0 ?? .null }, in: refused.table, exceptKey: refused.ownKey)
        return holders.lazy.map { refused.table.identifier(of: $0.row) }.first { $0 != refused.identifier && pending[$0] != nil }
    }

    private func refers(_ planned: PlannedRow, to identifier: PersistentIdentifier) -> Bool {
        planned.row.references(in: planned.values).contains { $0.parent == identifier }
    }

    /// Writes one row, or returns it with the constraint that refuses it.
    private mutating func attempt(_ asPlanned: PlannedRow) throws -> PlannedRow? {
        var planned = asPlanned
        let (names, asked) = (names, planned.identifier)
        planned.values = planned.row.referring(planned.values, only: planned.changed) { names[$0] ?? $0 }
        if case .insert = planned.action { planned.identifier = planned.table.identifier(of: planned.values.map { $0 ?? .null }) }
        do {
            var identifier = planned.identifier
            try db.inSavepoint {
                identifier = try perform(planned)
                return .commit
            }
            if identifier != asked { self.names[asked] = identifier }
            if case .insert = planned.action { made.insert(identifier) }
            written[asked] = planned.changed
            written[identifier] = planned.changed
            return nil
        } catch let error as DatabaseError {
            guard let refusal = Refused(error) else { throw error }
            planned.refusal = refusal
            planned.identifier = asked
            return planned
        } catch let error as AnnalsError {
            throw error
        } catch is RecordError {
            // The row was deleted together with a parent that this save deletes.
            if try session.row(planned.identifier.key, of: planned.table) == nil { return nil }
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

    /// Returns the identifier of the written row.
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
        // The row may be deleted already, together with its parent.
        try Self.fitting(record, stored, planned, planned.table.primaryKey).delete(db)
    }

    private func insert<Record: EditableRecord>(_ record: Record, _ planned: PlannedRow) throws -> PersistentIdentifier {
        let table = planned.table
        var values = planned.values
        let isProvisional = planned.row.hasProvisionalKey
        if isProvisional, let columnIndex = table.rowidAlias { values[columnIndex] = .null }
        var inserted = try Self.fitting(record, values, planned, table.columns.indices)
        try inserted.insert(db, onConflict: .abort)
        let rowid = db.lastInsertedRowID
        guard isProvisional, let columnIndex = table.rowidAlias else {
            try complete(planned.identifier, table, values, written: inserted)
            return planned.identifier
        }
        // The key that the record stored itself, or else SQLite's number. The record's `didInsert` may have inserted another row,
        // which would change SQLite's number.
        var key = try RecordCoding.encode(inserted, table)[columnIndex] ?? .null
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
        let assignments = changed.enumerated().map { number, columnIndex in
            "\(table.columns[columnIndex].name.quotedDatabaseIdentifier) = ?\(table.primaryKey.count + number + 1)"
        }
        try db.execute(
            sql: """
                UPDATE \(table.name.quotedDatabaseIdentifier) SET \(assignments.joined(separator: ", "))
                WHERE \(table.keyCondition())
                """,
            arguments: StatementArguments(identifier.key.map(\.databaseValue) + changed.map { (values[$0] ?? .null).databaseValue }))
    }

    /// The app's record if it would write these values; otherwise a record made from the values.
    private static func fitting<Record: EditableRecord>(
        _ record: Record, _ values: [Value?], _ planned: PlannedRow, _ columnIndexes: some Sequence<Int>
    ) throws -> Record {
        let encoded = try RecordCoding.encode(record, planned.table)
        let given = planned.row.now
        // The column's affinity may store a value in another form. So a value that the app set and that is stored as expected
        // counts as equal.
        let isFitting = columnIndexes.allSatisfy { columnIndex in
            encoded[columnIndex] == nil || encoded[columnIndex] == values[columnIndex]
                || (given?[columnIndex] == encoded[columnIndex] && isSame(values[columnIndex], encoded[columnIndex]))
        }
        if isFitting { return record }
        return try RecordCoding.decode(Record.self, values, planned.table, planned.row.generated)
    }

    /// Whether a column with an affinity stores the written value as the stored one.
    private static func isSame(_ stored: Value?, _ written: Value?) -> Bool {
        guard let stored, let written else { return false }
        return stored.databaseValue == written.databaseValue
    }
}
