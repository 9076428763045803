import AnnalsCore
import AnnalsSchema
import GRDB

/// Makes the raw changes of a table that a program's own triggers write lead to the rows that are there.
///
/// A BEFORE trigger can change the very row that an update is about to change. SQLite then writes the values back that the statement
/// names, and the capture trigger still sees as old what the row was before all that: it takes an update that names equal values for
/// none, and what two updates say of a row can contradict each other. So where such triggers are, every row that was touched is
/// looked at when its changes are recorded, in the same SQLite transaction; what is missing between them and the row is written down.
struct TriggerRewriteCheck {
    private let db: Database
    private let table: TrackedTable
    /// The list's columns, as they and the table are called now.
    private let definition: DeclaredTable

    init(_ db: Database, _ table: TrackedTable, as definition: DeclaredTable) {
        (self.db, self.table, self.definition) = (db, table, definition)
    }

    /// nil where the table is not there as the list has it.
    init?(_ db: Database, _ id: Int64) throws {
        guard let table = try TrackedTable.fetch(db, id: id), table.state == .tracked,
            let definition = try SchemaReader(db).table(table.name), definition.columns.count == table.columns.count
        else { return nil }
        self.init(db, table, as: definition)
    }

    /// - Parameters:
    ///   - recorded: the last raw change that belongs to a transaction.
    ///   - newest: the last there is, with evictions concluded.
    ///   - atOnce: how many raw changes are held in memory. Where there are more, they are read again and again, each time for some of the
    ///     rows.
    /// - Returns: the newest then.
    package func follow(recorded: Int64, newest: Int64, atOnce: Int64 = HistoryLimits.changesPutInOrder) throws -> Int64 {
        guard newest > recorded else { return newest }
        let (rows, writer) = (try RowReader(db, definition), try RawChangeWriter(db, table))
        let day = try Double.fetchOne(
            db, sql: "SELECT at FROM main.\(StoreSchema.changesTable(table.id)) WHERE id = ?", arguments: [newest])
        var last = newest
        let parts = Int((newest - recorded - 1) / atOnce) + 1
        for part in 0..<parts {
            guard let ends = try ends((recorded + 1)...newest, part, of: parts) else { return last }
            for (identity, end) in ends {
                // Rows whose key holds NULL stay local.
                guard case .key(let key) = identity, !key.contains(where: \.isNull) else { continue }
                let present = try rows.row(key)
                guard end != present else { continue }
                last += 1
                try writer.write(RawChange(id: last, old: end, new: present), at: day)
            }
        }
        return last
    }

    /// Where the raw changes leave a part of the rows; nil where they do not hold all values.
    private func ends(_ ids: ClosedRange<Int64>, _ part: Int, of parts: Int) throws -> [(identity: RowIdentity, row: [Value]?)]? {
        let isMeant: @Sendable (RowIdentity) -> Bool = { identity in identity.hashValue.magnitude % UInt(parts) == UInt(part) }
        var folder = NetChangeFolder(table.identityRule, of: parts == 1 ? nil : isMeant)
        var holdsAll = true
        try RawChangeReader(cachedIn: db, table).read(ids) { change in
            holdsAll = holdsAll && change.leftOut.isEmpty
            folder.add(change)
        }
        return holdsAll ? folder.ends() : nil
    }

    // MARK: Which tables

    /// The ids of column lists whose tables are written by a program's own triggers, as far as was seen when capture was last brought in order.
    package static func tables(_ db: Database) throws -> Set<Int64> {
        guard let text = try StoreSchema.text(.writtenByTriggers, db) else { return [] }
        return Set(text.split(separator: " ").compactMap { Int64($0) })
    }

    package static func note(_ id: Int64, _ isWritten: Bool, _ db: Database) throws {
        var tables = try tables(db)
        guard tables.contains(id) != isWritten else { return }
        if isWritten { tables.insert(id) } else { tables.remove(id) }
        try StoreSchema.set(.writtenByTriggers, to: tables.sorted().map(String.init).joined(separator: " "), db)
    }
}
