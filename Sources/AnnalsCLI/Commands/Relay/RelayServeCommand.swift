import AnnalsCore
public import ArgumentParser
import Foundation
public import Logging
import Relay
import RelayLog

struct RelayServeCommand: AsyncParsableCommand, HandlesSignals {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run a relay until it is stopped.",
        discussion: """
            The log, the snapshots and the tokens are in a folder, which is created if it does not exist, or in PostgreSQL. The \
            command prints one line `listening on URL` when clients can connect. By default, requests need a token, and addresses \
            other than this machine's own need TLS. On SIGTERM or Ctrl-C the relay finishes the requests that it is answering, and \
            ends with status 0; a second signal ends it at once. On SIGHUP it reads its certificate files again: open connections \
            are kept, and files that cannot be used change nothing.

            Examples:
              annals relay serve --data relay-data --listen 127.0.0.1:8640 --no-auth
              annals relay serve --data /var/lib/annals --listen 0.0.0.0:8640 --tls-cert chain.pem --tls-key key.pem
              annals relay serve --postgres postgres://annals@db.internal/annals --listen 127.0.0.1:8640
              annals relay serve --config /etc/annals/relay.yaml
            """)

    @Option(help: "A file with settings; Config/relay.yaml explains each. Flags and ANNALS_RELAY_… override it.", completion: .file())
    var config: String?
    @OptionGroup var storage: RelayStorageOptions
    @Option(help: "HOST:PORT; port 0 selects a free port. (default: 127.0.0.1:8640)")
    var listen: String?
    @Flag(name: .customLong("no-auth"), help: "Require no access token; only on this machine's own address.")
    var noAuth = false
    @Flag(name: .customLong("allow-plaintext"), help: "Listen on other addresses without TLS, behind a proxy that has TLS.")
    var allowPlaintext = false
    @Option(name: .customLong("tls-cert"), help: "A PEM file with the relay's certificate and those of its issuers.", completion: .file())
    var tlsCert: String?
    @Option(name: .customLong("tls-key"), help: "A PEM file with its private key, without a passphrase.", completion: .file())
    var tlsKey: String?
    @Option(help: "How long to keep log that all replicas have applied, for replay --relay; such as 5m, 12h or 30d. (default: 7d)")
    var keep: String?
    @Option(help: "How long to keep log that a live replica has not applied, such as 5m, 12h or 30d. (default: 90d)")
    var retention: String?
    @Option(help: "A replica that was not seen for this long, such as 5m, 12h or 30d, does not hold back a purge. (default: 30d)")
    var silence: String?
    @Flag(name: .customLong("no-purge"), help: "Do not purge the log automatically.")
    var noPurge = false
    @Option(
        name: .customLong("auto-void"),
        help: "Void an entry automatically when this many owners other than its author's reported it. (default: 0, never)")
    var autoVoid: Int?
    @Option(
        name: .customLong("backup-folder"),
        help: "Make backups in this folder by a schedule, each in a folder of its own. It should be on another disk.",
        completion: .directory)
    var backupFolder: String?
    @Option(name: .customLong("backup-every"), help: "The time from one backup to the next, such as 6h. (default: 1d)")
    var backupEvery: String?
    @Option(name: .customLong("backup-keep"), help: "How many of these backups are kept. (default: 7)")
    var backupKeep: Int?
    @Option(
        name: .customLong("snapshot-after"), help: "Ask for a snapshot after this many MiB of log, if the newest snapshot is not larger.")
    var snapshotAfter: Int?
    @Option(name: .customLong("snapshot-after-positions"), help: "Ask for a snapshot after this many positions.")
    var snapshotAfterPositions: Int?
    @Option(
        name: .customLong("log-level"),
        help: "The lowest level that is logged to standard error: trace, debug, info, notice, warning, error. (default: notice)")
    var logLevel: Logger.Level?
    @Option(name: .customLong("log-format"), help: "The format of log lines: text, or json with one object a line. (default: text)")
    var logFormat: LogFormat?
    @Option(name: .customLong("metrics-token-file"), help: "A file with a token for /metrics only.", completion: .file())
    var metricsTokenFile: String?
    @OptionGroup var output: PlainOutputOptions

    func validate() throws {
        if (tlsCert == nil) != (tlsKey == nil) { throw ValidationError("Give --tls-cert and --tls-key together.") }
        for (name, text) in [("keep", keep), ("retention", retention), ("silence", silence), ("backup-every", backupEvery)] {
            guard let text, Lifetime(argument: text) == nil else { continue }
            throw ValidationError("The value '\(text)' is invalid for '--\(name)': give a duration such as 5m, 12h or 30d.")
        }
    }

    private static func noStorage(in file: String) -> any Error {
        AnnalsError(
            .configuration, operation: "relay", "\(file) does not set the relay's storage",
            hint: "Set data or postgres there, or give --data DIR or --postgres URL")
    }

    /// The values of the flags, by the names of the settings.
    private var flags: [String: String] {
        var flags: [String: String] = [:]
        flags["data"] = storage.data
        flags["postgres"] = storage.postgres
        flags["listen"] = listen
        flags["no-auth"] = noAuth ? "true" : nil
        flags["allow-plaintext"] = allowPlaintext ? "true" : nil
        flags["log-level"] = logLevel?.rawValue
        flags["log-format"] = logFormat?.rawValue
        flags["metrics-token-file"] = metricsTokenFile
        flags["tls.certificate"] = tlsCert
        flags["tls.key"] = tlsKey
        flags["purge.enabled"] = noPurge ? "false" : nil
        flags["purge.keep"] = keep
        flags["purge.retention"] = retention
        flags["purge.silence"] = silence
        flags["auto-void"] = autoVoid.map(String.init)
        flags["backup.folder"] = backupFolder
        flags["backup.every"] = backupEvery
        flags["backup.keep"] = backupKeep.map(String.init)
        flags["limits.snapshot-log-mebibytes"] = snapshotAfter.map(String.init)
        flags["limits.snapshot-log-positions"] = snapshotAfterPositions.map(String.init)
        return flags
    }

    func run() async throws {
        let console = output.console
        let settings = try await RelaySettings.read(flags: flags, environment: ProcessInfo.processInfo.environment, file: config)
        guard settings.hasStorage else { throw config.map(Self.noStorage(in:)) ?? RelayStorageOptions.missing }
        if settings.configuration.backup.folder.isEmpty, backupEvery != nil || backupKeep != nil {
            throw ValidationError("--backup-every and --backup-keep need --backup-folder.")
        }
        let isListening = AtomicFlag()
        let server = try RelayServer(
            configuration: settings.configuration,
            logger: StandardErrorLog.logger(
                "annals.relay", level: settings.logLevel, format: LogFormat(rawValue: settings.logFormat) ?? .text),
            settings: settings.changes
        ) { address in
            isListening.set()
            console.print("listening on \(address.url)")
            console.sink.flush()
        }
        // Before the relay listens, no client waits for an answer, so it can end sooner.
        let grace = Duration.seconds(settings.configuration.limits.shutdownSeconds) + Self.closing
        _ = Interruption(.wait { isListening.isSet ? grace : Self.closing }, isWorkDone: true)
        try await server.runUntilSignal()
    }

    /// How long closing the relay's files may take.
    private static let closing = Duration.milliseconds(1_500)
}

extension LogFormat: ExpressibleByArgument {}
extension Logger.Level: @retroactive ExpressibleByArgument {}
