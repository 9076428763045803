import AnnalsCore
public import AnnalsStore
import GRDB

/// A record that can be converted to a type of the app that does not depend on tables.
///
///     extension PersonRecord: DomainConvertible {
///         func domain() throws -> Person { Person(name: name, age: try Age(years)) }
///     }
///
///     let people: [Person] = try await store.fetchDomain(.adults)
public protocol DomainConvertible {
    associatedtype Domain: Sendable
    /// - Throws: if the record is not a valid value of the app's type.
    func domain() throws -> Domain
}

/// A type of the app that can be converted to a record.
///
///     extension Person: EntityConvertible {
///         func entity(updating stored: PersonRecord?) throws -> PersonRecord {
///             var record = stored ?? PersonRecord(id: id, name: name, years: age.years)
///             (record.name, record.years) = (name, age.years)
///             return record
///         }
///     }
///
///     try await store.save(person)
public protocol EntityConvertible: Sendable {
    associatedtype Entity: ActiveRecord
    /// The record of this value.
    ///
    /// - Parameter stored: the stored record with the same key; nil if there is none. Columns that the app's type does not know keep its
    ///   values. Without a stored record, the key must be that of this value.
    func entity(updating stored: Entity?) throws -> Entity
}

extension EntityConvertible {
    /// The record of a value that is not stored yet.
    public func entity() throws -> Entity { try entity(updating: nil) }
}

extension Store {
    /// The records of a query, converted to the app's type.
    ///
    /// - Throws: as `fetch`; errors of `domain()`.
    public func fetchDomain<Record: DomainConvertible>(_ query: Query<Record>) async throws -> [Record.Domain] {
        try await fetch(query).map { try $0.domain() }
    }

    /// Writes values as their records, in one transaction. In rows that exist, only the columns are written that differ from the value's
    /// record, so what other writers stored in columns that the type does not know stays. The other rows are inserted.
    ///
    /// - Throws: errors of `entity(updating:)`; otherwise as `ActiveRecord.insert` and `Patch.apply`.
    public func save<Domain: EntityConvertible>(_ values: Domain..., author: String? = nil) async throws {
        try await save(values, author: author)
    }

    /// Writes a list of values as their records, in one transaction.
    public func save<Domain: EntityConvertible>(_ values: [Domain], author: String? = nil) async throws {
        try await write(author: author) { db in
            for value in values { try Self.save(value, in: db) }
        }
    }

    private static func save<Domain: EntityConvertible>(_ value: Domain, in db: Database) throws {
        let new = try value.entity(updating: nil)
        let key = try identifier(of: new, db)
        let columns = try db.primaryKey(Domain.Entity.databaseTableName).columns
        let conditions = zip(columns, key.key).map { Column($0) == $1.databaseValue }
        // A row without a key is new.
        guard !key.key.contains(where: \.isNull), let stored = try Domain.Entity.filter(conditions.joined(operator: .and)).fetchOne(db)
        else {
            try new.insert(in: db)
            return
        }
        try Patch(from: stored, to: value.entity(updating: stored)).apply(to: key, in: db)
    }

    private static func identifier<Record: ActiveRecord>(of record: Record, _ db: Database) throws -> PersistentIdentifier {
        let row = try record.databaseDictionary
        let key = try db.primaryKey(Record.databaseTableName).columns.map { Value(row[$0] ?? .null) }
        return PersistentIdentifier(table: Record.databaseTableName, key: key)
    }

    /// Writes only the columns in which two values with the same key differ.
    ///
    /// - Throws: `AnnalsError` with code `rowNotFound` if the row no longer exists; otherwise as `Patch.apply`.
    public func update<Domain: EntityConvertible>(from old: Domain, to new: Domain, author: String? = nil) async throws {
        let before = try old.entity()
        let after = try new.entity(updating: before)
        try await write(author: author) { db in
            try Patch(from: before, to: after).apply(to: Self.identifier(of: before, db), in: db)
        }
    }
}
