import AnnalsCore
import AnnalsSQLite
public import AnnalsStore
public import GRDB

/// A change of some columns of a record. Other columns are not written, so changes that others made to them are kept.
///
///     var patch = Patch<Person>()
///     patch.set("name", to: "Ada")
///     patch.set("nickname", to: nil as String?)
///     try await store.apply(patch, to: person.id)
///
/// In contrast, `record.update` writes every column, and so overwrites what others wrote since the record was read. History and
/// sync contain only the columns that a patch changed.
public struct Patch<Record: TableRecord>: Hashable, Sendable {
    /// The values to set, by column. NULL is a value.
    public private(set) var values: [String: DatabaseValue] = [:]

    public init() {}

    /// The columns in which two records differ, with the values of the new one.
    public init(from old: Record, to new: Record) throws where Record: EncodableRecord {
        let before = try old.databaseDictionary
        values = try new.databaseDictionary.filter { column, value in before[column] != value }
    }

    public var isEmpty: Bool { values.isEmpty }

    /// Sets a column; nil sets NULL.
    public mutating func set(_ column: String, to value: (some DatabaseValueConvertible)?) {
        values[column] = value?.databaseValue ?? .null
    }

    /// A copy of the patch that also sets a column.
    public func setting(_ column: String, to value: (some DatabaseValueConvertible)?) -> Self {
        var copy = self
        copy.set(column, to: value)
        return copy
    }

    /// Writes the values to the row with a primary key of one column. An empty patch writes nothing.
    ///
    /// - Throws: `AnnalsError`: `rowNotFound`, or `usage` for a column that does not exist. If a constraint refuses the row, the
    ///   error of the surrounding `Store.write` has code `constraint`; its `saveError` has the details.
    public func apply(to id: some DatabaseValueConvertible, in db: Database) throws {
        let table = Record.databaseTableName
        let columns = try db.columns(in: table)
        let key = try db.primaryKey(table).columns
        guard key.count == 1 else {
            throw AnnalsError(
                .usage, operation: "update", "the primary key of \(table) has \(key.count) columns",
                hint: "Use a PersistentIdentifier with a value for each")
        }
        try apply(toKey: [key[0]: id.databaseValue], columns, db)
    }

    /// Writes the values to the row of an identifier. Its key may have any number of columns.
    public func apply(to identifier: PersistentIdentifier, in db: Database) throws {
        let key = try db.primaryKey(Record.databaseTableName).columns
        guard key.count == identifier.key.count, identifier.table.foldedIdentifier == Record.databaseTableName.foldedIdentifier else {
            throw AnnalsError(
                .usage, operation: "update", "the identifier does not fit the table \(Record.databaseTableName) and its primary key")
        }
        let values = identifier.key.map(\.databaseValue)
        try apply(toKey: Dictionary(uniqueKeysWithValues: zip(key, values)), db.columns(in: Record.databaseTableName), db)
    }

    private func apply(toKey key: [String: DatabaseValue], _ columns: [ColumnInfo], _ db: Database) throws {
        let table = Record.databaseTableName
        let known = Set(columns.map { $0.name.foldedIdentifier })
        if let unknown = values.keys.sorted().first(where: { !known.contains($0.foldedIdentifier) }) {
            throw UnknownNames.column(unknown, of: table, columns)
        }
        guard !values.isEmpty else { return }
        let set = values.sorted { $0.key < $1.key }
        let place = key.sorted { $0.key < $1.key }
        try db.execute(
            sql: """
                UPDATE \(table.quotedDatabaseIdentifier)
                SET \(set.map { "\($0.key.quotedDatabaseIdentifier) = ?" }.joined(separator: ", "))
                WHERE \(place.map { "\($0.key.quotedDatabaseIdentifier) IS ?" }.joined(separator: " AND "))
                """, arguments: StatementArguments(set.map(\.value) + place.map(\.value)))
        guard db.changesCount > 0 else { throw RecordErrors.notFound("update", table) }
    }
}

extension Store {
    /// Writes the values of a patch to the row with a primary key, in a separate transaction.
    ///
    /// - Throws: as `Patch.apply`.
    public func apply<Record>(
        _ patch: Patch<Record>, to id: some DatabaseValueConvertible & Sendable, author: String? = nil
    ) async throws {
        try await write(author: author) { db in try patch.apply(to: id, in: db) }
    }
}
