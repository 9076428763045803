internal import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Reads raw changes of one column list.
///
///     let reader = try RawChangeReader(db, table)
///     try reader.read(span.first...span.last) { change in folder.add(change) }
package struct RawChangeReader {
    private let statement: Statement
    private let columns: RawChangeColumns

    package init(_ db: Database, _ table: TrackedTable) throws {
        columns = RawChangeColumns(table)
        statement = try db.makeStatement(sql: "\(columns.select()) ORDER BY id")
    }

    /// Over a statement the connection keeps: quicker to make, but only one at a time may read a table.
    init(cachedIn db: Database, _ table: TrackedTable) throws {
        columns = RawChangeColumns(table)
        statement = try db.cachedStatement(sql: "\(columns.select()) ORDER BY id")
    }

    /// Hands out the changes of a range of ids in their order. What `body` throws ends the reading.
    package func read(_ ids: ClosedRange<Int64>, _ body: (RawChange) throws -> Void) throws {
        try statement.setArguments([ids.lowerBound, ids.upperBound])
        defer { statement.rewind() }
        while try statement.step() {
            // One that was purged has its id alone, and changes nothing.
            let operation = StoreSchema.Operation(rawValue: statement.integer(at: RawChangeColumns.operation)) ?? .update
            try body(columns.change(operation, statement))
        }
    }

    /// One change; nil when it was purged.
    package func change(_ id: Int64) throws -> RawChange? {
        var found: RawChange?
        try read(id...id) { found = $0 }
        return found
    }
}
