internal import AnnalsCore
internal import AnnalsWire
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

/// A relay in this process: it orders, certifies, stores and serves the batches of many spaces.
///
///     let server = try RelayServer(configuration: configuration, logger: logger) { address in
///         print("listening on \(address.url)")
///     }
///     try await server.runUntilSignal()
///
/// As a `Service` it ends at the graceful shutdown of its group: it accepts no new connections, ends event streams and
/// waiting pulls, finishes the answers under way, and closes its files. Everything that it acknowledged was durable
/// before.
package struct RelayServer: Service {
    private let configuration: RelayConfiguration
    private let logger: Logger
    /// The settings that differ from their defaults, for the log.
    private let settings: [String]
    private let onListening: @Sendable (ListenAddress) -> Void
    /// nil for HTTP without TLS.
    private let identities: TLSIdentities?
    private let scrapeToken: ScrapeToken?
    private let metrics = RelayMetrics()

    /// Throws `AnnalsError` with `.configuration` if the configuration opens the relay by accident or cannot work, or
    /// if the files of the certificate or of the metrics token cannot be used.
    ///
    /// `onListening` is called once with the bound port, when clients can connect.
    ///
    /// - Parameter settings: the settings that differ from their defaults, for the line in the log at the start; without
    ///   secrets.
    package init(
        configuration: RelayConfiguration, logger: Logger, settings: [String] = [],
        onListening: @escaping @Sendable (ListenAddress) -> Void = { _ in }
    ) throws {
        try configuration.validate()
        self.settings = settings
        self.configuration = configuration
        self.logger = logger
        self.onListening = onListening
        identities = try configuration.tls.map { try TLSIdentities($0, logger: logger) }
        scrapeToken = try configuration.metricsTokenFile.map { try ScrapeToken(file: $0) }
    }

    /// Serves until SIGTERM or SIGINT. SIGHUP reloads the certificate, if there is one. Throws what `run` throws.
    package func runUntilSignal() async throws {
        var services: [any Service] = [self]
        if let identities {
            services.append(await CertificateReloading(identities))
        } else if isatty(STDIN_FILENO) == 0 {
            // Without a certificate a service manager's reload has no effect. From a terminal, SIGHUP means that it was
            // closed.
            signal(SIGHUP, SIG_IGN)
        }
        let group = ServiceGroup(
            configuration: .init(services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
        try await group.run()
    }

    /// Serves until the graceful shutdown of the group or the cancellation of the task.
    ///
    /// Throws `AnnalsError`: the error of opening the storage, and `.configuration` if the relay cannot listen at the
    /// address.
    package func run() async throws {
        let limits = configuration.limits.log
        let database = try configuration.storage.open(readers: limits.readers, reserveBytes: limits.diskReserveBytes)
        if let copy = database.keptCopy {
            logger.notice("the relay's data were migrated; a copy in the old format was kept", metadata: ["copy": "\(copy)"])
        }
        let log = try RelayLog(
            database: database, limits: limits, autoVoid: configuration.autoVoid, logger: logger)
        let isListening = Atomic(false)
        do {
            try await serve(log) { isListening.store(true, ordering: .relaxed) }
        } catch {
            await log.close()
            guard !isListening.load(ordering: .relaxed), !(error is CancellationError), !(error is AnnalsError) else { throw error }
            throw AnnalsError(
                .configuration, operation: "relay",
                "cannot listen at \(configuration.address.host):\(configuration.address.port): \(Self.reason(error))",
                hint: "Another program may be listening there. Port 0 selects a free port", underlying: error)
        }
        await log.close()
    }

    /// The reason from the system, without the text of the network library.
    private static func reason(_ error: any Error) -> String {
        if let error = error as? IOError { return String(cString: strerror(error.errnoCode)).lowercased() }
        return error is SocketAddressError.UnknownHost ? "the host name has no address" : "\(error)"
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
            // A client that does not read its answer in time must not delay the shutdown.
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
                        logger.warning("the cleanup of abandoned uploads and parts failed", metadata: ["reason": "\(error)"])
                    }
                }
            }
            if let rules = configuration.purge {
                group.addTask { [seconds = configuration.limits.purgeSeconds, logger, metrics] in
                    try await Purging(log: log, rules: rules, seconds: seconds, logger: logger, metrics: metrics).run()
                }
            }
            if !configuration.backup.folder.isEmpty {
                group.addTask { [configuration, logger, metrics] in
                    let open = { @Sendable in try configuration.storage.open(readers: 1) }
                    let reserve = configuration.limits.log.diskReserveBytes
                    let bytes = { @Sendable in
                        let usage = try await log.usage(spaces: 0, replicas: 0, silence: 0)
                        return usage.databaseBytes + usage.snapshotBytes
                    }
                    try await Backups(
                        rules: configuration.backup, bytesOfData: bytes, open: open, reserveBytes: reserve, logger: logger, metrics: metrics
                    ).run()
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
        let connections = connections()
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
                availableConnectionsDelegate: .maximum(connections, logger: logger)),
            onServerRunning: { channel in
                noteListening()
                var bound = ListenAddress(host: address.host, port: channel.localAddress?.port ?? address.port)
                bound.usesTLS = identities != nil
                logger.notice("the relay serves", metadata: start(at: bound, connections: connections))
                onListening(bound)
            },
            logger: logger)
    }

    /// What an operator needs to know of a relay that starts: program, formats, storage, limits and settings.
    private func start(at address: ListenAddress, connections: Int) -> Logger.Metadata {
        let limits = configuration.limits
        let main = [
            "batch-bytes=\(limits.batch.batchBytes)", "snapshot-bytes=\(limits.log.snapshotBytes)", "space-bytes=\(limits.log.spaceBytes)",
            "disk-reserve-bytes=\(limits.log.diskReserveBytes)", "spaces=\(limits.log.spaces)", "connections=\(connections)",
        ]
        let formats = [
            "batch=\(BatchHeader.currentVersion)", "answer=\(PushAnswer.currentVersion)", "page=\(Page.currentVersion)",
        ]
        return [
            "version": "\(ProgramVersion.text)", "formats": "\(formats.joined(separator: ","))", "address": "\(address.url)",
            "storage": "\(configuration.storage.summary)", "limits": "\(main.joined(separator: ","))",
            "settings": "\(settings.isEmpty ? "default" : settings.joined(separator: ","))",
        ]
    }

    private func httpServer(_ configuration: HTTP1Channel.Configuration) -> HTTPServerBuilder {
        guard let identities else { return .http1(configuration: configuration) }
        return HTTPServerBuilder { responder in
            TLSServerChannel(base: HTTP1Channel(responder: responder, configuration: configuration), identities: identities)
        }
    }

    /// The highest number of open connections. It leaves file descriptors for other files; without any left, accepting
    /// would fail in a loop.
    ///
    /// - Parameter files: the limit of file descriptors of this process.
    static func connections(_ limits: RelayLimits, files: Int) -> Int {
        min(limits.connections, max(RelayLimits.leastConnections, files - RelayLimits.filesForOthers))
    }

    /// Raises the system's limit, and logs a warning if it is too low for the relay's limit.
    private func connections() -> Int {
        let files = FileLimit.raise()
        let count = Self.connections(configuration.limits, files: files)
        if count < configuration.limits.connections {
            logger.warning("the file limit allows fewer connections", metadata: ["connections": "\(count)", "files": "\(files)"])
        }
        return count
    }
}

extension RelayServer: CustomStringConvertible, CustomReflectable {
    /// Without the configuration, because the address of a database may hold a password, and a service group writes the
    /// descriptions of its services to the log.
    package var description: String { "relay at \(configuration.address.host):\(configuration.address.port)" }

    package var customMirror: Mirror { Mirror(self, children: []) }
}
