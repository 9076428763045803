import AnnalsCore
import AnnalsSchema
import AnnalsStore
import Synchronization

/// Child contexts, for edits that can be dropped apart from others, such as those of a sheet.
extension EditContext {
    /// A context that begins with the rows and edits of this one, and whose save gives its own edits to this context. The store is
    /// written when this context is saved.
    ///
    ///     let sheet = context.child()
    ///     try sheet.edit(invoice) { $0.isPaid = true }
    ///     try await sheet.save()      // or sheet.discard()
    ///     try await context.save()
    ///
    /// If both contexts edited a column, the child's value is taken when it saves. A child does not see later edits of its parent
    /// before `refresh` or a save. A child can have children.
    public func child() -> EditContext {
        EditContext(store, editsForChild(), author: author, contextName: contextName, mergePolicy, parent: self)
    }

    /// The edits that a child begins with. Its provisional keys are those up to the next child's.
    func editsForChild() -> EditSet {
        state.withLock { state in
            defer { state.edits.lowestKey -= Self.keysOfChild }
            return state.edits
        }
    }

    /// A record may store keys in 32 bits.
    private static let keysOfChild: Int64 = 1 << 16

    /// Runs a step between a child and its parent, after both have followed rows to their current keys.
    func withParent(_ parent: EditContext, _ body: @escaping @Sendable (inout State, inout EditSet) throws -> Void) async throws {
        try await store.readForEditing { [self] db, catalog, newest in
            try follow(db, catalog, upTo: newest)
            try state.withLock { own in
                try parent.state.withLock { theirs in
                    try body(&own, &theirs.edits)
                    theirs.edits.lowestKey -= Self.keysOfChild
                }
                own.generation += 1
            }
            parent.notify()
            notify()
        }
    }
}

extension EditContext.State {
    /// Gives new rows that the parent has saved the keys that SQLite assigned.
    mutating func followSaves(of parent: EditSet) {
        var names: [PersistentIdentifier: PersistentIdentifier] = [:]
        for identifier in edits.rows.lazy.filter(\.value.hasProvisionalKey).map(\.key) {
            let current = parent.current(identifier)
            if current != identifier { names[identifier] = current }
        }
        let stored = parent.rows.filter { names.values.contains($0.key) }.compactMapValues(\.base)
        edits.replaceKeys(names, stored)
        start?.replaceKeys(names, stored)
    }

    mutating func give(to parent: inout EditSet) throws {
        guard let start else { return }
        var taken = parent
        let deleted = try taken.take(edits, editedSince: start, restoresDeleted: false)
        guard deleted.isEmpty else {
            throw AnnalsError(
                .conflict, operation: "save",
                "the parent context has deleted rows that were edited here: \(deleted.map(\.description).joined(separator: ", "))",
                hint: "Nothing was given to it. refresh() keeps these rows, and discard() drops the edits")
        }
        parent = taken
        (edits, self.start) = (taken, taken)
    }

    /// Begins again with the parent's rows, and keeps the own edits.
    mutating func restart(from parent: EditSet) throws {
        guard let start else { return }
        var now = parent
        _ = try now.take(edits, editedSince: start, restoresDeleted: true)
        (edits, self.start) = (now, parent)
    }
}

extension EditSet {
    /// Whether a row has other values than in the set that this one began with.
    func differs(from start: EditSet) -> Bool {
        rows.contains { identifier, row in
            guard let before = start.rows[identifier] else { return row.hasEdits }
            return row.now != before.now
        } || start.rows.contains { identifier, before in rows[identifier] == nil && before.now != nil && before.base == nil }
    }

    /// Replaces provisional keys of rows that were saved, in the rows and in references to them.
    ///
    /// - Parameter stored: the saved rows.
    mutating func replaceKeys(
        _ names: [PersistentIdentifier: PersistentIdentifier], _ stored: [PersistentIdentifier: [Value?]]
    ) {
        guard !names.isEmpty else { return }
        for (old, new) in names {
            guard let table = rows[old]?.table else { continue }
            for (columnIndex, value) in zip(table.primaryKey, new.key) { rows[old]?.now?[columnIndex] = value }
            rows[old]?.hasProvisionalKey = false
            // The saved row may have been fetched since, under its new key.
            let base = rows.removeValue(forKey: new)?.base ?? stored[new] ?? rows[old]?.now
            rows[old]?.base = base
        }
        rename(names)
    }

    /// Takes the edits that a child made since it began.
    ///
    /// - Returns: rows that this set has deleted since, and the child has edited. Without `restoresDeleted` they are left as they are.
    mutating func take(
        _ child: EditSet, editedSince start: EditSet, restoresDeleted: Bool
    ) throws -> [PersistentIdentifier] {
        var deleted: [PersistentIdentifier] = []
        func columns(_ row: EditedRow) -> [String] { row.table.columns.map(\.name) }
        for (identifier, row) in child.rows.sorted(by: { $0.value.order < $1.value.order }) {
            let before = start.rows[identifier]
            guard before.map({ $0.now != row.now }) ?? row.hasEdits else { continue }
            guard [before, rows[identifier]].allSatisfy({ $0.map(columns) ?? columns(row) == columns(row) }) else {
                throw AnnalsError.editing(
                    "the table \(identifier.table) has lost a column that is edited", hint: "Discard the edits, and fetch the rows again")
            }
            guard let now = row.now else {
                delete(identifier, row)
                continue
            }
            guard var mine = rows[identifier] else {
                // The parent has forgotten the row. Its own edits of it, which the child began with, are dropped.
                guard let before, let known = before.now else {
                    add(identifier, row)
                    continue
                }
                guard let base = row.base else {
                    guard restoresDeleted else {
                        deleted.append(identifier)
                        continue
                    }
                    add(identifier, row)
                    continue
                }
                var own = row
                own.now = base.indices.map { now[$0] != known[$0] ? now[$0] : base[$0] }
                own.record = try row.record.map { try own.redecoded(as: $0) }
                add(identifier, own)
                continue
            }
            if before == nil, row.base == nil, mine.now != nil {
                throw AnnalsError.editing("the inserted row \(identifier) exists in the parent context already", hint: "Update it instead")
            }
            let known = before == nil ? row.base : before?.now
            if let theirs = mine.now {
                mine.now = theirs.indices.map { known == nil || now[$0] != known?[$0] ? now[$0] : theirs[$0] }
            } else {
                // The child has inserted a row again that was deleted before it began.
                guard restoresDeleted || before?.isDeleted ?? false else {
                    deleted.append(identifier)
                    continue
                }
                mine.now = now
            }
            // A row that the child read itself: a save compares this with what is stored.
            if before == nil, let read = row.base, let base = mine.base {
                mine.base = base.indices.map { now[$0] != known?[$0] ? read[$0] : base[$0] }
            }
            mine.record = try row.record.map { try mine.redecoded(as: $0) }
            setEdited(identifier, mine)
        }
        // New rows of this set that the child has deleted.
        for (identifier, before) in start.rows where before.isInserted && child.rows[identifier] == nil {
            delete(current(identifier), before)
        }
        lowestKey = min(lowestKey, child.lowestKey)
        return deleted
    }

    private mutating func delete(_ identifier: PersistentIdentifier, _ row: EditedRow) {
        guard var mine = rows[identifier] else {
            if row.base != nil { add(identifier, row) }
            return
        }
        guard mine.base != nil else {
            rows[identifier] = nil
            return
        }
        mine.now = nil
        mine.record = mine.record ?? row.record
        setEdited(identifier, mine)
    }

    private mutating func add(_ identifier: PersistentIdentifier, _ row: EditedRow) {
        var row = row
        row.order = 0
        setEdited(identifier, row)
    }
}

extension EditedRow {
    /// The row with its present values, as a record of the same type.
    fileprivate func redecoded(as record: any EditableRecord) throws -> any EditableRecord {
        func decoded<Record: EditableRecord>(_ record: Record) throws -> any EditableRecord { try decode(Record.self) }
        return try decoded(record)
    }
}
