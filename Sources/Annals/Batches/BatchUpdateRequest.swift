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
/// It corresponds to Core Data's `NSBatchUpdateRequest`; observers and history see every row.
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
        var result = BatchResult()
        let key = try db.primaryKey(Record.databaseTableName).columns.map { Column($0) }
        let statement = try selected.updateAndFetchStatement(db, assignments, selection: key)
        let rows = try GRDB.Row.fetchCursor(statement)
        while let row = try rows.next() { result.note(row, of: Record.databaseTableName, resultType) }
        return result
    }
}
