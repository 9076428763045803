internal import RelayLog

/// Whether the relay can serve requests.
struct Readiness: Sendable {
    let log: RelayLog

    /// Throws `RelayLogError`: `.closing`, `.diskReserved` if pushes are refused for it, and the error of a storage
    /// that does not answer.
    func check() async throws {
        try await log.check()
        try log.reserve.check()
    }
}
