import AnnalsCore
import Logging
import Relay
import ServiceLifecycle

/// A relay in this process, for the duration of a demonstration.
enum DemoRelay {
    /// Runs `body` with the address of a relay that listens on a free port of this machine.
    ///
    /// The relay runs in an unstructured task, because the network library would end the program if the task was cancelled while
    /// a connection is being accepted. It is shut down after `body`, also if `body` throws.
    static func during<T: Sendable>(dataIn folder: String, _ body: @Sendable (String) async throws -> T) async throws -> T {
        let (addresses, address) = AsyncStream<String>.makeStream()
        let logger = StandardErrorLog.logger("annals.relay", level: .critical)
        let server = try RelayServer(
            configuration: RelayConfiguration(
                address: ListenAddress(host: "127.0.0.1", port: 0), storage: .directory(folder), noAuthorization: true),
            logger: logger
        ) { address.yield($0.url) }
        let group = ServiceGroup(configuration: .init(services: [server], logger: logger))
        let running = Task {
            defer { address.finish() }
            try await group.run()
        }
        let result: Result<T, any Error>
        do {
            guard let url = await addresses.first(where: { _ in true }) else {
                try Task.checkCancellation()
                try await running.value
                throw AnnalsError(.defect, operation: "demo", "the demo's relay stopped before it accepted connections")
            }
            result = .success(try await body(url))
        } catch {
            result = .failure(error)
        }
        await group.triggerGracefulShutdown()
        // The relay's result does not matter for the demonstration.
        _ = await running.result
        return try result.get()
    }
}
