#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// How many files and connections this process may have open.
package enum FileLimit {
    /// As many as the system allows it; says how many those are.
    @discardableResult
    package static func raise() -> Int {
        var limit = rlimit()
        guard getrlimit(files, &limit) == 0 else { return .max }
        let before = limit.rlim_cur
        limit.rlim_cur = limit.rlim_max
        // Where it is not allowed the old limit goes on, with fewer at once.
        if before < limit.rlim_max, setrlimit(files, &limit) != 0 { limit.rlim_cur = before }
        return Int(clamping: limit.rlim_cur)
    }

    #if canImport(Glibc)
        private static let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
        private static let files = RLIMIT_NOFILE
    #endif
}
