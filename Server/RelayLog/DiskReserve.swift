internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// Keeps a part of the disk free, so that an operator can still act when the disk is full. Below the reserve the relay
/// refuses requests that write, and still serves reads.
package final class DiskReserve: Sendable {
    /// Returns the free bytes; nil if unknown, as for a remote database.
    private let look: @Sendable () -> Int64?
    private let limits: RelayLogLimits
    private let clock: RelayClock
    private let last = Mutex<(free: Int64?, at: Int64)?>(nil)

    package init(limits: RelayLogLimits, clock: RelayClock, look: @escaping @Sendable () -> Int64?) {
        self.limits = limits
        self.clock = clock
        self.look = look
    }

    /// Free bytes, cached for a short time.
    package var freeBytes: Int64? {
        let now = clock.monotonic()
        return last.withLock { last in
            if let last, now - last.at < limits.diskLookMilliseconds { return last.free }
            let free = look()
            last = (free, now)
            return free
        }
    }

    /// Whether the free bytes are at or below the reserve.
    package var isReached: Bool { freeBytes.map { $0 <= limits.diskReserveBytes } ?? false }

    /// Throws `RelayLogError.diskReserved`.
    package func check() throws {
        if isReached { throw RelayLogError.diskReserved(bytes: limits.diskReserveBytes) }
    }

    /// Free bytes of the file system that holds a folder; nil if the call fails.
    package static func freeBytes(at path: String) -> Int64? {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? .max : Int64(clamping: bytes)
    }
}
