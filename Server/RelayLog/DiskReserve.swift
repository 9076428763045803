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
    /// Bytes that were promised and are not written yet.
    private let promised = Mutex<Int64>(0)

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

    /// Whether this many more bytes would leave more free than the reserve. It uses the cached free bytes.
    func holds(_ bytes: Int64) -> Bool {
        freeBytes.map { $0 - bytes > limits.diskReserveBytes } ?? true
    }

    /// Keeps room for bytes that will be written, so that what is promised never uses the reserve. `release` ends it.
    ///
    /// Throws `RelayLogError.diskReserved`, and `.quota` if only the promises to other uploads are in the way.
    func promise(_ bytes: Int64) throws {
        try promised.withLock { promised in
            // Not the cached value: bytes that are written are no longer promised, and must not count as free.
            if let free = look() {
                guard free - bytes > limits.diskReserveBytes else { throw RelayLogError.diskReserved(bytes: limits.diskReserveBytes) }
                guard free - bytes - promised > limits.diskReserveBytes else {
                    throw RelayLogError.quota(.snapshotUploads, .relay, retryAfterSeconds: Self.retryAfterSeconds)
                }
            }
            promised += bytes
        }
    }

    /// Ends the promise of bytes that are written now, or that will not be written.
    func release(_ bytes: Int64) {
        promised.withLock { $0 -= bytes }
    }

    /// An upload takes some time to make room or to end.
    private static let retryAfterSeconds = 10

    /// Free bytes of the file system that holds a folder; nil if the call fails.
    package static func freeBytes(at path: String) -> Int64? {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? .max : Int64(clamping: bytes)
    }
}
