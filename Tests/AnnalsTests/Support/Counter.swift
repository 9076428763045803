import Synchronization

/// A counter that any thread can use.
final class Counter: Sendable {
    private let count = Mutex(0)

    var value: Int { count.withLock { $0 } }

    func add(_ more: Int = 1) { count.withLock { $0 += more } }
}
