public import AnnalsStore
import AnnalsCore
import Synchronization

/// The default store: the one that records use if they are given no other. An app sets it when it starts.
///
///     Store.setDefault(try Store(path: path))
///     try await Person(id: 1, name: "Ada").insert()
///
/// A test sets another one for its own task, so that tests can run in parallel:
///
///     try await Store.withDefault(store) { try await person.insert() }
extension Store {
    private static let shared = Mutex<Store?>(nil)
    @TaskLocal private static var ofTask: Store?

    /// - Throws: `AnnalsError` with code `configuration` if no default store was set.
    public static func requireDefault() throws -> Store {
        guard let store = ofTask ?? shared.withLock({ $0 }) else {
            throw AnnalsError(
                .configuration, operation: "store", "no default store was set", hint: "Call Store.setDefault when the app starts")
        }
        return store
    }

    /// Sets the default store of the process; nil removes it.
    public static func setDefault(_ store: Store?) { shared.withLock { $0 = store } }

    /// Runs a closure, and the child tasks that it starts, with another default store.
    @discardableResult
    public static func withDefault<T>(
        _ store: Store, isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> T
    ) async rethrows -> T {
        try await $ofTask.withValue(store, operation: body, isolation: isolation)
    }
}
