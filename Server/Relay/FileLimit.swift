#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// The number of files and connections that this process can open.
package enum FileLimit {
    /// Raises the limit to the highest allowed value and returns it.
    @discardableResult
    package static func raise() -> Int {
        var limit = rlimit()
        guard getrlimit(files, &limit) == 0 else { return .max }
        let before = limit.rlim_cur
        limit.rlim_cur = limit.rlim_max
        // If that is not allowed, the old limit remains.
        if before < limit.rlim_max, setrlimit(files, &limit) != 0 { limit.rlim_cur = before }
        return Int(clamping: limit.rlim_cur)
    }

    #if canImport(Glibc)
        private static let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
        private static let files = RLIMIT_NOFILE
    #endif
}
