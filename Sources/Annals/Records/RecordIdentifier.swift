public import AnnalsHistory
import AnnalsCore
public import GRDB

extension MutablePersistableRecord {
    /// The identifier of the record's row; nil if SQLite has not assigned the key yet.
    ///
    ///     let identifier = try trip.persistentIdentifier(in: db)
    public func persistentIdentifier(in db: Database) throws -> PersistentIdentifier? {
        let values = try databaseDictionary
        let key = try db.primaryKey(Self.databaseTableName).columns.compactMap { column in
            values.first { $0.key.isSameIdentifier(as: column) }.map { Value($0.value) }
        }
        guard try key.count == db.primaryKey(Self.databaseTableName).columns.count, !key.contains(where: \.isNull) else { return nil }
        return PersistentIdentifier(table: Self.databaseTableName, key: key)
    }
}

extension ActiveRecord where Self: Identifiable, ID: DatabaseValueConvertible {
    /// The identifier of the record's row, if the table's key is `id`; nil if SQLite has not assigned the key yet. The table has the name
    /// that the record gives it.
    public var persistentIdentifier: PersistentIdentifier? {
        let key = Value(id.databaseValue)
        return key.isNull ? nil : PersistentIdentifier(table: Self.databaseTableName, key: [key])
    }
}
