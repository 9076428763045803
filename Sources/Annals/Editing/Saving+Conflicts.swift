import AnnalsCore
import AnnalsSchema
import AnnalsStore
import GRDB

/// Finds what others changed in the rows of a save since they were read, and settles it.
extension Saving {
    private struct Found {
        var identifier: PersistentIdentifier
        var row: EditedRow
        var base: [Value]
        var mine: [Value]?
        var stored: [Value]?
        var conflict: MergeConflict
    }

    /// Plans every row that is to be written, after its conflicts are settled.
    mutating func plan() throws {
        var found: [Found] = []
        for (identifier, row) in edits.rows.lazy.filter({ $0.value.hasEdits }).sorted(by: { $0.value.order < $1.value.order }) {
            guard let table = session.catalog[identifier.table], table.columns.map(\.name) == row.table.columns.map(\.name) else {
                throw AnnalsError.editing(
                    "the schema of the table \(identifier.table) changed after its rows were read",
                    hint: "Discard the edits, fetch and edit again")
            }
            if row.isInserted {
                waiting.append(PlannedRow(identifier: identifier, row: row, action: .insert, values: row.now ?? []))
            } else if let conflict = try compare(identifier, row) {
                found.append(conflict)
            }
        }
        try settle(found)
        // Deletes come first because they free unique values. Inserts come before updates because updated rows may refer to new
        // rows.
        waiting.sort { ($0.rank, $0.row.order) < ($1.rank, $1.row.order) }
    }

    /// Plans the row if no other writer changed it; otherwise returns the conflict.
    private mutating func compare(_ identifier: PersistentIdentifier, _ row: EditedRow) throws -> Found? {
        let table = row.table
        guard let stored = try session.row(identifier.key, of: table) else {
            // Nothing to do if both sides deleted the row.
            guard let now = row.now, let base = row.base else { return nil }
            let mine = now.map { $0 ?? .null }
            return Found(
                identifier: identifier, row: row, base: base.map { $0 ?? .null }, mine: mine, stored: nil,
                conflict: conflict(identifier, table, base: base.map { $0 ?? .null }, mine: mine, stored: nil))
        }
        let base = try baseAsStored(row, stored)
        let mine = try row.now.map { now in
            try now.indices.map { columnIndex in
                guard let value = now[columnIndex], row.base?[columnIndex] != value else { return base[columnIndex] }
                return try session.asStored(value, columnIndex, of: table)
            }
        }
        if base == stored {
            plan(identifier, row, stored: stored, values: mine)
            return nil
        }
        return Found(
            identifier: identifier, row: row, base: base, mine: mine, stored: stored,
            conflict: conflict(identifier, table, base: base, mine: mine, stored: stored))
    }

    /// The base of the row in stored form. A column that was not read counts as unchanged.
    private func baseAsStored(_ row: EditedRow, _ stored: [Value]) throws -> [Value] {
        guard let base = row.base else { return stored }
        // A record that was read elsewhere is compared with what it would write for the stored row.
        let written = row.isAdopted ? try row.record.map { try Self.encode(stored, as: $0, row) } : nil
        return try stored.indices.map { columnIndex in
            guard let value = base[columnIndex], written?[columnIndex] != value else { return stored[columnIndex] }
            return row.isAdopted ? try session.asStored(value, columnIndex, of: row.table) : value
        }
    }

    private static func encode<Record: EditableRecord>(_ values: [Value], as record: Record, _ row: EditedRow) throws -> [Value?] {
        try RecordCoding.encode(RecordCoding.decode(Record.self, values, row.table, row.generated), row.table)
    }

    private func conflict(
        _ identifier: PersistentIdentifier, _ table: DeclaredTable, base: [Value], mine: [Value]?, stored: [Value]?
    ) -> MergeConflict {
        func names(_ isMeant: (Int) -> Bool) -> Set<String> {
            Set(table.columns.indices.filter(isMeant).map { table.columns[$0].name })
        }
        return MergeConflict(
            identifier: identifier, base: RowSnapshot(table, base), mine: mine.map { RowSnapshot(table, $0) },
            theirs: stored.map { RowSnapshot(table, $0) },
            theirColumns: names { columnIndex in stored.map { $0[columnIndex] != base[columnIndex] } ?? false },
            myColumns: names { columnIndex in mine.map { $0[columnIndex] != base[columnIndex] } ?? false },
            conflictingColumns: names { columnIndex in
                guard let mine, let stored else { return false }
                return mine[columnIndex] != base[columnIndex] && stored[columnIndex] != base[columnIndex]
                    && mine[columnIndex] != stored[columnIndex]
            })
    }

    private mutating func plan(_ identifier: PersistentIdentifier, _ row: EditedRow, stored: [Value]?, values: [Value]?) {
        switch (stored, values) {
        case (let stored?, let values?):
            guard stored != values else { return }
            waiting.append(PlannedRow(identifier: identifier, row: row, action: .update(from: stored), values: values))
        case (let stored?, nil):
            waiting.append(PlannedRow(identifier: identifier, row: row, action: .delete(stored: stored), values: stored))
        case (nil, let values?):
            waiting.append(PlannedRow(identifier: identifier, row: row, action: .insert, values: values))
        case (nil, nil): break
        }
    }

    // MARK: Policies

    private mutating func settle(_ found: [Found]) throws {
        guard !found.isEmpty else { return }
        var conflicts = found.map(\.conflict)
        switch policy.rule {
        case .error: break
        case .storeTrump, .objectTrump, .overwrite, .rollback:
            for index in found.indices { try settle(found[index]) }
            settledConflicts = conflicts
            return
        case .custom(let resolver): try ClosureError.passing { try resolver.resolve(optimisticLockingConflicts: &conflicts, in: db) }
        }
        let open = conflicts.filter { if case .unresolved = $0.resolution { true } else { false } }
        guard open.isEmpty else { throw AnnalsError.othersChanged(open) }
        guard conflicts.map(\.identifier) == found.map(\.identifier) else {
            throw AnnalsError.editing(
                "the merge policy resolver removed or reordered conflicts", hint: "Set each resolution; keep the number and order")
        }
        for (found, conflict) in zip(found, conflicts) { try resolve(found, conflict.resolution) }
        settledConflicts = conflicts
    }

    /// If `stored` is nil, others deleted the row; the policies that favour the store keep it deleted.
    private mutating func settle(_ found: Found) throws {
        switch policy.rule {
        case .rollback: break
        case .overwrite: plan(found.identifier, found.row, stored: found.stored, values: found.mine)
        case .storeTrump, .objectTrump:
            let trump: SaveSession.Trump = if case .storeTrump = policy.rule { .store } else { .object }
            guard let stored = found.stored, let mine = found.mine else {
                if trump == .object { plan(found.identifier, found.row, stored: found.stored, values: found.mine) }
                return
            }
            let merged = try session.merged(found.row.table, base: found.base, stored: stored, mine: mine, trump)
            plan(found.identifier, found.row, stored: stored, values: merged)
        case .error, .custom: break
        }
    }

    private mutating func resolve(_ found: Found, _ resolution: MergeConflict.Resolution) throws {
        switch resolution {
        case .unresolved, .keepStore: break
        case .keepObject: plan(found.identifier, found.row, stored: found.stored, values: found.mine)
        case .values(let values):
            let resolved = try setting(values, in: found.stored ?? found.mine ?? found.base, found.row.table)
            plan(found.identifier, found.row, stored: found.stored, values: resolved.map { $0 ?? .null })
        case .delete: plan(found.identifier, found.row, stored: found.stored, values: nil)
        }
    }

    /// Writes a resolver's values into a row, by column. Key columns are not changed.
    func setting(_ named: [String: DatabaseValue], in row: [Value?], _ table: DeclaredTable) throws -> [Value?] {
        var row = row
        for (name, value) in named {
            guard let columnIndex = table.columnIndex(of: name) else {
                throw AnnalsError.editing(
                    "the table \(table.name) has no column \(name)", hint: "The merge policy resolver set it: return existing columns only")
            }
            guard !table.primaryKey.contains(columnIndex) else { continue }
            row[columnIndex] = try session.asStored(Value(value), columnIndex, of: table)
        }
        return row
    }
}

extension PlannedRow {
    /// The rank by which rows are written: deletes, then inserts, then updates.
    var rank: Int {
        switch action {
        case .delete: 0
        case .insert: 1
        case .update: 2
        }
    }
}
