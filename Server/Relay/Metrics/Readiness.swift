internal import RelayLog

/// Whether the relay can do its work.
struct Readiness: Sendable {
    let log: RelayLog
    /// Where the data lies; nil where that is another machine's.
    private let folder: String?
    /// Free bytes below which pushes are not taken.
    let reserveBytes: Int64

    init(log: RelayLog, configuration: RelayConfiguration) {
        self.log = log
        reserveBytes = Int64(clamping: configuration.limits.diskReserveBytes)
        if case .directory(let path) = configuration.storage { folder = path } else { folder = nil }
    }

    /// Bytes that are free where the data lies; nil where that is not known.
    var freeBytes: Int64? { folder.flatMap { DiskReserve.freeBytes(at: $0) } }

    /// Throws `RelayLogError`: `.closing`, `.diskFull` below the reserve, and what a storage throws that does not answer.
    func check() async throws {
        try await log.check()
        if let free = freeBytes, free < reserveBytes { throw RelayLogError.diskFull }
    }
}
