import AnnalsCore
public import AnnalsStore
import Foundation
public import GRDB
import Synchronization

/// A scratch pad for edits: rows are read, edited, added and deleted in memory, and saved together or not at all.
///
///     let context = try await store.editContext(author: "till 3")
///     guard let invoice = try await context.fetchOne(Invoice.filter(key: 17)) else { return }
///     try context.edit(invoice) { $0.isPaid = true }
///     try context.insert(Payment(invoiceID: 17, amount: 120))
///     try await context.save()
///
/// It remembers each row as it was read. A save looks whether others changed it since, another process or a sync among them, and
/// does what its merge policy says; by default it throws the conflicts and saves nothing. All rows of a save are one transaction
/// of history; a save that changes nothing makes none.
///
/// Records are values, and the context is the same from every actor and thread: hand it to whoever needs it. Editing never
/// waits for the database. Rows are told by their keys; where a sync gives a row another one, the context goes on with that.
///
/// Records are written by their own `insert`, `update` and `delete`, so what they do in `willSave` and the like is done, and what
/// they throw there is a validation error. A record whose `persistenceConflictPolicy` is `replace` does not replace here.
public final class EditContext: Sendable {
    public let store: Store
    /// Who history says has written.
    public let author: String?
    public let contextName: String?

    private struct State {
        var edits: EditSet
        var policy: MergePolicy
        /// Goes up where savepoints lose their meaning.
        var generation = 0
    }

    private let state: Mutex<State>
    /// Edits with closures take turns, so that none misses what another does. A closure may use the context.
    private let turns = NSRecursiveLock()

    init(_ store: Store, _ edits: EditSet, author: String?, contextName: String?, _ policy: MergePolicy) {
        self.store = store
        self.author = author
        self.contextName = contextName
        state = Mutex(State(edits: edits, policy: policy))
    }

    /// What a save does that is not told otherwise.
    public var mergePolicy: MergePolicy {
        get { state.withLock { $0.policy } }
        set { state.withLock { $0.policy = newValue } }
    }

    // MARK: Reading

    /// Rows that a request gives, with the edits that are made here. A row that is to be deleted is left out; one that is new and
    /// not saved is not found.
    ///
    /// A row that this context knows comes as it was read first; `refresh` brings them all to what is stored.
    ///
    /// - Parameter request: evaluated where the database is read, so it may use only what is `Sendable`.
    /// - Throws: `AnnalsError` with code `usage` for a table without a primary key; what reading and decoding throw.
    public func fetch<Request: FetchRequest>(_ request: @autoclosure @escaping @Sendable () throws -> Request) async throws -> [Request
        .RowDecoder]
    where Request.RowDecoder: EditableRecord {
        try await reading(Request.RowDecoder.self) { db in try Row.fetchAll(db, RowsOfRequest(request())) }
    }

    /// The first row that a request gives; see `fetch`.
    public func fetchOne<Request: FetchRequest>(
        _ request: @autoclosure @escaping @Sendable () throws -> Request
    ) async throws -> Request.RowDecoder? where Request.RowDecoder: EditableRecord {
        try await reading(Request.RowDecoder.self) { db in try Row.fetchOne(db, RowsOfRequest(request())).map { [$0] } ?? [] }.first
    }

    /// The row of an identifier, also one that was inserted here; nil where there is none.
    ///
    /// - Throws: what reading and decoding throw.
    public func find<Record: EditableRecord>(_ type: Record.Type = Record.self, _ identifier: PersistentIdentifier) async throws -> Record?
    {
        if let known = try record(Record.self, for: identifier) { return known }
        return try await reading(Record.self) { db in try self.current(identifier).fetch(db).map { [$0] } ?? [] }.first
    }

    /// Brings all rows that were read to what is stored now. Edits stay, on top of it: a save has no conflict with what was seen
    /// here. A row that others deleted is forgotten; if it was edited, it is a new row from then on, with all its values.
    /// Records from before are out of date; take them anew with `record`.
    ///
    /// - Throws: `AnnalsError` when SQLite refuses.
    public func refresh() async throws {
        try await store.readForEditing { [self] db, catalog, newest in
            try follow(db, catalog, upTo: newest)
            let stored = try edits.stored(db)
            state.withLock { state in
                state.edits.refresh(stored)
                state.generation += 1
            }
        }
    }

    private func reading<Record: EditableRecord>(
        _ type: Record.Type, _ fetch: @escaping @Sendable (Database) throws -> [Row]
    ) async throws -> [Record] {
        try await store.readForEditing { [self] db, catalog, newest in
            let table = try follow(db, catalog, upTo: newest).table(of: Record.self)
            let rows = try fetch(db).map { try EditSet.whole($0, table, db) }
            return try state.withLock { try $0.edits.read(rows, Record.self, at: newest) }
        }
    }

    /// Goes on with rows that syncs gave other keys. The lock is held only for what needs no database.
    @discardableResult
    private func follow(_ db: Database, _ catalog: TableCatalog, upTo newest: Int64) throws -> EditSet {
        let renumbered = try Store.renumberedRows(db, after: edits.oldest)
        return state.withLock { state in
            state.edits.move(to: catalog)
            state.edits.follow(renumbered, upTo: newest)
            return state.edits
        }
    }

    // MARK: Editing

    /// Whether a save would have anything to do. An edit that is taken back is none.
    public var hasChanges: Bool { state.withLock { $0.edits.hasChanges } }
    /// What is known and edited, as a value.
    public var edits: EditSet { state.withLock { $0.edits } }

    /// A row as a record, with its edits; nil where it was not read here or is to be deleted.
    public func record<Record: EditableRecord>(_ type: Record.Type = Record.self, for identifier: PersistentIdentifier) throws -> Record? {
        try state.withLock { try $0.edits.record(type, for: identifier) }
    }

    /// What a row is called now, that was new before a save, or that a sync gave another key.
    public func current(_ identifier: PersistentIdentifier) -> PersistentIdentifier {
        state.withLock { $0.edits.current(identifier) }
    }

    /// Adds a new row; see `EditSet.insert`.
    @discardableResult
    public func insert<Record: EditableRecord>(_ record: Record) throws -> Record {
        try state.withLock { try $0.edits.insert(record) }
    }

    /// Changes a row's record as it is known here now; see `EditSet.edit`.
    ///
    /// The closure may use the context. It must not wait for another thread that edits here.
    @discardableResult
    public func edit<Record: EditableRecord>(_ record: Record, _ change: (inout Record) throws -> Void) throws -> Record {
        try turns.withLock {
            let before = try state.withLock { try $0.edits.known(record) }
            var changed = before
            try change(&changed)
            return try state.withLock { try $0.edits.take(changed, editedFrom: before) }
        }
    }

    /// Takes a record as its row is to be; see `EditSet.update`.
    public func update<Record: EditableRecord>(_ record: Record) throws {
        try state.withLock { try $0.edits.update(record) }
    }

    /// Takes a record as its row is to be that was read elsewhere; see `EditSet.update(_:from:)`.
    public func update<Record: EditableRecord>(_ record: Record, from original: Record) throws {
        try state.withLock { try $0.edits.update(record, from: original) }
    }

    /// Deletes a row; see `EditSet.delete`.
    public func delete<Record: EditableRecord>(_ record: Record) throws {
        try state.withLock { try $0.edits.delete(record) }
    }

    // MARK: Undoing

    /// A moment of a context's edits, to which they can be undone until they are saved or discarded.
    public struct Savepoint: Sendable {
        fileprivate let edits: EditSet
        fileprivate let generation: Int
    }

    /// Remembers the edits as they are now.
    public func savepoint() -> Savepoint {
        state.withLock { Savepoint(edits: $0.edits, generation: $0.generation) }
    }

    /// Takes back what was edited since a savepoint. Rows that were read since stay known.
    ///
    /// - Throws: `AnnalsError` with code `usage` for a savepoint from before a save, discard or refresh.
    public func undo(to savepoint: Savepoint) throws {
        try state.withLock { state in
            guard savepoint.generation == state.generation else {
                throw AnnalsError.editing("the savepoint is from before a save or discard", hint: "Undo only reaches back to that")
            }
            state.edits.undo(to: savepoint.edits)
        }
    }

    /// Drops all edits, and forgets the rows as they were read: what is fetched next is what is stored.
    public func discard() {
        state.withLock { state in
            state.edits.discard()
            state.generation += 1
        }
    }

    // MARK: Saving

    /// Saves all edits as one transaction of history, or none of them.
    ///
    /// What is edited while it runs stays edited. Where it throws, the edits are still there: refresh and save again, save with
    /// another policy, or discard.
    ///
    /// - Parameter mergePolicy: in the place of the context's own.
    /// - Returns: what was saved, and which conflicts the policy settled. Records of rows with conflicts are out of date: take them
    ///   anew with `record`.
    /// - Throws: `AnnalsError`; see `AnnalsError.saveError`.
    @discardableResult
    public func save(mergePolicy: MergePolicy? = nil) async throws -> SavedEdits {
        let saved = try await store.save(author: author, contextName: contextName) { [self] () -> (EditSet, MergePolicy)? in
            state.withLock { $0.edits.hasChanges ? ($0.edits, mergePolicy ?? $0.policy) : nil }
        } write: { session, edits in
            var saving = Saving(session, edits.0, edits.1)
            return try saving.run()
        } conclude: { session, saved, touched in
            try Saving.noteEffects(session, &saved, touched)
        } done: { [self] saved, token in
            state.withLock { state in
                state.edits.absorb(saved.rows)
                state.generation += 1
            }
            return saved.summary(token)
        }
        return saved ?? SavedEdits()
    }
}

/// The rows of a request, before they are decoded.
private struct RowsOfRequest<Request: FetchRequest>: FetchRequest {
    typealias RowDecoder = Row
    let request: Request

    init(_ request: Request) { self.request = request }

    var sqlSubquery: SQLSubquery { request.sqlSubquery }
    func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
        try request.makePreparedRequest(db, forSingleResult: singleResult)
    }
    func fetchCount(_ db: Database) throws -> Int { try request.fetchCount(db) }
    func databaseRegion(_ db: Database) throws -> DatabaseRegion { try request.databaseRegion(db) }
}
