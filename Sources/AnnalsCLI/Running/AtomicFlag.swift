import Synchronization

/// Something that happens once, told from one thread to another.
final class AtomicFlag: Sendable {
    private let value = Atomic(false)
    var isSet: Bool { value.load(ordering: .relaxed) }
    func set() { value.store(true, ordering: .relaxed) }
}
