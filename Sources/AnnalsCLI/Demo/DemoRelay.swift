import AnnalsCore
import Logging
import Relay

/// A relay in this process, for as long as a demonstration takes.
enum DemoRelay {
    /// Runs `body` with the address of a relay that listens on a free port of this machine.
    static func during<T: Sendable>(dataIn folder: String, _ body: @Sendable (String) async throws -> T) async throws -> T {
        let (addresses, address) = AsyncStream<String>.makeStream()
        let server = try RelayServer(
            configuration: RelayConfiguration(
                address: ListenAddress(host: "127.0.0.1", port: 0), dataDirectory: folder, noAuthorization: true),
            logger: StandardErrorLog.logger("annals.relay", level: .critical)
        ) { address.yield($0.url) }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                defer { address.finish() }
                try await server.run()
            }
            guard let url = await addresses.first(where: { _ in true }) else {
                try await group.next()
                throw AnnalsError(.defect, operation: "demo", "the relay ended before it listened")
            }
            return try await body(url)
        }
    }
}
