import AnnalsCore
import AnnalsStore
public import GRDB

/// A GRDB record that fetches and writes itself: each verb once inside an access, and once by itself on the default store.
///
///     struct Person: Codable, Identifiable, ActiveRecord { var id: UUID; var name: String }
///
///     try await Person(id: UUID(), name: "Ada").insert()
///     try await store.write(author: "import") { db in
///         for person in people { try person.save(in: db) }
///     }
///
/// Verbs return the record as it was written, with the key that SQLite gave it. A verb without an access is a transaction of
/// its own; what belongs together is written inside one `Store.write`.
///
/// A row that is not there is an `AnnalsError` with code `rowNotFound`. Where a constraint refuses a record, what leaves `Store.write`
/// or a verb by itself has code `constraint`, and `saveError` says which.
public protocol ActiveRecord: FetchableRecord, MutablePersistableRecord, Sendable {}

// MARK: Inside an access

extension ActiveRecord {
    /// The records of a query.
    public static func fetch(_ query: Query<Self> = .all, in db: Database) throws -> [Self] {
        try UnknownNames.named(db, in: databaseTableName) { try query.fetchAll(db) }
    }

    /// The record of a primary key.
    public static func fetch(id: some DatabaseValueConvertible, in db: Database) throws -> Self {
        guard let record = try Query<Self>.id(id).fetchOne(db) else {
            throw RecordErrors.notFound("fetch", databaseTableName)
        }
        return record
    }

    /// How many records a query finds.
    public static func count(_ query: Query<Self> = .all, in db: Database) throws -> Int {
        try UnknownNames.named(db, in: databaseTableName) { try query.fetchCount(db) }
    }

    /// Inserts a row.
    @discardableResult
    public func insert(in db: Database) throws -> Self {
        try inserted(db)
    }

    /// Writes all columns of the row that has the record's key.
    @discardableResult
    public func update(in db: Database) throws -> Self {
        try RecordErrors.translated("update") { try update(db) }
        return self
    }

    /// Updates the row that has the record's key, or inserts one where there is none.
    @discardableResult
    public func save(in db: Database) throws -> Self {
        try saved(db)
    }

    /// Deletes the row that has the record's key.
    ///
    /// - Returns: whether there was one.
    @discardableResult
    public func delete(in db: Database) throws -> Bool {
        try delete(db)
    }
}

// MARK: On the default store

extension ActiveRecord {
    /// The records of a query, on the default store.
    public static func fetch(_ query: Query<Self> = .all) async throws -> [Self] {
        try await Store.requireDefault().fetch(query)
    }

    /// The record of a primary key, on the default store.
    public static func fetch(id: some DatabaseValueConvertible & Sendable) async throws -> Self {
        try await Store.requireDefault().read { db in try fetch(id: id, in: db) }
    }

    /// How many records a query finds, on the default store.
    public static func count(_ query: Query<Self> = .all) async throws -> Int {
        try await Store.requireDefault().count(query)
    }

    /// Inserts a row, in a transaction of its own on the default store.
    @discardableResult
    public func insert(author: String? = nil) async throws -> Self {
        try await Store.requireDefault().write(author: author) { db in try insert(in: db) }
    }

    /// Writes all columns of the row that has the record's key, in a transaction of its own on the default store.
    @discardableResult
    public func update(author: String? = nil) async throws -> Self {
        try await Store.requireDefault().write(author: author) { db in try update(in: db) }
    }

    /// Updates or inserts, in a transaction of its own on the default store.
    @discardableResult
    public func save(author: String? = nil) async throws -> Self {
        try await Store.requireDefault().write(author: author) { db in try save(in: db) }
    }

    /// Deletes the row that has the record's key, in a transaction of its own on the default store.
    ///
    /// - Returns: whether there was one.
    @discardableResult
    public func delete(author: String? = nil) async throws -> Bool {
        try await Store.requireDefault().write(author: author) { db in try delete(in: db) }
    }
}
