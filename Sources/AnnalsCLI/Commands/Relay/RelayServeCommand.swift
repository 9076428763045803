import AnnalsCore
public import ArgumentParser
public import Logging
import Relay
import RelayLog

struct RelayServeCommand: AsyncParsableCommand, HandlesSignals {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serve a relay until stopped.",
        discussion: """
            The log, the snapshots and the tokens are in a folder, which is made where it is missing, or in PostgreSQL. Prints one \
            line `listening on URL` when clients can connect. A relay is closed by default: requests need a \
            token, and other addresses than this machine's own need TLS. On SIGTERM or Ctrl-C it finishes what it \
            is answering, and ends with status 0. On SIGHUP it reads the files of its certificate again: connections that \
            stand go on, and what cannot be used changes nothing.

            Examples:
              annals relay serve --data relay-data --listen 127.0.0.1:8640 --no-auth
              annals relay serve --data /var/lib/annals --listen 0.0.0.0:8640 --tls-cert chain.pem --tls-key key.pem
              annals relay serve --postgres postgres://annals@db.internal/annals --listen 127.0.0.1:8640
            """)

    @OptionGroup var place: RelayDataOption
    @Option(help: "HOST:PORT; port 0 takes a free one.")
    var listen = "127.0.0.1:8640"
    @Flag(name: .customLong("no-auth"), help: "Serve everybody who can connect; on this machine's own address only.")
    var noAuth = false
    @Flag(name: .customLong("allow-plaintext"), help: "Listen on other addresses without TLS, for a proxy in front that has it.")
    var allowPlaintext = false
    @Option(name: .customLong("tls-cert"), help: "A PEM file with the relay's certificate and those of its issuers.", completion: .file())
    var tlsCert: String?
    @Option(name: .customLong("tls-key"), help: "A PEM file with its private key, without a passphrase.", completion: .file())
    var tlsKey: String?
    @Option(help: "The log that everyone has taken in is kept for so long, for replay --relay; such as 30d. (default: 7d)")
    var keep: Lifetime?
    @Option(help: "Log that a live replica has not taken in is kept for so long. (default: 90d)")
    var retention: Lifetime?
    @Option(help: "A replica that was not seen for so long holds back nothing. (default: 30d)")
    var silence: Lifetime?
    @Flag(name: .customLong("no-purge"), help: "Drop nothing of the log by itself.")
    var noPurge = false
    @Option(name: .customLong("snapshot-after"), help: "Ask for a snapshot after so many MiB of log, if the newest is no larger.")
    var snapshotAfter: Int?
    @Option(name: .customLong("snapshot-after-positions"), help: "Or after so many positions.")
    var snapshotAfterPositions: Int?
    @Option(name: .customLong("log-level"), help: "What goes to standard error: trace, debug, info, notice, warning, error.")
    var logLevel = Logger.Level.notice
    @Option(name: .customLong("log-format"), help: "How it is written: text, or json, one object a line.")
    var logFormat = LogFormat.text
    @Option(name: .customLong("metrics-token-file"), help: "A file with a token that opens /metrics and nothing else.", completion: .file())
    var metricsTokenFile: String?
    @OptionGroup var output: PlainOutputOptions

    func validate() throws {
        if (tlsCert == nil) != (tlsKey == nil) { throw ValidationError("--tls-cert and --tls-key go together.") }
    }

    func run() async throws {
        let console = output.console
        var configuration = RelayConfiguration(
            address: try ListenAddress(listen), storage: place.storage, noAuthorization: noAuth, allowPlaintext: allowPlaintext)
        if let tlsCert, let tlsKey { configuration.tls = TLSFiles(certificate: tlsCert, key: tlsKey) }
        var rules = PurgeRules()
        rules.keep = keep?.milliseconds ?? rules.keep
        rules.retention = retention?.milliseconds ?? rules.retention
        rules.silence = silence?.milliseconds ?? rules.silence
        configuration.purge = noPurge ? nil : rules
        if let snapshotAfter { configuration.limits.snapshotLogMebibytes = snapshotAfter }
        if let snapshotAfterPositions { configuration.limits.snapshotLogPositions = snapshotAfterPositions }
        configuration.metricsTokenFile = metricsTokenFile
        let server = try RelayServer(
            configuration: configuration, logger: StandardErrorLog.logger("annals.relay", level: logLevel, format: logFormat)
        ) { address in
            console.print("listening on \(address.url)")
            console.sink.flush()
        }
        try await server.runUntilSignal()
    }
}

extension LogFormat: ExpressibleByArgument {}
extension Logger.Level: @retroactive ExpressibleByArgument {}
