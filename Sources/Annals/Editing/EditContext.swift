import AnnalsCore
public import AnnalsStore
import Foundation
public import GRDB
public import Observation
import Synchronization

/// A scratch pad for edits. Rows are read, edited, inserted and deleted in memory. All edits are saved together, or none is.
///
///     let context = try await store.editContext(author: "till 3")
///     guard let invoice = try await context.fetchOne(Invoice.filter(key: 17)) else { return }
///     try context.edit(invoice) { $0.isPaid = true }
///     try context.insert(Payment(invoiceID: 17, amount: 120))
///     try await context.save()
///
/// The context remembers each row as it was read. A save checks whether another part of the app, another process or a sync
/// changed the row since then, and applies the merge policy. The default policy throws the conflicts and saves nothing. All rows
/// of a save are one transaction of history. A save without changes makes no transaction.
///
/// Records are values. A context can be used from every actor and thread. Editing never waits for the database. A row is
/// identified by its key. If a sync gives a row another key, the context follows it.
///
/// Each record is written by its own `insert`, `update` and `delete`, so its callbacks, such as `willSave`, run. An error that a
/// callback throws is a validation error. A record with the `persistenceConflictPolicy` `replace` does not replace rows here.
///
/// `hasChanges` can be observed, and observers are notified on the main actor. So a SwiftUI view that reads it follows the edits. Other
/// code follows `changes()`.
public final class EditContext: Sendable, Observable {
    public let store: Store
    /// The author that history records for the saves of this context.
    public let author: String?
    public let contextName: String?
    /// The context that gets the edits of a save; nil if a save writes to the store. See `child()`.
    public let parent: EditContext?

    struct State {
        var edits: EditSet
        /// What the parent had when this context began, or last gave its edits to it.
        var start: EditSet?
        var policy: MergePolicy
        /// Incremented when earlier savepoints become invalid.
        var generation = 0
    }

    let state: Mutex<State>
    /// Those who wait for changes of the edits.
    private let observers = Mutex<(next: Int, all: [Int: AsyncStream<Void>.Continuation])>((0, [:]))
    private let registrar = ObservationRegistrar()
    /// Whether `hasChanges` was read since its observers were notified last.
    private let isRead = Mutex(false)
    /// Serializes edits with closures, so that no edit misses another one. The lock is recursive because a closure may use the
    /// context.
    private let editLock = NSRecursiveLock()

    init(
        _ store: Store, _ edits: EditSet, author: String?, contextName: String?, _ policy: MergePolicy, parent: EditContext? = nil
    ) {
        self.store = store
        self.author = author
        self.contextName = contextName
        self.parent = parent
        state = Mutex(State(edits: edits, start: parent.map { _ in edits }, policy: policy))
    }

    /// The policy of each save that is not given its own.
    public var mergePolicy: MergePolicy {
        get { state.withLock { $0.policy } }
        set { state.withLock { $0.policy = newValue } }
    }

    // MARK: Reading

    /// The rows of a request, with the unsaved edits of this context: new rows are found and rows that are to be deleted are not, and
    /// the request's conditions and order apply to the edited values.
    ///
    /// Without unsaved edits of its row, a record that this context already knows has the values with which it was read first. `refresh`
    /// updates all known rows to the stored values. While a table has edits, a request that names its `rowid`
    /// fails, as GRDB's count of associated rows does for a table without an integer key, and one that names the schema `main` does not see
    /// the edits. An edit with a value that the table would refuse is seen, too.
    ///
    /// - Parameter request: evaluated where the database is read, so it can use only `Sendable` values.
    /// - Throws: `AnnalsError` with code `usage` for a table without a primary key; errors of reading and decoding.
    public func fetch<Request: FetchRequest>(_ request: @autoclosure @escaping @Sendable () throws -> Request) async throws -> [Request
        .RowDecoder]
    where Request.RowDecoder: EditableRecord {
        try await reading(Request.RowDecoder.self) { db in try Row.fetchAll(db, RowsOfRequest(request())) }
    }

    /// The first row of a request; see `fetch`.
    public func fetchOne<Request: FetchRequest>(
        _ request: @autoclosure @escaping @Sendable () throws -> Request
    ) async throws -> Request.RowDecoder? where Request.RowDecoder: EditableRecord {
        try await reading(Request.RowDecoder.self) { db in try Row.fetchOne(db, RowsOfRequest(request())).map { [$0] } ?? [] }.first
    }

    /// The row of an identifier, also if it was inserted here and is not saved; nil if there is none.
    ///
    /// - Throws: errors of reading and decoding.
    public func find<Record: EditableRecord>(_ type: Record.Type = Record.self, _ identifier: PersistentIdentifier) async throws -> Record?
    {
        if let known = try record(Record.self, for: identifier) { return known }
        return try await reading(Record.self, seesEdits: false) { db in try self.current(identifier).fetch(db).map { [$0] } ?? [] }.first
    }

    /// Updates all rows that were read to the values that are stored now. Edits of them are kept, so the next save reports
    /// no conflict with changes that this refresh has read. A row that others deleted is forgotten. If it was edited, it becomes
    /// a new row with all its values. Records that were read before are out of date; get them again with `record`.
    ///
    /// In a child context, the rows get the values of the parent, which is refreshed first.
    ///
    /// - Throws: `AnnalsError` if SQLite fails.
    public func refresh() async throws {
        if let parent {
            try await parent.refresh()
            return try await withParent(parent) { state, parent in try state.restart(from: parent) }
        }
        try await store.readForEditing { [self] db, catalog, newest in
            try follow(db, catalog, upTo: newest)
            let stored = try edits.stored(db)
            change { state in
                state.edits.refresh(stored)
                state.generation += 1
            }
        }
    }

    private func reading<Record: EditableRecord>(
        _ type: Record.Type, seesEdits: Bool = true, _ fetch: @escaping @Sendable (Database) throws -> [Row]
    ) async throws -> [Record] {
        try await store.readForEditing { [self] db, catalog, newest in
            let edits = try follow(db, catalog, upTo: newest)
            let table = try edits.table(of: Record.self)
            func rows() throws -> [EditSet.FetchedRow] { try fetch(db).map { try EditSet.whole($0, table, db) } }
            let rows = try seesEdits ? PendingRows(edits).whileVisible(db, in: table.name, rows) : rows()
            return try state.withLock { try $0.edits.read(rows, Record.self, at: newest, seen: edits) }
        }
    }

    /// Applies the new keys that syncs gave to known rows. The lock is held only for the part that needs no database.
    @discardableResult
    func follow(_ db: Database, _ catalog: TableCatalog, upTo newest: Int64) throws -> EditSet {
        let saved = try parent?.follow(db, catalog, upTo: newest)
        let renumbered = try Store.renumberedRows(db, after: edits.oldest)
        return state.withLock { state in
            if let saved { state.followSaves(of: saved) }
            state.edits.move(to: catalog)
            state.edits.follow(renumbered, upTo: newest)
            state.start?.move(to: catalog)
            state.start?.follow(renumbered, upTo: newest)
            return state.edits
        }
    }

    // MARK: Editing

    /// Whether a save has anything to do. An edit that was reverted does not count.
    public var hasChanges: Bool {
        registrar.access(self, keyPath: \.hasChanges)
        isRead.withLock { $0 = true }
        return state.withLock { state in state.start.map { state.edits.differs(from: $0) } ?? state.edits.hasChanges }
    }
    /// A copy of the known rows and their edits, in a child context with those of its parent.
    public var edits: EditSet { state.withLock { $0.edits } }

    /// A row as a record, with its edits; nil if it was not read here or is to be deleted.
    public func record<Record: EditableRecord>(_ type: Record.Type = Record.self, for identifier: PersistentIdentifier) throws -> Record? {
        try state.withLock { try $0.edits.record(type, for: identifier) }
    }

    /// The current identifier of a row that was new before a save, or that a sync gave another key.
    public func current(_ identifier: PersistentIdentifier) -> PersistentIdentifier {
        state.withLock { $0.edits.current(identifier) }
    }

    /// Adds a new row; see `EditSet.insert`.
    @discardableResult
    public func insert<Record: EditableRecord>(_ record: Record) throws -> Record {
        try change { try $0.edits.insert(record) }
    }

    /// Edits a row, starting from its values in this context; see `EditSet.edit`.
    ///
    /// The closure may use the context. It must not wait for another thread that edits this context.
    @discardableResult
    public func edit<Record: EditableRecord>(_ record: Record, _ change: (inout Record) throws -> Void) throws -> Record {
        try editLock.withLock {
            let before = try state.withLock { try $0.edits.known(record) }
            var changed = before
            try change(&changed)
            return try self.change { try $0.edits.take(changed, editedFrom: before) }
        }
    }

    /// Sets a row to the values of a record; see `EditSet.update`.
    public func update<Record: EditableRecord>(_ record: Record) throws {
        try change { try $0.edits.update(record) }
    }

    /// Sets a row that was read elsewhere to the values of a record; see `EditSet.update(_:from:)`.
    public func update<Record: EditableRecord>(_ record: Record, from original: Record) throws {
        try change { try $0.edits.update(record, from: original) }
    }

    /// Deletes a row; see `EditSet.delete`.
    public func delete<Record: EditableRecord>(_ record: Record) throws {
        try change { try $0.edits.delete(record) }
    }

    // MARK: Observing

    /// An element now, and one after each change of the edits: by an edit, a save, an undo, a refresh or a discard. Changes that happen
    /// while the reader is busy are one element.
    ///
    ///     for await _ in context.changes() { saveButton.isEnabled = context.hasChanges }
    public func changes() -> AsyncStream<Void> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let number = observers.withLock { observers in
                observers.next += 1
                observers.all[observers.next] = continuation
                return observers.next
            }
            continuation.onTermination = { [weak self] _ in self?.observers.withLock { $0.all[number] = nil } }
            continuation.yield()
        }
    }

    /// Changes the state, and notifies those who wait for it.
    func change<T>(_ body: (inout State) throws -> T) rethrows -> T {
        let result = try state.withLock { try body(&$0) }
        notify()
        return result
    }

    func notify() {
        for observer in observers.withLock({ $0.all.values.map(\.self) }) { observer.yield() }
        // The code of observers must not run here, where an edit holds a lock or a save the database.
        let mayBeObserved = isRead.withLock { isRead in
            defer { isRead = false }
            return isRead
        }
        guard mayBeObserved else { return }
        Task { @MainActor [weak self] in
            guard let self else { return }
            registrar.withMutation(of: self, keyPath: \.hasChanges) {}
        }
    }

    // MARK: Undoing

    /// A state of a context's edits. Edits can be undone back to it until they are saved or discarded.
    public struct Savepoint: Sendable {
        fileprivate let edits: EditSet
        fileprivate let generation: Int
    }

    /// Remembers the current edits.
    public func savepoint() -> Savepoint {
        state.withLock { Savepoint(edits: $0.edits, generation: $0.generation) }
    }

    /// Undoes the edits made since a savepoint. Rows that were read since then remain known.
    ///
    /// - Throws: `AnnalsError` with code `usage` if a save, discard or refresh came after the savepoint.
    public func undo(to savepoint: Savepoint) throws {
        try change { state in
            guard savepoint.generation == state.generation else {
                throw AnnalsError.editing(
                    "the savepoint is older than the last save, discard or refresh", hint: "Use a savepoint that was made after it")
            }
            state.edits.undo(to: savepoint.edits)
        }
    }

    /// Drops all edits and forgets all rows. The next fetch returns the stored values. A child context drops its own edits only.
    public func discard() {
        if let parent {
            let edits = parent.editsForChild()
            return change { state in
                (state.edits, state.start) = (edits, edits)
                state.generation += 1
            }
        }
        change { state in
            state.edits.discard()
            state.generation += 1
        }
    }

    // MARK: Saving

    /// Saves all edits as one transaction of history, or none of them.
    ///
    /// Edits that are made while the save runs are not part of it; they remain for the next save. If the save throws, all edits
    /// are kept: refresh and save again, save with another policy, or discard.
    ///
    /// A child context gives its edits to its parent, and writes nothing; see `child()`.
    ///
    /// - Parameter mergePolicy: replaces the context's policy for this save.
    /// - Returns: what was saved, and the conflicts that the policy settled. Records of rows with conflicts are out of date; get
    ///   them again with `record`.
    /// - Throws: `AnnalsError`; see `AnnalsError.saveError`.
    @discardableResult
    public func save(mergePolicy: MergePolicy? = nil) async throws -> SavedEdits {
        if let parent {
            try await withParent(parent) { state, parent in try state.give(to: &parent) }
            return SavedEdits()
        }
        let saved = try await store.save(author: author, contextName: contextName) { [self] () -> (EditSet, MergePolicy)? in
            state.withLock { state in
                let edited = state.edits.onlyEdited
                return edited.rows.isEmpty ? nil : (edited, mergePolicy ?? state.policy)
            }
        } write: { session, edits in
            var saving = Saving(session, edits.0, edits.1)
            return try saving.run()
        } conclude: { [self] session, saved, touched in
            try Saving.noteEffects(session, &saved, known: state.withLock { $0.edits }, touched)
        } done: { [self] saved, token in
            change { state in
                state.edits.absorb(saved.rows)
                state.generation += 1
            }
            return saved.summary(token)
        }
        return saved ?? SavedEdits()
    }
}

/// A request that returns rows before they are decoded.
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
