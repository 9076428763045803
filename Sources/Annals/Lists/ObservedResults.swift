public import GRDB
public import Observation

/// The newest state of a list, for SwiftUI and for everything else that follows an observable object.
///
///     let tasks = ObservedResults(FetchedResults(Task.query.ascending("title"), in: store))
///     let titles = tasks.items.map(\.title)
///
/// A SwiftUI view that reads `items` in its body is drawn again after each commit that changes the list, by this app, another program or
/// a sync. Create the object once, for example in the app's model: each one reads the list, and follows it until it is released.
@MainActor @Observable
public final class ObservedResults<SectionID: Hashable & Sendable, Item: FetchableRecord & Identifiable & Sendable>
where Item.ID: Hashable & Sendable {
    /// The list with its sections; nil until it was read for the first time.
    public private(set) var snapshot: FetchedResultsSnapshot<SectionID, Item>?
    /// The error that ended the list. The snapshot before it stays.
    public private(set) var error: (any Error)?
    @ObservationIgnored private var following: Following?

    /// The rows of all sections in their order; empty until the list was read for the first time.
    public var items: [Item] { snapshot?.allItems ?? [] }

    /// Follows the list from now on, until the object is released.
    public init(_ results: FetchedResults<SectionID, Item>) {
        following = Following(
            Task { [weak self] in
                do {
                    for try await snapshot in results { self?.snapshot = snapshot }
                } catch {
                    self?.error = error
                }
            })
    }

    /// Cancels its task at its end.
    private final class Following: Sendable {
        private let task: Task<Void, Never>

        init(_ task: Task<Void, Never>) { self.task = task }

        deinit { task.cancel() }
    }
}
