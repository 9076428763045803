public import AnnalsStore
public import GRDB
import Synchronization

/// A list that updates itself: a snapshot of a request's rows, and a new snapshot each time the result changes.
///
///     let results = FetchedResults(Task.query.ascending("list", "title"), in: store, sectionBy: \.list)
///     for try await snapshot in results {
///         show(snapshot.sectionIdentifiers, snapshot.difference(from: shown))
///     }
///
/// Each snapshot is the complete state after one commit. Every transaction that changes the list makes one, whether this process,
/// another process or a sync committed it. Commits that arrive while the reader is busy are combined in one snapshot, so a slow
/// reader is never more than one snapshot behind. A commit that does not change the list makes no snapshot.
///
/// Every tracked table that the request reads refreshes the list, also joined and included tables. A change of a table without
/// history appears with the next change of a table that has history.
///
/// The request must be ordered. Rows that the ordering finds equal are ordered by primary key. The rows of a section should
/// follow each other; those that do not are moved to the position of the section's first row.
///
/// A row that cannot be decoded ends the list with its error, unless the app asks for `skippingUndecodableRows()`.
///
/// Each iteration is a separate list, for one task. For a plain request of one table, a refresh reads only the keys and the
/// changed rows.
public struct FetchedResults<SectionID: Hashable & Sendable, Item: FetchableRecord & Identifiable & Sendable>: AsyncSequence, Sendable
where Item.ID: Hashable & Sendable {
    public typealias Element = FetchedResultsSnapshot<SectionID, Item>
    public typealias Failure = any Error

    let request: QueryInterfaceRequest<Item>
    let store: Store
    let section: @Sendable (Item) -> SectionID
    /// The context whose unsaved edits the list shows; nil for stored rows only.
    var context: EditContext?
    var skipsUndecodableRows = false

    public init(
        _ request: QueryInterfaceRequest<Item>, in store: Store, sectionBy section: @escaping @Sendable (Item) -> SectionID
    ) {
        self.request = request
        self.store = store
        self.section = section
    }

    public init(_ query: Query<Item>, in store: Store, sectionBy section: @escaping @Sendable (Item) -> SectionID)
    where Item: TableRecord {
        self.init(query.request, in: store, sectionBy: section)
    }

    /// A list of a context's rows: with its unsaved edits, new rows and without the rows that are to be deleted. Each edit of the context
    /// that changes the list makes a snapshot, as each commit does. A refresh reads all rows of the request.
    ///
    ///     for try await snapshot in FetchedResults(Task.query.ascending("title"), in: context, sectionBy: \.list) { show(snapshot) }
    public init(_ query: Query<Item>, in context: EditContext, sectionBy section: @escaping @Sendable (Item) -> SectionID)
    where Item: TableRecord {
        self.init(query.request, in: context.store, sectionBy: section)
        self.context = context
    }

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(results: self) }

    /// The same list, which leaves out a row that cannot be decoded, for example because another version of the app wrote a value that
    /// this one does not know. `undecodableRows` of a snapshot has these rows and their errors. A row returns to the list with the
    /// commit that makes it decodable.
    public func skippingUndecodableRows() -> Self {
        var copy = self
        copy.skipsUndecodableRows = true
        return copy
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let results: FetchedResults
        /// Changed in place, because a copy of a long list would take most of a refresh.
        private let state = ListBox<SectionID, Item>()
        private var commits: RemoteChanges.AsyncIterator?
        private var wakeups: AsyncThrowingStream<Void, any Error>.AsyncIterator?

        fileprivate init(results: FetchedResults) {
            self.results = results
        }

        /// The next state of the list; the first call returns the current state. nil if the task is cancelled.
        ///
        /// - Throws: `AnnalsError`: `usage` for a request that is not ordered, does not select its key, returns a row twice or
        ///   names a column that does not exist; `notTracked` if no table that it reads has history; `usage` if the store is
        ///   closed. The error of decoding a row, unless such rows are skipped.
        public mutating func next() async throws -> Element? {
            do {
                if let context = results.context { return try await next(in: context) }
                if commits == nil {
                    _ = try await refresh()
                    commits = try listen()
                    return snapshot
                }
                while try await waitForCommit() {
                    if try await refresh() { return snapshot }
                }
                return nil
            } catch is CancellationError {
                return nil
            }
        }

        private mutating func next(in context: EditContext) async throws -> Element? {
            if wakeups == nil { wakeups = Self.wakeups(of: context).makeAsyncIterator() }
            while try await wakeups?.next() != nil {
                if try await refresh() { return snapshot }
            }
            return nil
        }

        /// An element now, and after each commit and each edit.
        private static func wakeups(of context: EditContext) -> AsyncThrowingStream<Void, any Error> {
            // Begins now, before the first refresh.
            let commits = context.store.remoteChanges
            return AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
                let work = Task {
                    do {
                        try await withThrowingTaskGroup(of: Void.self) { group in
                            defer { group.cancelAll() }
                            group.addTask { for await _ in context.changes() { continuation.yield() } }
                            group.addTask { for try await _ in commits { continuation.yield() } }
                            try await group.next()
                        }
                        continuation.finish()
                    } catch {
                        continuation.finish(throwing: error)
                    }
                }
                continuation.onTermination = { _ in work.cancel() }
            }
        }

        private var snapshot: Element? { state.list.withLock { $0.snapshot } }

        private func listen() throws -> RemoteChanges.AsyncIterator? {
            guard let token = snapshot?.token else { return nil }
            return results.store.remoteChanges(after: token).makeAsyncIterator()
        }

        /// False if the task is cancelled.
        private mutating func waitForCommit() async throws -> Bool {
            while true {
                do {
                    guard let change = try await commits?.next() else { return false }
                    // The list may have been read after this commit.
                    if let token = snapshot?.token, change.token.number <= token.number { continue }
                    return true
                } catch let error as AnnalsError where error.code == .tokenExpired || error.code == .tokenUnknown {
                    // History was purged past the list's token, so the list is read again.
                    commits = results.store.remoteChanges.makeAsyncIterator()
                    return true
                }
            }
        }

        private func refresh() async throws -> Bool {
            while true {
                do {
                    let (results, state) = (results, state)
                    guard let context = results.context else {
                        return try await results.store.read { db in
                            try state.list.withLock {
                                try $0.refresh(
                                    results.request, results.store, db, section: results.section, skips: results.skipsUndecodableRows)
                            }
                        }
                    }
                    return try await results.store.readForEditing { db, catalog, newest in
                        let edits = try context.follow(db, catalog, upTo: newest)
                        return try state.list.withLock {
                            try $0.refresh(
                                results.request, results.store, db, section: results.section, edits: edits,
                                skips: results.skipsUndecodableRows)
                        }
                    }
                } catch let error as AnnalsError where error.isRetryable {
                    try await ContinuousClock().sleep(for: ListLimits.pauseWhenBusy)
                }
            }
        }
    }
}

/// Holds the state of a list so that a read access can change it in place. An error because of another program's lock is thrown
/// before the state changes, so the refresh can be repeated. Any other error ends the list.
private final class ListBox<SectionID: Hashable & Sendable, Item: FetchableRecord & Identifiable & Sendable>: Sendable
where Item.ID: Hashable & Sendable {
    let list = Mutex(ListState<SectionID, Item>())
}

/// The only section of a list without sections.
public struct SingleSection: Hashable, Sendable {
    public init() {}
}

extension FetchedResults where SectionID == SingleSection {
    /// Creates a list without sections.
    public init(_ request: QueryInterfaceRequest<Item>, in store: Store) {
        self.init(request, in: store) { _ in SingleSection() }
    }

    /// Creates a list without sections of a context's rows.
    public init(_ query: Query<Item>, in context: EditContext) where Item: TableRecord {
        self.init(query, in: context) { _ in SingleSection() }
    }

    /// Creates a list without sections.
    public init(_ query: Query<Item>, in store: Store) where Item: TableRecord {
        self.init(query.request, in: store)
    }
}
