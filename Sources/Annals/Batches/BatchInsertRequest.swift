import AnnalsCore
import AnnalsSQLite
import AnnalsStore
public import GRDB

/// Inserts many records in one transaction, one after the other, so that memory does not grow with their number.
///
///     let request = BatchInsertRequest(Person.self, onConflict: .update(["name"], of: ["email"])) { try reader.next() }
///     let result = try await store.execute(request, author: "import")
///     print(result.count, result.token as Any)
///
/// `reader` is the source of the records, such as a file, a decoder or a list; it returns nil at the end. Triggers, constraints
/// and history see every row as if it had been inserted alone. The request corresponds to Core Data's `NSBatchInsertRequest`.
public struct BatchInsertRequest<Record: MutablePersistableRecord & Sendable>: Sendable {
    /// What happens to a record if another row has its unique values. Rows are never replaced, because that would delete them
    /// first.
    public enum OnConflict: Sendable, Hashable {
        /// The whole request fails, and nothing is inserted.
        case error
        /// The stored row is not changed.
        case ignore
        /// The named columns of the stored row get the record's values. If none are named, all columns do, except the key and
        /// `of`.
        ///
        /// `of` names the columns of the uniqueness constraint that is meant. If it is empty, any constraint counts.
        case update([String] = [], of: [String] = [])
    }

    public var onConflict: OnConflict
    public var resultType: BatchResultType
    /// Returns a function that delivers the records from the start, if the source allows it. A request is a value and may be
    /// executed again.
    private let source: @Sendable () -> () throws -> [String: DatabaseValue]?

    /// - Parameters:
    ///   - type: the record's type.
    ///   - onConflict: what happens to a record if another row has its unique values.
    ///   - resultType: what the result says about the rows.
    ///   - next: returns the records one after another, and nil at the end. It is called on the store's writing thread. If it
    ///     throws, everything is undone and `execute` throws the error. A request that is executed again continues with the next
    ///     record.
    public init(
        _ type: Record.Type = Record.self, onConflict: OnConflict = .error, resultType: BatchResultType = .count,
        next: @escaping @Sendable () throws -> Record?
    ) {
        self.onConflict = onConflict
        self.resultType = resultType
        source = { { try next()?.databaseDictionary } }
    }

    /// Creates a request from a list of records. Each execution inserts all of them.
    public init(_ records: [Record], onConflict: OnConflict = .error, resultType: BatchResultType = .count) {
        self.onConflict = onConflict
        self.resultType = resultType
        source = {
            var rest = records.makeIterator()
            return { try rest.next()?.databaseDictionary }
        }
    }

    /// Creates a request from rows by column name, as a decoder of JSON gives them. Columns that a row does not name get their defaults.
    ///
    ///     let request = BatchInsertRequest(Person.self, rows: [["email": "ada@example.org", "name": "Ada"]])
    public init(
        _ type: Record.Type = Record.self, rows: [[String: (any DatabaseValueConvertible & Sendable)?]], onConflict: OnConflict = .error,
        resultType: BatchResultType = .count
    ) {
        self.onConflict = onConflict
        self.resultType = resultType
        source = {
            var rest = rows.makeIterator()
            return { rest.next()?.mapValues { $0?.databaseValue ?? .null } }
        }
    }

    func run(_ db: Database) throws -> BatchResult {
        let next = source()
        var result = BatchResult()
        var insertion: BatchInsertion?
        while let values = try next() {
            if insertion == nil || insertion?.fits(values) == false {
                insertion = try BatchInsertion(db, Record.databaseTableName, Array(values.keys), onConflict.clause(_:_:))
            }
            try insertion?.insert(values, resultType, &result)
        }
        return result
    }
}

extension BatchInsertRequest.OnConflict {
    /// The ON CONFLICT clause of an INSERT into these columns of a table with that key.
    func clause(_ columns: [String], _ key: [String]) -> String {
        switch self {
        case .error: return ""
        case .ignore: return "ON CONFLICT DO NOTHING"
        case .update(let named, let target):
            let kept = Set((key + target).map { $0.foldedIdentifier })
            let set = named.isEmpty ? columns.filter { !kept.contains($0.foldedIdentifier) } : named
            let place = target.isEmpty ? "" : "(\(target.map(\.quotedDatabaseIdentifier).joined(separator: ", "))) "
            guard !set.isEmpty else { return "ON CONFLICT \(place)DO NOTHING" }
            let quoted = set.map(\.quotedDatabaseIdentifier)
            // A row that already has these values is not written. The column's collation would find A and a equal.
            return """
                ON CONFLICT \(place)DO UPDATE SET \(quoted.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")) \
                WHERE \(quoted.map { "\($0) IS NOT excluded.\($0) COLLATE BINARY" }.joined(separator: " OR "))
                """
        }
    }
}

/// An INSERT statement for all records with the same columns.
private struct BatchInsertion {
    private let columns: [String]
    private let statement: Statement
    private let table: String
    private let key: [String]

    init(_ db: Database, _ table: String, _ columns: [String], _ clause: ([String], [String]) -> String) throws {
        self.table = table
        // Sorted, so that the same columns give the same statement.
        self.columns = columns.sorted()
        key = try db.primaryKey(table).columns
        let names = self.columns.map(\.quotedDatabaseIdentifier).joined(separator: ", ")
        let places = self.columns.map { _ in "?" }.joined(separator: ", ")
        statement = try db.cachedStatement(
            sql: """
                INSERT INTO \(table.quotedDatabaseIdentifier) (\(names)) VALUES (\(places)) \(clause(self.columns, key)) \
                RETURNING \(key.map(\.quotedDatabaseIdentifier).joined(separator: ", "))
                """)
    }

    func fits(_ values: [String: DatabaseValue]) -> Bool {
        values.count == columns.count && columns.allSatisfy { values[$0] != nil }
    }

    func insert(_ values: [String: DatabaseValue], _ type: BatchResultType, _ result: inout BatchResult) throws {
        let rows = try GRDB.Row.fetchCursor(statement, arguments: StatementArguments(columns.map { values[$0] ?? .null }))
        while let row = try rows.next() { result.note(row, of: table, type) }
    }
}

extension BatchResult {
    /// Counts a written row; `key` holds the columns of its key.
    mutating func note(_ key: GRDB.Row, of table: String, _ type: BatchResultType) {
        note(Array(key.databaseValues), of: table, type)
    }

    mutating func note(_ key: [DatabaseValue], of table: String, _ type: BatchResultType) {
        count += 1
        guard type == .identifiers else { return }
        identifiers.append(PersistentIdentifier(table: table, key: key.map { Value($0) }))
    }
}
