internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// Keeps a part of the disk free, so that whoever runs the relay can still do something when it is full: what would write is refused,
/// and reads go on.
package final class DiskReserve: Sendable {
    /// Bytes that are free; nil where nobody knows, as of a database elsewhere.
    private let look: @Sendable () -> Int64?
    private let limits: RelayLogLimits
    private let clock: RelayClock
    private let last = Mutex<(free: Int64?, at: Int64)?>(nil)

    package init(limits: RelayLogLimits, clock: RelayClock, look: @escaping @Sendable () -> Int64?) {
        self.limits = limits
        self.clock = clock
        self.look = look
    }

    /// Bytes that are free, as of a moment ago.
    package var freeBytes: Int64? {
        let now = clock.monotonic()
        return last.withLock { last in
            if let last, now - last.at < limits.diskLookMilliseconds { return last.free }
            let free = look()
            last = (free, now)
            return free
        }
    }

    /// Whether no more than the reserve is free.
    package var isReached: Bool { freeBytes.map { $0 <= limits.diskReserveBytes } ?? false }

    /// Throws `RelayLogError.diskReserved`.
    package func check() throws {
        if isReached { throw RelayLogError.diskReserved(bytes: limits.diskReserveBytes) }
    }

    /// Of the file system that a folder is in; nil where it cannot be asked.
    package static func freeBytes(at path: String) -> Int64? {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? .max : Int64(clamping: bytes)
    }
}
