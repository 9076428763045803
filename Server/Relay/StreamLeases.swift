internal import Synchronization

/// How many event streams are open. One counts from its request on until whoever writes it is gone.
final class StreamLeases: Sendable {
    private let limit: Int
    private let open = Atomic(0)

    init(limit: Int) { self.limit = limit }

    var count: Int { open.load(ordering: .relaxed) }

    /// nil when there are as many as there may be.
    func take() -> Lease? {
        let count = open.add(1, ordering: .relaxed).newValue
        let lease = Lease(leases: self)
        return count <= limit ? lease : nil
    }

    /// Gives its place back when it goes.
    final class Lease: Sendable {
        private let leases: StreamLeases

        fileprivate init(leases: StreamLeases) { self.leases = leases }

        deinit { leases.open.subtract(1, ordering: .relaxed) }
    }
}
