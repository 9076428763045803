import Foundation
import Logging
import RelayTestSupport
import ServiceLifecycle
import Testing

@testable import Relay

/// A relay on a local port.
struct RunningRelay: Sendable {
    var port: Int
    var stop: @Sendable () async -> Void

    /// Runs a relay on a free port during `body`, and stops it as SIGTERM does.
    static func run(
        _ directory: TemporaryDirectory, limits: RelayLimits = RelayLimits(), noAuthorization: Bool = true, logger: Logger = .silent,
        _ body: @escaping @Sendable (RunningRelay) async throws -> Void
    ) async throws {
        var configuration = RelayConfiguration(
            address: try ListenAddress("127.0.0.1:0"), storage: .directory(directory.path), noAuthorization: noAuthorization, limits: limits
        )
        configuration.limits.shutdownSeconds = 5
        let (addresses, announce) = AsyncStream<ListenAddress>.makeStream()
        let server = try RelayServer(configuration: configuration, logger: logger) { announce.yield($0) }
        let group = ServiceGroup(configuration: .init(services: [server], logger: .silent))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { announce.finish() }
                try await group.run()
            }
            var iterator = addresses.makeAsyncIterator()
            let address = try #require(await iterator.next())
            #expect(address.port > 0 && address.url == "http://127.0.0.1:\(address.port)")
            do {
                try await body(RunningRelay(port: address.port) { await group.triggerGracefulShutdown() })
            } catch {
                await group.triggerGracefulShutdown()
                throw error
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }
}
