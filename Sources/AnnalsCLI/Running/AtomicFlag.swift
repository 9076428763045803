import Synchronization

/// A flag that one thread sets once and another thread reads.
final class AtomicFlag: Sendable {
    private let value = Atomic(false)
    var isSet: Bool { value.load(ordering: .relaxed) }
    func set() { value.store(true, ordering: .relaxed) }
}
