import AnnalsCore
public import AnnalsStore
public import GRDB

/// A change of some columns of a record: what it does not set stays as it is, also what others set meanwhile.
///
///     var patch = Patch<Person>()
///     patch.set("name", to: "Ada")
///     patch.set("nickname", to: nil as String?)
///     try await store.apply(patch, to: person.id)
///
/// `record.update` writes every column, and so takes back what others wrote into those that the record read long ago. History
/// and sync know of a patch only what it changed.
public struct Patch<Record: TableRecord>: Hashable, Sendable {
    /// What it sets, by column. NULL is a value.
    public private(set) var values: [String: DatabaseValue] = [:]

    public init() {}

    /// What makes one record the other, column by column.
    public init(from old: Record, to new: Record) throws where Record: EncodableRecord {
        let before = try old.databaseDictionary
        values = try new.databaseDictionary.filter { column, value in before[column] != value }
    }

    public var isEmpty: Bool { values.isEmpty }

    /// Sets a column; nil sets NULL.
    public mutating func set(_ column: String, to value: (some DatabaseValueConvertible)?) {
        values[column] = value?.databaseValue ?? .null
    }

    /// The same patch with a column set.
    public func setting(_ column: String, to value: (some DatabaseValueConvertible)?) -> Self {
        var copy = self
        copy.set(column, to: value)
        return copy
    }

    /// Writes what it sets into the row of a primary key of one column. An empty patch writes nothing.
    ///
    /// - Throws: `AnnalsError`: `rowNotFound`, `constraint` with its `refusal`, `usage` for a column that does not exist.
    public func apply(to id: some DatabaseValueConvertible, in db: Database) throws {
        let table = Record.databaseTableName
        let columns = try db.columns(in: table)
        let key = try db.primaryKey(table).columns
        guard key.count == 1 else {
            throw AnnalsError(
                .usage, operation: "update", "the primary key of \(table) has \(key.count) columns", hint: "Give a value for each")
        }
        try apply(toKey: [key[0]: id.databaseValue], columns, db)
    }

    /// The same for a row by its identifier, with a key of however many columns.
    public func apply(to identifier: PersistentIdentifier, in db: Database) throws {
        let key = try db.primaryKey(Record.databaseTableName).columns
        guard key.count == identifier.key.count, identifier.table.lowercased() == Record.databaseTableName.lowercased() else {
            throw AnnalsError(.usage, operation: "update", "the identifier is of another table than \(Record.databaseTableName)")
        }
        let values = identifier.key.map(\.databaseValue)
        try apply(toKey: Dictionary(uniqueKeysWithValues: zip(key, values)), db.columns(in: Record.databaseTableName), db)
    }

    private func apply(toKey key: [String: DatabaseValue], _ columns: [ColumnInfo], _ db: Database) throws {
        let table = Record.databaseTableName
        let known = Set(columns.map { $0.name.lowercased() })
        if let unknown = values.keys.sorted().first(where: { !known.contains($0.lowercased()) }) {
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
    /// Writes what a patch sets into the row of a primary key, as a transaction of its own.
    ///
    /// - Throws: as `Patch.apply`.
    public func apply<Record>(
        _ patch: Patch<Record>, to id: some DatabaseValueConvertible & Sendable, author: String? = nil
    ) async throws {
        try await write(author: author) { db in try patch.apply(to: id, in: db) }
    }
}
