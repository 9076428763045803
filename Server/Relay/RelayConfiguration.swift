internal import AnnalsCore
internal import AnnalsWire
public import RelayLog

/// Everything a relay needs to be told.
///
///     var configuration = RelayConfiguration(dataDirectory: "relay-data")
///     configuration.address = try ListenAddress("127.0.0.1:0")
///     configuration.noAuthorization = true
public struct RelayConfiguration: Sendable {
    public var address: ListenAddress
    /// Holds the log, the snapshots and the tokens' hashes; created where it is missing.
    public var dataDirectory: String
    /// Serves everybody who can connect; on loopback only.
    public var noAuthorization: Bool
    /// Listens on other than loopback without encryption, for a proxy in front that has it.
    public var allowPlaintext: Bool
    public var limits: RelayLimits
    /// What of the spaces' logs goes by itself; nil: nothing does.
    public var purge: PurgeRules? = PurgeRules()

    public init(
        address: ListenAddress = ListenAddress(host: "127.0.0.1", port: 8640), dataDirectory: String, noAuthorization: Bool = false,
        allowPlaintext: Bool = false, limits: RelayLimits = RelayLimits()
    ) {
        self.address = address
        self.dataDirectory = dataDirectory
        self.noAuthorization = noAuthorization
        self.allowPlaintext = allowPlaintext
        self.limits = limits
    }

    /// A relay is closed by default: this refuses what would open it by accident, and what cannot work.
    ///
    /// Throws `AnnalsError` with `.configuration`.
    public func validate() throws {
        func require(_ condition: Bool, _ message: String, _ hint: String) throws {
            guard condition else { throw AnnalsError(.configuration, operation: "relay", message, hint: hint) }
        }
        try require(!dataDirectory.isEmpty, "no data directory is given", "Name one with --data DIR")
        try require(!address.host.isEmpty, "no host is given to listen at", "Name one with --listen HOST:PORT")
        try require((0...65_535).contains(address.port), "\(address.port) is not a port", "Ports are numbers from 0 to 65535")
        try require(
            !noAuthorization || address.isLoopback, "--no-auth would open the relay to everybody who reaches \(address.host)",
            "Listen on 127.0.0.1, or make tokens with annals relay token create")
        try require(
            allowPlaintext || address.isLoopback, "tokens and data would cross the network at \(address.host) unencrypted",
            "Put a proxy with TLS in front and add --allow-plaintext, or listen on 127.0.0.1")
        for (name, value) in limits.named {
            try require(value > 0, "the limit \(name) is \(value)", "Limits are greater than 0")
        }
        try require(
            limits.waitSeconds <= 3600 && limits.heartbeatSeconds <= 3600, "waits and heartbeats are limited to an hour",
            "Proxies close quiet connections much sooner")
    }
}

extension RelayLimits {
    var named: [(String, Int)] {
        [
            ("batch bytes", batch.batchBytes), ("batch plain bytes", batch.plainBytes), ("batch transactions", batch.transactions),
            ("body bytes in flight", bodyBytesInFlight), ("page bytes", pageBytes), ("wait seconds", waitSeconds),
            ("heartbeat seconds", heartbeatSeconds), ("connections", connections), ("idle seconds", idleSeconds),
            ("header bytes", headerBytes), ("shutdown seconds", shutdownSeconds), ("snapshot chunk bytes", snapshotChunkBytes),
            ("backlog", backlog), ("purge seconds", purgeSeconds), ("snapshot log mebibytes", snapshotLogMebibytes),
            ("snapshot log positions", snapshotLogPositions),
        ]
    }
}
