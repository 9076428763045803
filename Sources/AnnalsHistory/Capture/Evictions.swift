package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Finds the rows that a REPLACE removed without running a trigger, and writes raw changes for their deletion.
///
/// The BEFORE triggers noted every row that conflicted with an insert or a change of key. Three things show what happened to it:
/// the note (it existed, with these values), the raw changes of its key, and its current row. A row that appeared more often than
/// it disappeared, counting its start and its current state, was removed without a trigger. This also works for UPSERT, OR IGNORE
/// and recursive_triggers, where no raw change is missing, and for any writes of a program's own triggers.
package struct Evictions {
    private let db: Database
    private let table: TrackedTable
    /// The current names of the table and its columns, in the list's order.
    private let present: TableName
    private let open: UnrecordedRange

    package struct TableName {
        package var name: String
        package var columns: [String]
    }

    /// nil for `named` means the names in annals_tables.
    package init(_ db: Database, table: TrackedTable, open: UnrecordedRange, named present: TableName? = nil) {
        self.db = db
        self.table = table
        self.open = open
        self.present = present ?? TableName(name: table.name, columns: table.columns)
    }

    /// Writes the missing deletes, deletes the notes, and returns the id of the newest raw change.
    ///
    /// - Parameter missed: gets the places of the deletes.
    package func conclude(_ order: RawChangeOrder, _ missed: inout MissedChanges) throws -> Int64 {
        var newest = open.newest
        let reader = try RawChangeReader(cachedIn: db, table)
        let presentRow = try PresentRow(db, table, present)
        let writer = try RawChangeWriter(db, table)
        let time = try db.cachedStatement(sql: "SELECT at FROM main.\(StoreSchema.changesTable(table.id)) WHERE id = ?")
        var known: Bool?
        func hasOtherKeys() throws -> Bool {
            let found = try known ?? SchemaReader(db).table(present.name).map { !$0.uniqueIndexes.isEmpty } ?? true
            known = found
            return found
        }
        try forEachNote { note, changes in
            let changes = try changes.compactMap { try reader.change($0) }
            for (identity, slot) in slots(of: note, changes) {
                let isNoted = identity == exactIdentity(note.row, note.rowid)
                let account = Account(slot: slot, noted: isNoted ? note : nil, present: try presentRow.row(of: identity))
                let evictions = account.evictions(order)
                // A row has one note if no writer gave its name.
                let marks = try evictions.isEmpty || !missed.areDivided ? [note.mark] : marks(of: note)
                for eviction in evictions {
                    newest += 1
                    let change = RawChange(
                        id: newest, old: eviction.state.row, new: nil, oldRowid: eviction.state.rowid, precedes: eviction.precedes)
                    let place = place(of: eviction, account.slot.edges, marks)
                    missed.add(newest, at: place)
                    // The row was removed when the next row with its key came, or by a row with another key at an unknown time.
                    guard let next = eviction.precedes, try place >= next || !hasOtherKeys() else {
                        try writer.write(change, at: nil)
                        continue
                    }
                    try writer.write(change, at: Double.fetchOne(time, arguments: [next]))
                }
            }
        }
        try open.notes.forget(table.id, db)
        return newest
    }

    /// The first raw change that can have removed a row: the one after the row's last change, and after the last attempt of a writer
    /// to replace it. Every writer that meets the row notes it.
    private func place(of eviction: Eviction, _ edges: [RowEdge], _ marks: [Int64]) -> Int64 {
        let next = eviction.precedes ?? .max
        func last(_ ids: some RandomAccessCollection<Int64>) -> Int64 { ids[..<ids.partitioningIndex { $0 >= next }].last ?? 0 }
        return max(last(edges.lazy.map(\.id)), last(marks)) + 1
    }

    /// The newest raw changes at the times of all notes of the row, one for each writer that met it, in their order.
    private func marks(of note: Note) throws -> [Int64] {
        let name = open.notes.name
        let sql = """
            SELECT coalesce(o.mark, 0) FROM main.\(name) AS n JOIN main.\(name) AS o
            ON o.list = n.list AND o.key IS n.key AND (n.key IS NOT NULL OR o.ro = n.ro) WHERE n.id = ? ORDER BY 1
            """
        return try Int64.fetchAll(db.cachedStatement(sql: sql), arguments: [note.id])
    }

    package struct Note {
        package var id: Int64
        package var row: [Value]
        package var rowid: Int64?
        /// The newest raw change at the time of the first note of the row.
        package var mark: Int64
    }

    // MARK: Reading

    /// Raw changes by exact key, for all keys that share the note. 1 and 1.0 are different rows. If the key has one column, they share a
    /// note; see `NotesTable.keySQL`.
    private func slots(of note: Note, _ changes: [RawChange]) -> [(RowIdentity, RowSlot)] {
        let noted = exactIdentity(note.row, note.rowid)
        let shared = IdentityRule(key: table.key.columnIndexes, collations: table.key.columnIndexes.map { _ in Collation.binary })
        let kin = shared.identity(of: note.row, rowid: note.rowid)
        func sharesNote(_ identity: RowIdentity, _ row: [Value], _ rowid: Int64?) -> Bool {
            table.key.columnIndexes.count == 1 ? shared.identity(of: row, rowid: rowid) == kin : identity == noted
        }
        var slots: [(RowIdentity, RowSlot)] = [(noted, RowSlot())]
        func append(_ edge: RowEdge, at identity: RowIdentity) {
            if let index = slots.firstIndex(where: { $0.0 == identity }) {
                slots[index].1.append(edge)
            } else {
                slots.append((identity, RowSlot()))
                slots[slots.count - 1].1.append(edge)
            }
        }
        for change in changes {
            let from = change.old.map { exactIdentity($0, change.oldRowid) }
            let to = change.new.map { exactIdentity($0, change.newRowid) }
            let old = change.old.map { RowState($0, of: from) }
            let new = change.new.map { RowState($0, of: to) }
            if let from, from == to {
                append(RowEdge(id: change.id, from: old, to: new, leftOut: change.leftOut), at: from)
                continue
            }
            if let from, let row = change.old, sharesNote(from, row, change.oldRowid) {
                append(RowEdge(id: change.id, from: old, to: nil), at: from)
            }
            if let to, let row = change.new, sharesNote(to, row, change.newRowid) {
                append(RowEdge(id: change.id, from: nil, to: new), at: to)
            }
        }
        return slots
    }

    private func exactIdentity(_ row: [Value], _ rowid: Int64?) -> RowIdentity {
        let key = table.key.columnIndexes.map { row[$0] }
        if let rowid, key.contains(where: \.isNull) { return .rowid(rowid) }
        return .key(key)
    }

    /// Passes the first note of every row with the ids of the unrecorded raw changes of its key.
    private func forEachNote(_ body: (Note, [Int64]) throws -> Void) throws {
        let isByRowid = table.key.isByRowid
        let name = open.notes.name
        let notes = try db.cachedStatement(
            sql: """
                SELECT id, mark, ro, \(table.columns.indices.map { "o\($0)" }.joined(separator: ", ")) FROM main.\(name) AS n
                WHERE list = \(table.id) AND NOT EXISTS (
                  SELECT 1 FROM main.\(name) AS e
                  WHERE e.list = n.list AND e.key IS n.key AND (n.key IS NOT NULL OR e.ro = n.ro) AND e.id < n.id)
                ORDER BY id
                """)
        let changes = try db.cachedStatement(sql: changesByNoteSQL)
        try changes.setArguments([open.recorded, open.newest, open.recorded, open.newest])
        defer {
            notes.rewind()
            changes.rewind()
        }
        var hasChange = try changes.step()
        while try notes.step() {
            let id = notes.integer(at: 0)
            let row = notes.values(at: 3..<(3 + table.columns.count))
            let hasNull = table.key.columnIndexes.contains { row[$0].isNull }
            let rowid = isByRowid && hasNull ? notes.integer(at: 2) : nil
            let note = Note(id: id, row: row, rowid: rowid, mark: notes.integer(at: 1))
            var ids: [Int64] = []
            while hasChange, changes.integer(at: 0) == id {
                ids.append(changes.integer(at: 1))
                hasChange = try changes.step()
            }
            try body(note, ids)
        }
    }

    /// Pairs of the id of a row's first note and a raw change's id. SQLite sorts them, and uses a file if they do not fit in memory.
    private var changesByNoteSQL: String {
        func half(_ letter: String, except operation: StoreSchema.Operation) -> String {
            let key = NotesTable.keySQL(table.key.columnIndexes.map { "c.\(letter)\($0)" }, mayBeNull: table.key.isByRowid)
            let hasRowid = table.key.isByRowid ? " AND (n.key IS NOT NULL OR n.ro = c.r\(letter))" : ""
            return """
                SELECT note, id FROM (
                  SELECT c.id AS id, (
                    SELECT n.id FROM main.\(open.notes.name) AS n WHERE n.list = \(table.id) AND n.key IS \(key)\(hasRowid)
                    ORDER BY n.mark, n.id LIMIT 1) AS note
                  FROM main.\(StoreSchema.changesTable(table.id)) AS c WHERE c.id > ? AND c.id <= ? AND c.op <> \(operation.rawValue))
                WHERE note IS NOT NULL
                """
        }
        return "\(half("o", except: .insert))\nUNION\n\(half("n", except: .delete))\nORDER BY 1, 2"
    }

    /// Finds the current row of the tracked table.
    private struct PresentRow {
        let byKey: Statement
        let byRowid: Statement?
        let table: TrackedTable

        init(_ db: Database, _ table: TrackedTable, _ present: TableName) throws {
            self.table = table
            let columns = present.columns.map(SQL.quote).joined(separator: ", ")
            let select = "SELECT \(columns) FROM main.\(SQL.quote(present.name)) WHERE"
            // A row with the same bytes is looked for. BINARY finds it too, but SQLite reads all rows for that. So it is used only if the
            // program that wrote has a collation that this one does not have.
            let isKnown = table.key.collations.allSatisfy { Collation.isKnown($0, db) }
            let key = zip(table.key.columnIndexes, table.key.collations).map { columnIndex, collation in
                "\(SQL.quote(present.columns[columnIndex])) = ? COLLATE \(SQL.quote(isKnown ? collation : Collation.binary))"
            }.joined(separator: " AND ")
            byKey = try db.cachedStatement(sql: "\(select) \(key)")
            let rowid = table.key.isByRowid ? try SchemaReader(db).table(present.name)?.rowidName : nil
            byRowid = try rowid.map { try db.cachedStatement(sql: "\(select) \(SQL.quote($0)) = ?") }
        }

        /// nil if no row has a key with the same bytes.
        func row(of identity: RowIdentity) throws -> RowState? {
            let statement: Statement
            switch identity {
            case .key(let key):
                statement = byKey
                for (index, value) in key.enumerated() { try statement.bind(value, at: index + 1) }
            case .rowid(let rowid):
                guard let byRowid else { return nil }
                statement = byRowid
                try statement.bind(.integer(rowid), at: 1)
            }
            defer { statement.rewind() }
            guard try statement.step() else { return nil }
            let row = statement.values(at: 0..<table.columns.count)
            let key = table.key.columnIndexes.map { row[$0] }
            switch identity {
            case .key(let wanted): return key == wanted ? RowState(row, of: identity) : nil
            case .rowid: return key.contains(where: \.isNull) ? RowState(row, of: identity) : nil
            }
        }
    }
}
