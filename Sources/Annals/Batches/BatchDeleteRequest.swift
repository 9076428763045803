import AnnalsCore
import AnnalsStore
public import GRDB

/// Deletes all rows that a request selects, or the rows of a list, in one transaction and without reading them into memory.
///
///     let result = try await store.execute(BatchDeleteRequest(Session.self) { $0.filter(Column("ended") < limit) })
///
/// It corresponds to Core Data's `NSBatchDeleteRequest`, but foreign keys are enforced: CASCADE and SET NULL are applied, and the
/// whole request fails if other rows need a row.
public struct BatchDeleteRequest: Sendable {
    public var resultType: BatchResultType
    private let body: @Sendable (Database, BatchResultType) throws -> BatchResult

    public init<Record: TableRecord>(
        _ type: Record.Type, resultType: BatchResultType = .count,
        where selection: @escaping @Sendable (QueryInterfaceRequest<Record>) -> QueryInterfaceRequest<Record> = { $0 }
    ) {
        self.resultType = resultType
        body = { db, type in
            let selected = try selection(Record.all()).forWriting(db)
            if type == .count { return BatchResult(count: try selected.deleteAll(db)) }
            var result = BatchResult()
            let key = try db.primaryKey(Record.databaseTableName).columns.map { Column($0) }
            let rows = try GRDB.Row.fetchCursor(selected.deleteAndFetchStatement(db, selection: key))
            while let row = try rows.next() { result.note(row, of: Record.databaseTableName, type) }
            return result
        }
    }

    /// Deletes these rows. Rows that no longer exist are skipped.
    public init(_ identifiers: [PersistentIdentifier], resultType: BatchResultType = .count) {
        self.resultType = resultType
        body = { db, type in
            var result = BatchResult()
            for identifier in identifiers {
                let columns = try db.primaryKey(identifier.table).columns.map(\.quotedDatabaseIdentifier)
                guard columns.count == identifier.key.count else { continue }
                let statement = try db.cachedStatement(
                    sql: """
                        DELETE FROM \(identifier.table.quotedDatabaseIdentifier) \
                        WHERE \(columns.map { "\($0) IS ?" }.joined(separator: " AND ")) RETURNING \(columns.joined(separator: ", "))
                        """)
                let rows = try GRDB.Row.fetchCursor(statement, arguments: StatementArguments(identifier.key.map(\.databaseValue)))
                while let row = try rows.next() { result.note(row, of: identifier.table, type) }
            }
            return result
        }
    }

    func run(_ db: Database) throws -> BatchResult { try body(db, resultType) }
}
