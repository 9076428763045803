internal import Dispatch
internal import Foundation

/// The time, given in so that tests can turn it.
package struct RelayClock: Sendable {
    /// Milliseconds since 1970: receipt times and what people read.
    package var wall: @Sendable () -> Int64
    /// Milliseconds since some moment, never going back: turns and intervals, which a corrected wall clock must not stretch.
    package var monotonic: @Sendable () -> Int64
    /// Waits so long, or throws CancellationError.
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
