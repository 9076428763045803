import AnnalsCore
public import AnnalsStore
import GRDB

/// A record that can be told as what an app works with: a type of its own, which knows nothing of tables.
///
///     extension PersonRecord: DomainConvertible {
///         func domain() throws -> Person { Person(name: name, age: try Age(years)) }
///     }
///
///     let people: [Person] = try await store.fetchDomain(.adults)
public protocol DomainConvertible {
    associatedtype Domain: Sendable
    /// - Throws: whatever makes the record no valid value of the app's.
    func domain() throws -> Domain
}

/// What an app works with, that can be told as a record.
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
    /// The records of a query as what the app works with.
    ///
    /// - Throws: as `fetch`; what `domain()` throws.
    public func fetchDomain<Record: DomainConvertible>(_ query: Query<Record>) async throws -> [Record.Domain] {
        try await fetch(query).map { try $0.domain() }
    }

    /// Writes values as their records, in one transaction: updates those that are there, inserts the others.
    ///
    /// - Throws: what `entity()` throws; otherwise as `ActiveRecord.save`.
    public func save<Domain: EntityConvertible>(_ values: Domain..., author: String? = nil) async throws {
        try await save(values, author: author)
    }

    /// The same for a list of values.
    public func save<Domain: EntityConvertible>(_ values: [Domain], author: String? = nil) async throws {
        let entities = try values.map { try $0.entity() }
        try await write(author: author) { db in
            for entity in entities { try entity.save(in: db) }
        }
    }

    /// Writes only what changed from one value to another of the same identity.
    ///
    /// - Throws: `AnnalsError` with code `rowNotFound` where the row is gone; otherwise as `Patch.apply`.
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
