internal import AnnalsCore
internal import GRDB

/// Finds the rows that a REPLACE removed without any trigger running, and writes down their deletion.
///
/// The BEFORE triggers noted every row that stood in the way of an insert or a change of key. What became of it is seen
/// from three things: the note (it was there, and looked so), the raw changes of its key, and the table as it is now.
/// A row that comes to be more often than it ceases, counting what was there before and what is there now, was removed
/// unseen. That holds for UPSERT, OR IGNORE and recursive_triggers as well, where nothing is missing, and whatever a
/// program's own triggers did in between and in which order.
struct Evictions {
    private let db: Database
    private let table: TrackedTable
    /// How the table and its columns, in the list's order, are called now.
    private let present: TableName
    private let open: OpenTable

    struct TableName {
        var name: String
        var columns: [String]
    }

    /// nil `named`: under the names in annals_tables.
    init(_ db: Database, table: TrackedTable, open: OpenTable, named present: TableName? = nil) {
        self.db = db
        self.table = table
        self.open = open
        self.present = present ?? TableName(name: table.name, columns: table.columns)
    }

    /// Writes down what is missing, forgets the notes, and returns the id of the newest raw change.
    func conclude() throws -> Int64 {
        var newest = open.newest
        let reader = try RawChangeReader(cachedIn: db, table)
        let presentRow = try PresentRow(db, table, present)
        let writer = try RawChangeWriter(db, table)
        let day = try Double.fetchOne(
            db, sql: "SELECT at FROM main.\(StoreSchema.changesTable(table.id)) WHERE id = ?", arguments: [open.newest])
        try forEachNote { note, changes in
            let changes = try changes.compactMap { try reader.change($0) }
            for (identity, slot) in slots(of: note, changes) {
                let isNoted = identity == exactIdentity(note.row, note.rowid)
                let missing = Self.missing(in: slot, noted: isNoted ? note : nil, present: try presentRow.row(of: identity))
                for state in missing {
                    newest += 1
                    try writer.write(RawChange(id: newest, old: state.row, new: nil, oldRowid: state.rowid), at: day)
                }
            }
        }
        try Self.forget(db, table.id)
        return newest
    }

    /// Forgets the notes of a column list.
    static func forget(_ db: Database, _ id: Int64) throws {
        try db.execute(sql: "DELETE FROM main.\(StoreSchema.notesTable(id))")
    }

    // MARK: The conclusion

    struct Note {
        var row: [Value]
        var rowid: Int64?
        /// The newest raw change when the row was seen.
        var mark: Int64
    }

    /// The states of one key whose removal no raw change tells.
    ///
    /// `slot` has the raw changes of the key in their order, `noted` how the row was once seen, `present` how it is.
    static func missing(in slot: RowSlot, noted: Note?, present: RowState?) -> [RowState] {
        let arrivals = slot.edges.count { $0.from == nil }
        let departures = slot.edges.count { $0.to == nil }
        var balance = slot.balance()
        if let present { balance[present, default: 0] -= 1 }
        var began = false
        if let noted, slot.edges.first.map({ $0.id > noted.mark }) ?? true {
            began = true
            balance[RowState(noted.row, rowid: noted.rowid), default: 0] += 1
        } else {
            began = self.began(slot, balance)
        }
        let count = arrivals - departures + (began ? 1 : 0) - (present == nil ? 0 : 1)
        guard count > 0 else { return [] }
        var missing: [RowState] = []
        var candidates = slot.edges.compactMap(\.to).reversed() + (noted.map { [RowState($0.row, rowid: $0.rowid)] } ?? [])
        candidates = candidates.filter { balance[$0, default: 0] > 0 }
        for state in candidates where missing.count < count && balance[state, default: 0] > 0 {
            balance[state, default: 0] -= 1
            missing.append(state)
        }
        return missing
    }

    /// Whether a row was there before the first raw change of its key.
    private static func began(_ slot: RowSlot, _ balance: [RowState: Int]) -> Bool {
        guard let first = slot.edges.first?.from else { return false }
        // An update may stand before the insert of the row it changed, when a program's trigger ran before ours.
        let arrived = slot.edges.contains { $0.from == nil && $0.to == first }
        return !arrived || balance[first, default: 0] < 0
    }

    // MARK: Reading

    /// Raw changes by exact key: under NOCASE 'a' and 'A' share a note but are different rows.
    private func slots(of note: Note, _ changes: [RawChange]) -> [(RowIdentity, RowSlot)] {
        let noted = exactIdentity(note.row, note.rowid)
        var slots: [(RowIdentity, RowSlot)] = [(noted, RowSlot())]
        func append(_ edge: RowEdge, at identity: RowIdentity) {
            if let index = slots.firstIndex(where: { $0.0 == identity }) {
                slots[index].1.edges.append(edge)
            } else {
                slots.append((identity, RowSlot(edges: [edge])))
            }
        }
        for change in changes {
            let from = change.old.map { exactIdentity($0, change.oldRowid) }
            let to = change.new.map { exactIdentity($0, change.newRowid) }
            let old = change.old.map { RowState($0, of: from) }
            let new = change.new.map { RowState($0, of: to) }
            if let from, from == to {
                append(RowEdge(id: change.id, from: old, to: new), at: from)
            } else {
                if let from { append(RowEdge(id: change.id, from: old, to: nil), at: from) }
                if let to { append(RowEdge(id: change.id, from: nil, to: new), at: to) }
            }
        }
        return slots
    }

    private func exactIdentity(_ row: [Value], _ rowid: Int64?) -> RowIdentity {
        let key = table.key.places.map { row[$0] }
        if let rowid, key.contains(where: \.isNull) { return .rowid(rowid) }
        return .key(key)
    }

    /// Hands out every note with the ids of the open raw changes of its key.
    private func forEachNote(_ body: (Note, [Int64]) throws -> Void) throws {
        let isByRowid = table.key.isByRowid
        let columns = StoreSchema.notesColumns(table.columns.count, byRowid: isByRowid).joined(separator: ", ")
        let notes = try db.cachedStatement(sql: "SELECT \(columns) FROM main.\(StoreSchema.notesTable(table.id)) ORDER BY id")
        let changes = try db.cachedStatement(sql: changesByNoteSQL)
        try changes.setArguments([open.sealed, open.newest, open.sealed, open.newest])
        defer {
            notes.rewind()
            changes.rewind()
        }
        var hasChange = try changes.step()
        let first = isByRowid ? 3 : 2
        while try notes.step() {
            let id = notes.integer(at: 0)
            let row = notes.values(at: first..<(first + table.columns.count))
            let hasNull = table.key.places.contains { row[$0].isNull }
            let note = Note(row: row, rowid: isByRowid && hasNull ? notes.integer(at: 2) : nil, mark: notes.integer(at: 1))
            var ids: [Int64] = []
            while hasChange, changes.integer(at: 0) == id {
                ids.append(changes.integer(at: 1))
                hasChange = try changes.step()
            }
            try body(note, ids)
        }
    }

    /// Pairs of a note's id and a raw change's, sorted by SQLite, which keeps what does not fit in memory in a file.
    private var changesByNoteSQL: String {
        let notes = StoreSchema.notesTable(table.id)
        func half(_ letter: String, except operation: StoreSchema.Operation) -> String {
            var match = table.key.places.map { "n.o\($0) IS c.\(letter)\($0)" }
            if table.key.isByRowid {
                let hasKey = SQL.balanced(table.key.places.map { "n.o\($0) IS NOT NULL" }, operator: "AND")
                match.append("(n.ro = c.r\(letter) OR \(hasKey))")
            }
            return """
                SELECT n.id, c.id FROM main.\(StoreSchema.changesTable(table.id)) AS c CROSS JOIN main.\(notes) AS n
                ON \(match.joined(separator: " AND "))
                WHERE c.id > ? AND c.id <= ? AND c.op <> \(operation.rawValue)
                """
        }
        return "\(half("o", except: .insert))\nUNION\n\(half("n", except: .delete))\nORDER BY 1, 2"
    }

    /// Looks up a row of the tracked table as it is now.
    private struct PresentRow {
        let byKey: Statement
        let byRowid: Statement?
        let table: TrackedTable

        init(_ db: Database, _ table: TrackedTable, _ present: TableName) throws {
            self.table = table
            let columns = present.columns.map(SQL.quote).joined(separator: ", ")
            let select = "SELECT \(columns) FROM main.\(SQL.quote(present.name)) WHERE"
            let key = table.key.places.map { "\(SQL.quote(present.columns[$0])) = ?" }.joined(separator: " AND ")
            byKey = try db.cachedStatement(sql: "\(select) \(key)")
            let rowid = table.key.isByRowid ? try SchemaReader(db).table(present.name)?.rowidName : nil
            byRowid = try rowid.map { try db.cachedStatement(sql: "\(select) \(SQL.quote($0)) = ?") }
        }

        /// nil when there is none whose key has the very bytes.
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
            let key = table.key.places.map { row[$0] }
            switch identity {
            case .key(let wanted): return key == wanted ? RowState(row, of: identity) : nil
            case .rowid: return key.contains(where: \.isNull) ? RowState(row, of: identity) : nil
            }
        }
    }
}
