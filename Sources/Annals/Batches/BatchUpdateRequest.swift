import AnnalsCore
import AnnalsStore
public import GRDB

/// Updates all rows that a request selects, in one transaction and without reading them into memory.
///
///     let request = BatchUpdateRequest(Item.self) {
///         [Column("price").set(to: Column("price") * 1.1)]
///     } where: {
///         $0.filter(Column("category") == "tea")
///     }
///     let result = try await store.execute(request, author: "prices")
///
/// It corresponds to Core Data's `NSBatchUpdateRequest`; observers and history see every row. With the result type
/// `identifiers` the rows are read before they are written, and the result has only rows whose values are different now.
public struct BatchUpdateRequest<Record: TableRecord>: Sendable {
    public var resultType: BatchResultType
    private let assignments: @Sendable () -> [ColumnAssignment]
    private let selection: @Sendable (QueryInterfaceRequest<Record>) -> QueryInterfaceRequest<Record>

    /// - Parameters:
    ///   - type: the record's type.
    ///   - resultType: what the result says about the rows.
    ///   - assignments: the new values of columns, or expressions of the row's columns. If it is empty, no row is updated.
    ///   - selection: which rows; by default all.
    public init(
        _ type: Record.Type = Record.self, resultType: BatchResultType = .count,
        set assignments: @escaping @Sendable () -> [ColumnAssignment],
        where selection: @escaping @Sendable (QueryInterfaceRequest<Record>) -> QueryInterfaceRequest<Record> = { $0 }
    ) {
        self.resultType = resultType
        self.assignments = assignments
        self.selection = selection
    }

    func run(_ db: Database) throws -> BatchResult {
        let assignments = assignments()
        guard !assignments.isEmpty else { return BatchResult() }
        let selected = try selection(Record.all()).forWriting(db)
        // SQLite keeps the rows that a RETURNING clause gives in memory until the statement is done.
        if resultType == .count { return BatchResult(count: try selected.updateAll(db, assignments)) }
        let table = Record.databaseTableName
        let columns = try db.primaryKey(table).columns
        let key = columns.map { Column($0) }
        var stored: [[DatabaseValue]: RowDigest] = [:]
        let before = try GRDB.Row.fetchCursor(db, selected.select(key.map { $0 as any SQLSelectable } + [AllColumns()]))
        while let row = try before.next() { stored[Array(row.databaseValues.prefix(columns.count))] = RowDigest(row, columns.count) }
        // SQLite keeps what a RETURNING clause gives until the statement is done, so it gives only keys.
        let same = columns.map { "\($0.quotedDatabaseIdentifier) IS ?" }.joined(separator: " AND ")
        let row = try db.makeStatement(sql: "SELECT * FROM \(table.quotedDatabaseIdentifier) WHERE \(same)")
        var result = BatchResult()
        let after = try GRDB.Row.fetchCursor(selected.updateAndFetchStatement(db, assignments, selection: key))
        while let written = try after.next() {
            let key = Array(written.databaseValues)
            let now = try GRDB.Row.fetchOne(row, arguments: StatementArguments(key))
            guard stored[key] == nil || stored[key] != now.map({ RowDigest($0, 0) }) else { continue }
            result.note(key, of: table, resultType)
        }
        return result
    }
}

/// Stands for a row's values, in a few bytes.
private struct RowDigest: Equatable {
    private let hash: Int

    /// - Parameter skipped: the number of columns before the values.
    init(_ row: GRDB.Row, _ skipped: Int) {
        var hasher = Hasher()
        // As stored: SQLite finds 1 and 1.0 equal.
        for value in row.databaseValues.dropFirst(skipped) { hasher.combine(Value(value)) }
        hash = hasher.finalize()
    }
}
