import AnnalsCore
import AnnalsSchema
import GRDB

/// Makes raw changes lead to the current rows in a table that a program's own triggers write to.
///
/// A BEFORE trigger can change the row that an update is about to change. SQLite then writes back the values that the statement
/// names, and the capture trigger still sees the row from before as the old row. So an update with equal values is not captured,
/// and two updates of one row can contradict each other. In such tables every changed row is checked when its changes are recorded,
/// in the same SQLite transaction. If the raw changes do not lead to the current row, another raw change is written.
struct TriggerRewriteCheck {
    private let db: Database
    private let table: TrackedTable
    /// The list's columns under their current names, in the table under its current name.
    private let definition: DeclaredTable

    init(_ db: Database, _ table: TrackedTable, as definition: DeclaredTable) {
        (self.db, self.table, self.definition) = (db, table, definition)
    }

    /// nil if the table no longer matches the list.
    init?(_ db: Database, _ id: Int64) throws {
        guard let table = try TrackedTable.fetch(db, id: id), table.state == .tracked,
            let definition = try SchemaReader(db).table(table.name), definition.columns.count == table.columns.count
        else { return nil }
        self.init(db, table, as: definition)
    }

    /// - Parameters:
    ///   - recorded: the last raw change that belongs to a transaction.
    ///   - newest: the last raw change, after evictions were added.
    ///   - atOnce: the maximum number of raw changes in memory. If there are more, they are read several times, each time for a
    ///     part of the rows.
    /// - Parameter missed: gets the places of the raw changes that were written.
    /// - Returns: the id of the newest raw change afterwards.
    package func follow(
        recorded: Int64, newest: Int64, atOnce: Int64 = HistoryLimits.changesPutInOrder, _ missed: inout MissedChanges
    ) throws -> Int64 {
        guard newest > recorded else { return newest }
        let (rows, writer) = (try RowReader(db, definition), try RawChangeWriter(db, table))
        var last = newest
        let parts = Int((newest - recorded - 1) / atOnce) + 1
        for part in 0..<parts {
            guard let ends = try ends((recorded + 1)...newest, part, of: parts) else { return last }
            for (identity, _, end, change) in ends {
                // Rows whose key holds NULL are not synced.
                guard case .key(let key) = identity, !key.contains(where: \.isNull) else { continue }
                let present = try rows.row(key)
                guard end != present else { continue }
                last += 1
                // No trigger saw the write, so its time is unknown.
                try writer.write(RawChange(id: last, old: end, new: present), at: nil)
                missed.add(last, at: change)
            }
        }
        return last
    }

    /// The states to which the raw changes lead, for a part of the rows; nil if the changes leave out values.
    private func ends(_ ids: ClosedRange<Int64>, _ part: Int, of parts: Int) throws -> [NetChangeFolder.End]? {
        let isMeant: @Sendable (RowIdentity) -> Bool = { identity in identity.hashValue.magnitude % UInt(parts) == UInt(part) }
        var folder = NetChangeFolder(table.identityRule, of: parts == 1 ? nil : isMeant)
        var holdsAll = true
        try RawChangeReader(cachedIn: db, table).read(ids) { change in
            holdsAll = holdsAll && change.leftOut.isEmpty
            folder.add(change)
        }
        return holdsAll ? folder.ends() : nil
    }

    /// Joins the parts of several writers where a row begins with other values than it ended with in an earlier part. A trigger changed
    /// it between, and only the state after all parts can be compared with the rows.
    static func joined(_ parts: [NamedWriters.Part], _ db: Database) throws -> [NamedWriters.Part] {
        var runs = JoinedRuns(of: parts)
        for id in try tables(db) {
            guard parts.count > 1, let table = try TrackedTable.fetch(db, id: id) else { continue }
            var ends: [RowIdentity: (part: Int, row: [Value]?)] = [:]
            for (index, part) in parts.enumerated() {
                for span in part.spans where span.table == id {
                    guard span.ids.count <= HistoryLimits.changesPutInOrder else {
                        runs.join(0, parts.count - 1)
                        break
                    }
                    var folder = NetChangeFolder(table.identityRule)
                    try RawChangeReader(cachedIn: db, table).read(span.ids) { folder.add($0) }
                    for end in folder.ends() {
                        if let known = ends[end.identity], known.row != end.start { runs.join(known.part, index) }
                        ends[end.identity] = (index, end.row)
                    }
                }
            }
        }
        return parts.joined(runs, context: "no authors: a trigger of a program changed rows between the transactions")
    }

    // MARK: Which tables

    /// The ids of column lists to which a program's own triggers write, at the time of the last repair of capture.
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
