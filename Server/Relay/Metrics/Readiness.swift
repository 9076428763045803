internal import RelayLog

/// Whether the relay can do its work.
struct Readiness: Sendable {
    let log: RelayLog

    /// Throws `RelayLogError`: `.closing`, `.diskReserved` where pushes are not taken for that, and what a storage throws that does
    /// not answer.
    func check() async throws {
        try await log.check()
        try log.reserve.check()
    }
}
