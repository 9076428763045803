public import AnnalsSync
import Synchronization

/// A wall clock that only the test advances. If two writes conflict, the later one wins:
///
///     try await space[0].store.write { db in try db.execute(sql: "UPDATE note SET title = 'Oat milk'") }
///     space.clock.advance(.seconds(60))
///     try await space[1].store.write { db in try db.execute(sql: "UPDATE note SET title = 'Soy milk'") }
///     try await space.settle()
public final class ManualClock: Sendable {
    private let state: Mutex<Int64>

    /// - Parameter milliseconds: the first time, in milliseconds since 1970.
    public init(milliseconds: Int64) {
        state = Mutex(milliseconds)
    }

    public var milliseconds: Int64 { state.withLock { $0 } }

    public func advance(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        state.withLock { $0 += seconds * 1000 + attoseconds / 1_000_000_000_000_000 }
    }

    /// The environment of an agent with pauses that advance this clock and take no real time.
    public var environment: SyncAgent.Environment {
        var environment = SyncAgent.Environment(
            pause: { [self] duration in
                try Task.checkCancellation()
                advance(duration)
                await Task.yield()
            }, random: { 0.5 })
        environment.elapsed = { [self] in .milliseconds(milliseconds) }
        return environment
    }
}
