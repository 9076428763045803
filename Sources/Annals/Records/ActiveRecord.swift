import AnnalsCore
import AnnalsStore
public import GRDB

/// A GRDB record with functions that fetch and write it. Each function has two forms: one inside an access, and one on the
/// default store.
///
///     struct Person: Codable, Identifiable, ActiveRecord { var id: UUID; var name: String }
///
///     try await Person(id: UUID(), name: "Ada").insert()
///     try await store.write(author: "import") { db in
///         for person in people { try person.save(in: db) }
///     }
///
/// Functions that write return the record as written, with the key that SQLite assigned. A call on the default store is a
/// separate transaction. To write several records together, use one `Store.write`.
///
/// If a row does not exist, the error is `AnnalsError` with code `rowNotFound`. If a constraint refuses a record, the error of
/// `Store.write`, or of a call on the default store, has code `constraint`; its `saveError` has the details.
public protocol ActiveRecord: FetchableRecord, MutablePersistableRecord, Sendable {}

// MARK: Inside an access

extension ActiveRecord {
    /// The records of a query.
    public static func fetch(_ query: Query<Self> = .all, in db: Database) throws -> [Self] {
        try UnknownNames.named(db, in: databaseTableName) { try query.fetchAll(db) }
    }

    /// The record with a primary key.
    public static func fetch(id: some DatabaseValueConvertible, in db: Database) throws -> Self {
        guard let record = try Query<Self>.id(id).fetchOne(db) else {
            throw RecordErrors.notFound("fetch", databaseTableName)
        }
        return record
    }

    /// The number of records that a query finds.
    public static func count(_ query: Query<Self> = .all, in db: Database) throws -> Int {
        try UnknownNames.named(db, in: databaseTableName) { try query.fetchCount(db) }
    }

    /// Inserts a row. The returned record has the key that SQLite assigned, also if the record does not implement `didInsert`.
    @discardableResult
    public func insert(in db: Database) throws -> Self {
        guard try lacksKey(db) else { return try inserted(db) }
        return try insertAndFetch(db)
    }

    /// Writes all columns of the row with the record's key.
    @discardableResult
    public func update(in db: Database) throws -> Self {
        try RecordErrors.translated("update") { try update(db) }
        return self
    }

    /// Updates the row with the record's key, or inserts it if it does not exist.
    @discardableResult
    public func save(in db: Database) throws -> Self {
        try lacksKey(db) ? insert(in: db) : saved(db)
    }

    /// Whether SQLite assigns the key.
    private func lacksKey(_ db: Database) throws -> Bool {
        guard let column = try db.primaryKey(Self.databaseTableName).rowIDColumn else { return false }
        return try databaseDictionary.first { $0.key.isSameIdentifier(as: column) }?.value.isNull ?? true
    }

    /// Deletes the row with the record's key.
    ///
    /// - Returns: whether the row existed.
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

    /// The record with a primary key, on the default store.
    public static func fetch(id: some DatabaseValueConvertible & Sendable) async throws -> Self {
        try await Store.requireDefault().read { db in try fetch(id: id, in: db) }
    }

    /// The number of records that a query finds, on the default store.
    public static func count(_ query: Query<Self> = .all) async throws -> Int {
        try await Store.requireDefault().count(query)
    }

    /// Inserts a row, in a separate transaction on the default store.
    @discardableResult
    public func insert(author: String? = nil) async throws -> Self {
        try await Store.requireDefault().write(author: author) { db in try insert(in: db) }
    }

    /// Writes all columns of the row with the record's key, in a separate transaction on the default store.
    @discardableResult
    public func update(author: String? = nil) async throws -> Self {
        try await Store.requireDefault().write(author: author) { db in try update(in: db) }
    }

    /// Updates or inserts the row, in a separate transaction on the default store.
    @discardableResult
    public func save(author: String? = nil) async throws -> Self {
        try await Store.requireDefault().write(author: author) { db in try save(in: db) }
    }

    /// Deletes the row with the record's key, in a separate transaction on the default store.
    ///
    /// - Returns: whether the row existed.
    @discardableResult
    public func delete(author: String? = nil) async throws -> Bool {
        try await Store.requireDefault().write(author: author) { db in try delete(in: db) }
    }
}
