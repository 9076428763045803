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

    /// True for a delete that precedes an older change. The recorder adds it after later changes.
    static let isPlaced = "op IS \(StoreSchema.Operation.delete.rawValue) AND typeof(m0) = 'integer'"

    /// The last change of a section that was written at or before a time, in milliseconds since 1970; the one before the section if all
    /// are later. nil if the time of a change is not known. A delete that precedes another change does not count, because it was written
    /// later than it happened.
    static func last(in section: NetChanges.Section, upTo milliseconds: Int64, _ db: Database) throws -> Int64? {
        let table = StoreSchema.changesTable(section.layout)
        let unknown = try db.cachedStatement(sql: "SELECT 1 FROM main.\(table) WHERE id BETWEEN ? AND ? AND at IS NULL LIMIT 1")
        guard try Int64.fetchOne(unknown, arguments: [section.first, section.last]) == nil else { return nil }
        let last = try db.cachedStatement(
            sql: "SELECT max(id) FROM main.\(table) WHERE id BETWEEN ? AND ? AND at < ? AND NOT (\(isPlaced))")
        let arguments: StatementArguments = [section.first, section.last, JulianDay.end(ofMillisecond: milliseconds)]
        return try Int64.fetchOne(last, arguments: arguments) ?? section.first - 1
    }

    /// One change; nil if it was purged.
    package func change(_ id: Int64) throws -> RawChange? {
        var found: RawChange?
        try read(id...id) { found = $0 }
        return found
    }
}
