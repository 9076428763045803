public import AnnalsStore
public import GRDB
import Synchronization

/// A list that keeps itself up to date: a snapshot of what a request brings, and another one each time that becomes something
/// else.
///
///     let results = FetchedResults(Task.query.ascending("list", "title"), in: store, sectionBy: \.list)
///     for try await snapshot in results {
///         show(snapshot.sectionIdentifiers, snapshot.difference(from: shown))
///     }
///
/// Every snapshot is the state behind one commit, whole: there is one for each transaction that changes the list, whoever made
/// it, this process, another one or a sync. Those that come while the list's reader is busy are told as one, so that a slow
/// reader is never behind by more than one. What changes nothing in the list makes no snapshot.
///
/// A list is refreshed by every tracked table that its request reads, so also by those it joins or includes. Changes of a table
/// without history are seen with the next change of one that has it.
///
/// The request must be ordered; its rows that the ordering finds equal follow each other by primary key. Rows of a section
/// should follow each other too: those that do not are gathered where the section's first row stands.
///
/// Each iteration is a list of its own, for one task. Of an ordinary request of one table only the keys are read again, and the
/// rows that changed.
public struct FetchedResults<SectionID: Hashable & Sendable, Item: FetchableRecord & Identifiable & Sendable>: AsyncSequence, Sendable
where Item.ID: Hashable & Sendable {
    public typealias Element = FetchedResultsSnapshot<SectionID, Item>
    public typealias Failure = any Error

    let request: QueryInterfaceRequest<Item>
    let store: Store
    let section: @Sendable (Item) -> SectionID

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

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(results: self) }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let results: FetchedResults
        /// Changed where it lies: a copy of a long list is what a refresh would mostly take.
        private let state = ListBox<SectionID, Item>()
        private var commits: RemoteChanges.AsyncIterator?

        fileprivate init(results: FetchedResults) {
            self.results = results
        }

        /// The next state of the list; the first time, what it is now. nil when the task is cancelled.
        ///
        /// - Throws: `AnnalsError`: `usage` for a request that is not ordered, does not select its key, brings a row twice or
        ///   names a column that does not exist; `notTracked` where no table that it reads has history. `usage`, too, when the store
        ///   is closed.
        public mutating func next() async throws -> Element? {
            do {
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
            } catch let error as AnnalsError where error.code == .cancelled {
                return nil
            }
        }

        private var snapshot: Element? { state.list.withLock { $0.snapshot } }

        private func listen() throws -> RemoteChanges.AsyncIterator? {
            guard let token = snapshot?.token else { return nil }
            return results.store.remoteChanges(after: token).makeAsyncIterator()
        }

        /// False when the task is cancelled.
        private mutating func waitForCommit() async throws -> Bool {
            while true {
                do {
                    guard let change = try await commits?.next() else { return false }
                    // The list may have been read after this commit.
                    if let token = snapshot?.token, change.token.number <= token.number { continue }
                    return true
                } catch let error as AnnalsError where error.code == .tokenExpired || error.code == .tokenUnknown {
                    // History was purged up to what happened meanwhile: the list is read anew.
                    commits = results.store.remoteChanges.makeAsyncIterator()
                    return true
                }
            }
        }

        private func refresh() async throws -> Bool {
            while true {
                do {
                    return try await results.store.read { [results, state] db in
                        try state.list.withLock { try $0.refresh(results.request, results.store, db, section: results.section) }
                    }
                } catch let error as AnnalsError where error.isRetryable {
                    try await ContinuousClock().sleep(for: ListLimits.pauseWhenBusy)
                }
            }
        }
    }
}

/// A list's state for the access that refreshes it. Another program's lock is met before anything of it is changed; any other
/// error ends the list.
private final class ListBox<SectionID: Hashable & Sendable, Item: FetchableRecord & Identifiable & Sendable>: Sendable
where Item.ID: Hashable & Sendable {
    let list = Mutex(ListState<SectionID, Item>())
}

/// The one section of a list that has no others.
public struct SingleSection: Hashable, Sendable {
    public init() {}
}

extension FetchedResults where SectionID == SingleSection {
    /// A list without sections.
    public init(_ request: QueryInterfaceRequest<Item>, in store: Store) {
        self.init(request, in: store) { _ in SingleSection() }
    }

    /// A list without sections.
    public init(_ query: Query<Item>, in store: Store) where Item: TableRecord {
        self.init(query.request, in: store)
    }
}
