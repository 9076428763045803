internal import AnnalsCore
internal import AnnalsWire
internal import Foundation
package import RelayLog
internal import RelayPostgres

/// The configuration of a relay.
///
///     var configuration = RelayConfiguration(storage: .directory("relay-data"))
///     configuration.address = try ListenAddress("127.0.0.1:0")
///     configuration.noAuthorization = true
package struct RelayConfiguration: Sendable {
    package var address: ListenAddress
    /// The location of the log, the snapshots and the tokens' hashes.
    package var storage: Storage
    /// Serves all clients without tokens; on loopback only.
    package var noAuthorization: Bool
    /// Listens on other addresses than loopback without encryption, for a proxy with TLS in front.
    package var allowPlaintext: Bool
    /// The proxies that may name the client's address in `X-Forwarded-For`.
    package var trustedProxies = TrustedProxies()
    /// Serves HTTPS with this certificate instead of HTTP.
    package var tls: TLSFiles?
    /// A file with a token that is valid only for `/metrics`; nil: only an operator's token is accepted.
    package var metricsTokenFile: String?
    package var limits: RelayLimits
    /// An identity provider with accepted tokens; nil: only the relay's own tokens are accepted.
    package var webTokens: WebTokenSettings?
    /// The rules of the automatic purges; nil disables them.
    package var purge: PurgeRules? = PurgeRules()
    /// When the relay makes backups by itself.
    package var backup = BackupRules()
    /// The number of owners after which a reported entry is voided; 0 disables it, so that only operators void.
    package var autoVoid = 0

    private static let mostReporters = 1_000
    private static let mostBackups = 10_000

    package enum Storage: Sendable, Hashable {
        /// A folder, created if it is missing; one relay at a time serves it.
        case directory(String)
        /// A database by libpq's address: a URL or `name=value` pairs. Any number of relays can serve it. Missing
        /// tables are created. Keep passwords in a password file instead of here.
        case postgres(String)
    }

    package init(
        address: ListenAddress = ListenAddress(host: "127.0.0.1", port: 8640), storage: Storage, noAuthorization: Bool = false,
        allowPlaintext: Bool = false, limits: RelayLimits = RelayLimits()
    ) {
        self.address = address
        self.storage = storage
        self.noAuthorization = noAuthorization
        self.allowPlaintext = allowPlaintext
        self.limits = limits
    }

    /// Refuses a configuration that opens the relay by accident or that cannot work. By default a relay is closed.
    ///
    /// Throws `AnnalsError` with `.configuration`.
    package func validate() throws {
        func require(_ condition: Bool, _ message: String, _ hint: String) throws {
            guard condition else { throw AnnalsError(.configuration, operation: "relay", message, hint: hint) }
        }
        switch storage {
        case .directory(let path): try require(!path.isEmpty, "no data directory is configured", "Name one with --data DIR")
        case .postgres(let url): try require(!url.isEmpty, "no PostgreSQL address is configured", "Name one with --postgres URL")
        }
        try require(!address.host.isEmpty, "the listen address has no host", "Name one with --listen HOST:PORT")
        try require((0...65_535).contains(address.port), "\(address.port) is not a port", "Ports are numbers from 0 to 65535")
        try require(
            !noAuthorization || address.isLoopback, "--no-auth would open the relay to everyone who can connect to \(address.host)",
            "Listen on 127.0.0.1, or create tokens with annals relay token create")
        try require(
            tls != nil || allowPlaintext || address.isLoopback, "tokens and data would cross the network unencrypted at \(address.host)",
            "Give a certificate with --tls-cert and --tls-key, or put a proxy with TLS in front and add --allow-plaintext")
        try webTokens?.validate()
        if !backup.folder.isEmpty {
            try require(
                (BackupRules.shortest...BackupRules.longest).contains(backup.every),
                "backup.every is \(TimeText.text(milliseconds: backup.every))", "Set at least 1m and at most 365d")
            try require((1...Self.mostBackups).contains(backup.keep), "backup.keep is \(backup.keep)", "Set a number from 1 to 10000")
            try require(
                FileManager.default.isWritableFile(atPath: backup.folder), "the folder \(backup.folder) for backups cannot be written",
                "Create it, and give it to the user that serves the relay")
            let path = URL(fileURLWithPath: backup.folder).standardizedFileURL.path
            if case .directory(let data) = storage {
                try require(
                    !"\(path)/".hasPrefix("\(URL(fileURLWithPath: data).standardizedFileURL.path)/"),
                    "the folder \(backup.folder) for backups is inside the relay's data", "Name a folder on another disk")
            }
        }
        try require(
            (0...Self.mostReporters).contains(autoVoid), "auto-void is \(autoVoid)",
            "Set a number of owners from 0 to 1000; 0 disables it")
        try require(
            autoVoid == 0 || !noAuthorization, "auto-void needs owners, but a relay with --no-auth has none",
            "Remove one of them; annals relay void works in both cases")
        for limit in RelayLimits.named {
            let value = limits[keyPath: limit.value]
            try require(value > 0, "the limit \(limit.name) is \(value)", "Set a number greater than 0")
            try require(value <= limit.most, "the limit \(limit.name) is \(value)", "Set at most \(limit.most)")
        }
        try require(
            limits.waitSeconds <= 3600 && limits.heartbeatSeconds <= 3600, "waits and heartbeats are limited to an hour",
            "Proxies close quiet connections much sooner")
    }
}

extension RelayConfiguration.Storage {
    /// Kind and format, without the address of a database, which may hold a password.
    var summary: String {
        switch self {
        case .directory: "folder(format=\(RelayDatabase.folderFormat))"
        case .postgres: "postgres(format=\(PostgresDatabase.format))"
        }
    }

    /// Throws the `AnnalsError` of opening the folder or the database.
    ///
    /// - Parameter reserveBytes: bytes of the disk to keep free beside the copy that is kept before a migration.
    package func open(
        readers: Int = RelayLogLimits().readers, reserveBytes: Int64 = RelayLogLimits().diskReserveBytes
    ) throws -> RelayDatabase {
        switch self {
        case .directory(let path): try RelayDatabase(directory: path, readers: readers, reserveBytes: reserveBytes)
        case .postgres(let url): try PostgresDatabase.relayDatabase(url: url, readers: readers)
        }
    }
}
