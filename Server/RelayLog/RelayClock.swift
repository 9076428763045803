internal import Dispatch
internal import Foundation

/// The clock of the relay; tests replace it.
package struct RelayClock: Sendable {
    /// Milliseconds since 1970: for receipt times and displayed times.
    package var wall: @Sendable () -> Int64
    /// Milliseconds since an arbitrary moment, never decreasing: for leases and intervals, because a correction of the
    /// wall clock must not change them.
    package var monotonic: @Sendable () -> Int64
    /// Waits for this duration, or throws CancellationError.
    package var sleep: @Sendable (Duration) async throws -> Void

    package init(
        wall: @escaping @Sendable () -> Int64, monotonic: @escaping @Sendable () -> Int64,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await ContinuousClock().sleep(for: $0) }
    ) {
        self.wall = wall
        self.monotonic = monotonic
        self.sleep = sleep
    }

    package static let system = RelayClock(
        wall: { Int64((Date().timeIntervalSince1970 * 1000).rounded(.down)) },
        monotonic: { Int64(DispatchTime.now().uptimeNanoseconds / 1_000_000) })
}
