internal import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import Foundation
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

    /// Uses a cached statement: creating the reader is faster, but only one such reader may read a table at a time.
    init(cachedIn db: Database, _ table: TrackedTable) throws {
        columns = RawChangeColumns(table)
        statement = try db.cachedStatement(sql: "\(columns.select()) ORDER BY id")
    }

    /// Passes the changes of a range of ids in their order. An error of `body` ends the reading.
    package func read(_ ids: ClosedRange<Int64>, _ body: (RawChange) throws -> Void) throws {
        try statement.setArguments([ids.lowerBound, ids.upperBound])
        defer { statement.rewind() }
        while try statement.step() {
            // A purged change has only its id. It is read as an update that changes nothing.
            let operation = StoreSchema.Operation(rawValue: statement.integer(at: RawChangeColumns.operation)) ?? .update
            try body(columns.change(operation, statement))
        }
    }

    /// When a change was written; nil if that is unknown.
    package static func time(of id: Int64, in list: Int64, _ db: Database) throws -> Date? {
        let statement = try db.cachedStatement(sql: "SELECT at FROM main.\(StoreSchema.changesTable(list)) WHERE id = ?")
        try statement.setArguments([id])
        defer { statement.rewind() }
        return try statement.step() ? JulianDay.date(statement.value(0)) : nil
    }

    /// One change; nil if it was purged.
    package func change(_ id: Int64) throws -> RawChange? {
        var found: RawChange?
        try read(id...id) { found = $0 }
        return found
    }
}
