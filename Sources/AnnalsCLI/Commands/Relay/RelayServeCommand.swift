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
            token, and other addresses than this machine's own need TLS in front. On SIGTERM or Ctrl-C it finishes what it \
            is answering, and ends with status 0.

            Examples:
              annals relay serve --data relay-data --listen 127.0.0.1:8640 --no-auth
              annals relay serve --data /var/lib/annals --listen 0.0.0.0:8640 --allow-plaintext
              annals relay serve --postgres postgres://annals@db.internal/annals --listen 127.0.0.1:8640
            """)

    @OptionGroup var place: RelayDataOption
    @Option(help: "HOST:PORT; port 0 takes a free one.")
    var listen = "127.0.0.1:8640"
    @Flag(name: .customLong("no-auth"), help: "Serve everybody who can connect; on this machine's own address only.")
    var noAuth = false
    @Flag(name: .customLong("allow-plaintext"), help: "Listen on other addresses without TLS, for a proxy in front that has it.")
    var allowPlaintext = false
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
    @OptionGroup var output: PlainOutputOptions

    func run() async throws {
        let console = output.console
        var configuration = RelayConfiguration(
            address: try ListenAddress(listen), storage: place.storage, noAuthorization: noAuth, allowPlaintext: allowPlaintext)
        var rules = PurgeRules()
        rules.keep = keep?.milliseconds ?? rules.keep
        rules.retention = retention?.milliseconds ?? rules.retention
        rules.silence = silence?.milliseconds ?? rules.silence
        configuration.purge = noPurge ? nil : rules
        if let snapshotAfter { configuration.limits.snapshotLogMebibytes = snapshotAfter }
        if let snapshotAfterPositions { configuration.limits.snapshotLogPositions = snapshotAfterPositions }
        let server = try RelayServer(
            configuration: configuration, logger: StandardErrorLog.logger("annals.relay", level: logLevel)
        ) { address in
            console.print("listening on \(address.url)")
            console.sink.flush()
        }
        try await server.runUntilSignal()
    }
}

extension Logger.Level: @retroactive ExpressibleByArgument {}
