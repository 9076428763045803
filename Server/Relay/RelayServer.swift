internal import AnnalsCore
internal import Dispatch
internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
package import Logging
internal import NIOCore
internal import RelayLog
import ServiceLifecycle
internal import Synchronization
internal import UnixSignals

/// A relay in this process: orders, certifies and keeps the batches of many spaces, and hands them out.
///
///     let server = try RelayServer(configuration: configuration, logger: logger) { address in
///         print("listening on \(address.url)")
///     }
///     try await server.runUntilSignal()
///
/// As a `Service` it ends when its group is told to stop: it takes no new connections, ends event streams and waiting
/// pulls, finishes the answers under way, and closes its files. What it acknowledged was durable before.
package struct RelayServer: Service {
    private let configuration: RelayConfiguration
    private let logger: Logger
    private let onListening: @Sendable (ListenAddress) -> Void
    /// nil: HTTP without TLS.
    private let identities: TLSIdentities?
    private let scrapeToken: ScrapeToken?
    private let metrics = RelayMetrics()

    /// Throws `AnnalsError` with `.configuration` where the configuration opens the relay by accident or cannot work, and where
    /// the files of the certificate or of the metrics' token cannot be used.
    ///
    /// `onListening` is called once, when clients can connect, with the port that was bound.
    package init(
        configuration: RelayConfiguration, logger: Logger, onListening: @escaping @Sendable (ListenAddress) -> Void = { _ in }
    ) throws {
        try configuration.validate()
        self.configuration = configuration
        self.logger = logger
        self.onListening = onListening
        identities = try configuration.tls.map { try TLSIdentities($0, logger: logger) }
        scrapeToken = try configuration.metricsTokenFile.map { try ScrapeToken(file: $0) }
    }

    /// Serves until SIGTERM or SIGINT; SIGHUP has it read the files of its certificate again, where it has one. Throws what `run` throws.
    package func runUntilSignal() async throws {
        var services: [any Service] = [self]
        if let identities {
            services.append(await CertificateReloading(identities))
        } else if isatty(STDIN_FILENO) == 0 {
            // A service manager's reload has nothing to read again. From a terminal the signal says that it was closed.
            signal(SIGHUP, SIG_IGN)
        }
        let group = ServiceGroup(
            configuration: .init(services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
        try await group.run()
    }

    /// Reads the files of the certificate again, as SIGHUP does: new connections get it, and what cannot be used changes nothing.
    package func reloadCertificate() {
        identities?.reload()
    }

    /// Serves until the group that runs this service is told to stop, or the task is cancelled.
    ///
    /// Throws `AnnalsError`: what opening the data directory throws, and `.configuration` where the address cannot be
    /// listened at.
    package func run() async throws {
        let database = try configuration.storage.open(readers: configuration.limits.log.readers)
        let log = try RelayLog(
            database: database, limits: configuration.limits.log, autoVoid: configuration.autoVoid, logger: logger)
        let isListening = Atomic(false)
        do {
            try await serve(log) { isListening.store(true, ordering: .relaxed) }
        } catch {
            await log.close()
            guard !isListening.load(ordering: .relaxed), !(error is CancellationError), !(error is AnnalsError) else { throw error }
            throw AnnalsError(
                .configuration, operation: "relay",
                "cannot listen at \(configuration.address.host):\(configuration.address.port): \(Self.reason(error))",
                hint: "Is another program listening there? Port 0 takes a free one", underlying: error)
        }
        await log.close()
    }

    /// What the system says, without the words of the network library.
    private static func reason(_ error: any Error) -> String {
        if let error = error as? IOError { return String(cString: strerror(error.errnoCode)).lowercased() }
        return error is SocketAddressError.UnknownHost ? "the host has no address" : "\(error)"
    }

    private func serve(_ log: RelayLog, onListening noteListening: @escaping @Sendable () -> Void) async throws {
        let webTokens: WebTokenVerifier? =
            if let settings = configuration.webTokens { try await .start(settings, logger: logger) } else { nil }
        let application = application(log, webTokens, onListening: noteListening)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await withGracefulShutdownHandler {
                    try await application.run()
                } onGracefulShutdown: {
                    log.endWaits()
                }
            }
            // Whoever does not take his answer in time does not keep the relay from stopping.
            group.addTask { [seconds = configuration.limits.shutdownSeconds] in
                try await gracefulShutdown()
                try await ContinuousClock().sleep(for: .seconds(seconds))
            }
            group.addTask { [logger] in
                while true {
                    try await ContinuousClock().sleep(for: .seconds(RelayLimits.upkeepSeconds))
                    do {
                        try await log.upkeep()
                    } catch let error as RelayLogError {
                        // The next round tries again.
                        logger.warning("upkeep failed", metadata: ["reason": "\(error)"])
                    }
                }
            }
            if let rules = configuration.purge {
                group.addTask { [seconds = configuration.limits.purgeSeconds, logger, metrics] in
                    try await Purging(log: log, rules: rules, seconds: seconds, logger: logger, metrics: metrics).run()
                }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private func application(
        _ log: RelayLog, _ webTokens: WebTokenVerifier?, onListening noteListening: @escaping @Sendable () -> Void
    ) -> Application<RelayResponder> {
        let limits = configuration.limits
        let address = configuration.address
        return Application(
            responder: Routes.responder(
                log: log, configuration: configuration, webTokens: webTokens, metrics: metrics, scrapeToken: scrapeToken,
                identities: identities),
            server: httpServer(
                .init(
                    additionalChannelHandlers: [
                        FramingHandler(), ContinueHandler(), ProgressHandler(limits: limits), TrafficHandler(metrics),
                    ],
                    idleTimeout: .seconds(Int64(limits.idleSeconds)),
                    httpDecoderConfiguration: .init(
                        maxHeaderFieldSize: limits.headerBytes, maxHeaderListSize: limits.headerBytes, maxHeaderFieldCount: 100))),
            configuration: ApplicationConfiguration(
                address: .hostname(address.host, port: address.port), backlog: limits.backlog,
                availableConnectionsDelegate: .maximum(connections(), logger: logger)),
            onServerRunning: { channel in
                noteListening()
                var bound = ListenAddress(host: address.host, port: channel.localAddress?.port ?? address.port)
                bound.usesTLS = identities != nil
                onListening(bound)
            },
            logger: logger)
    }

    private func httpServer(_ configuration: HTTP1Channel.Configuration) -> HTTPServerBuilder {
        guard let identities else { return .http1(configuration: configuration) }
        return HTTPServerBuilder { responder in
            TLSServerChannel(base: HTTP1Channel(responder: responder, configuration: configuration), identities: identities)
        }
    }

    /// Connections open at once: without files left nothing else could be opened, and accepting would be tried without end.
    ///
    /// - Parameter files: those that this process may open.
    static func connections(_ limits: RelayLimits, files: Int) -> Int {
        min(limits.connections, max(RelayLimits.leastConnections, files - RelayLimits.filesForOthers))
    }

    /// Raises the system's limit and says where it is lower than the relay's.
    private func connections() -> Int {
        let files = FileLimit.raise()
        let count = Self.connections(configuration.limits, files: files)
        if count < configuration.limits.connections {
            logger.warning("fewer connections than the limit allows", metadata: ["connections": "\(count)", "files": "\(files)"])
        }
        return count
    }
}

extension RelayServer: CustomStringConvertible, CustomReflectable {
    /// Without the configuration, since the address of a database may hold a password: whoever runs services writes them into
    /// the log as they are.
    package var description: String { "relay at \(configuration.address.host):\(configuration.address.port)" }

    package var customMirror: Mirror { Mirror(self, children: []) }
}
