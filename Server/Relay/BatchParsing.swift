internal import AnnalsWire
internal import RelayLog

/// Parses the headers of pushed batches. Large batches are parsed one after another on a separate thread: the checksum
/// of several MiB takes milliseconds, and many at once would delay small pushes.
actor BatchParsing {
    /// Batches above this size are parsed on the separate thread.
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
