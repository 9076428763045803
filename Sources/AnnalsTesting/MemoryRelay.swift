public import AnnalsCore
public import AnnalsSync
package import RelayLog

/// A relay in memory: the log of the real relay in SQLite tables in memory, without files.
///
///     let clock = ManualClock(milliseconds: 1_700_000_000_000)
///     let relay = try MemoryRelay(space: address.space, clock: clock)
///     let agent = SyncAgent(store: store, transport: relay, joining: address, environment: clock.environment)
///     try await agent.sync()
///
/// For tests that create many relays and do not keep them.
public final class MemoryRelay: ForwardingTransport {
    package let relay: LocalRelay
    public var base: any RelayTransport { relay }

    /// - Parameters:
    ///   - space: the space.
    ///   - clock: the relay's clock for receipt times and push leases.
    public convenience init(space: SpaceName, clock: ManualClock) throws {
        let now: @Sendable () -> Int64 = { clock.milliseconds }
        try self.init(space: space, clock: RelayClock(wall: now, monotonic: now))
    }

    /// - Parameter lineage: returns the lineage of the log that `create` begins.
    package init(
        space: SpaceName, clock: RelayClock, limits: RelayLogLimits = RelayLogLimits(),
        lineage: @escaping @Sendable () -> Lineage = { .random() }
    ) throws {
        let database = try RelayDatabase(inMemory: MemorySnapshots())
        let log = try RelayLog(database: database, limits: limits, clock: clock, logger: LocalRelay.silence, lineage: lineage)
        relay = LocalRelay(log: log, space: space)
    }
}
