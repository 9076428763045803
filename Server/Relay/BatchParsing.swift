internal import AnnalsWire
internal import RelayLog

/// Reads the heads of pushed batches. Large ones are read one after another on a thread of their own: the checksum of some MiB
/// takes milliseconds, and with many at once small pushes would wait for all of them.
actor BatchParsing {
    /// What is larger is large.
    private static let largeBytes = 256 << 10

    private let executor = QueueExecutor(label: "annals.relay.parse")

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    nonisolated func header(of batch: [UInt8], limits: BatchLimits) async throws -> BatchHeader {
        guard batch.count > Self.largeBytes else { return try BatchHeader.parse(batch, limits: limits) }
        return try await parse(batch, limits)
    }

    private func parse(_ batch: [UInt8], _ limits: BatchLimits) throws -> BatchHeader {
        try BatchHeader.parse(batch, limits: limits)
    }
}
