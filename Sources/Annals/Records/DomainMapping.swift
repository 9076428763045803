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
///         func entity() throws -> PersonRecord { PersonRecord(id: id, name: name, years: age.years) }
///     }
///
///     try await store.save(person)
public protocol EntityConvertible: Sendable {
    associatedtype Entity: ActiveRecord
    func entity() throws -> Entity
}

extension Store {
    /// The records of a query, converted to the app's type.
    ///
    /// - Throws: as `fetch`; errors of `domain()`.
    public func fetchDomain<Record: DomainConvertible>(_ query: Query<Record>) async throws -> [Record.Domain] {
        try await fetch(query).map { try $0.domain() }
    }

    /// Writes values as their records, in one transaction. Rows that exist are updated, the others are inserted.
    ///
    /// - Throws: errors of `entity()`; otherwise as `ActiveRecord.save`.
    public func save<Domain: EntityConvertible>(_ values: Domain..., author: String? = nil) async throws {
        try await save(values, author: author)
    }

    /// Writes a list of values as their records, in one transaction.
    public func save<Domain: EntityConvertible>(_ values: [Domain], author: String? = nil) async throws {
        let entities = try values.map { try $0.entity() }
        try await write(author: author) { db in
            for entity in entities { try entity.save(in: db) }
        }
    }

    /// Writes only the columns in which two values with the same key differ.
    ///
    /// - Throws: `AnnalsError` with code `rowNotFound` if the row no longer exists; otherwise as `Patch.apply`.
    public func update<Domain: EntityConvertible>(from old: Domain, to new: Domain, author: String? = nil) async throws {
        let (before, after) = (try old.entity(), try new.entity())
        try await write(author: author) { db in
            let patch = try Patch(from: before, to: after)
            let columns = try db.primaryKey(Domain.Entity.databaseTableName).columns
            let row = try before.databaseDictionary
            let key = columns.map { Value(row[$0] ?? .null) }
            try patch.apply(to: PersistentIdentifier(table: Domain.Entity.databaseTableName, key: key), in: db)
        }
    }
}
