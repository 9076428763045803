internal import AnnalsCore
internal import Configuration
package import Logging
internal import RelayLog

/// The settings of a relay from its command line, its environment and a file; each source overrides those after it.
///
///     let settings = try await RelaySettings.read(
///         flags: ["listen": "127.0.0.1:0"], environment: ProcessInfo.processInfo.environment, file: "relay.yaml")
///     let server = try RelayServer(configuration: settings.configuration, logger: logger)
///
/// `Config/relay.yaml` explains every setting. In the environment `limits.batch-bytes` is
/// ANNALS_RELAY_LIMITS_BATCH_BYTES. An empty variable, or a key without a value in the file, counts as not set.
package struct RelaySettings: Sendable {
    package var logLevel = Logger.Level.notice
    /// `text` or `json`.
    package var logFormat = "text"
    var address = ListenAddress(host: "127.0.0.1", port: 8640)
    /// Empty if the log is elsewhere, for example with `postgres`.
    var data = ""
    var postgres = ""
    var noAuthorization = false
    var allowPlaintext = false
    var trustedProxies = TrustedProxies()
    /// Empty if the relay serves HTTP, like the next one.
    var tlsCertificate = ""
    var tlsKey = ""
    var metricsTokenFile = ""
    var purges = true
    var rules = PurgeRules()
    var autoVoid = 0
    var backup = BackupRules()
    var webTokens = WebTokenSettings(keys: "", issuer: "", audience: "")
    var limits = RelayLimits()

    /// The prefix of environment variables.
    static let prefix: [String] = ["annals", "relay"]

    init() {}

    /// Reads the settings from all sources.
    ///
    /// - Parameters:
    ///   - flags: values by the settings' names.
    ///   - file: the path of a YAML file; nil without a file.
    /// - Throws: `AnnalsError`: `.fileNotFound`, and `.configuration` for an unknown setting or an invalid value, with
    ///   its name and, in a file, its line.
    package static func read(flags: [String: String], environment: [String: String], file: String?) async throws -> RelaySettings {
        var settings = RelaySettings()
        if let file {
            let checked = try SettingsFile(path: file)
            let provider = try await checked.provider()
            try settings.take(from: { checked.has($0) ? try Self.text($0, in: provider) : nil }, called: checked.place)
        }
        let variables = EnvironmentVariablesProvider(environmentVariables: environment)
        let prefixed = variables.prefixKeys(with: ConfigKey(prefix))
        try settings.take(from: { try Self.text($0, in: prefixed) }, called: Self.variable)
        try settings.take(from: { flags[$0] }, called: { "--\($0)" })
        return settings
    }

    private static func text(_ name: String, in provider: some ConfigProvider) throws -> String? {
        let key = AbsoluteConfigKey(name.split(separator: ".").map(String.init))
        guard case .string(let text)? = try provider.value(forKey: key, type: .string).value?.content, !text.isEmpty else { return nil }
        return text
    }

    /// The name of a setting's environment variable.
    static func variable(_ name: String) -> String {
        (prefix + [name]).joined(separator: "_").uppercased().replacing(".", with: "_").replacing("-", with: "_")
    }

    /// - Parameter called: the name of a setting in this source, for errors.
    private mutating func take(from source: (String) throws -> String?, called: (String) -> String) throws {
        let (data, postgres) = (try source(RelaySetting.data), try source(RelaySetting.postgres))
        if data != nil || postgres != nil {
            // The source with the highest priority that names a location sets it alone; other sources do not add to it.
            (self.data, self.postgres) = ("", "")
            guard data == nil || postgres == nil else {
                throw AnnalsError(
                    .configuration, operation: "relay",
                    "\(called(RelaySetting.data)) and \(called(RelaySetting.postgres)) both set the relay's storage", hint: "Remove one")
            }
        }
        for setting in RelaySetting.all {
            guard let text = try source(setting.name) else { continue }
            guard setting.set(&self, text) else {
                throw AnnalsError(
                    .configuration, operation: "relay", "\(called(setting.name)) is \"\(text)\", which is not \(setting.kind)",
                    hint: "Config/relay.yaml explains every setting")
            }
        }
    }

    /// The settings that differ from their defaults, as `name=value`; of those that may hold a secret only the name.
    package var changes: [String] {
        let defaults = RelaySettings()
        return RelaySetting.all.compactMap { setting in
            let value = setting.get(self)
            guard value != setting.get(defaults) else { return nil }
            return RelaySetting.mayBeSecret.contains(setting.name) ? setting.name : "\(setting.name)=\(value)"
        }
    }

    /// Whether a location of the log is set.
    package var hasStorage: Bool { !data.isEmpty || !postgres.isEmpty }

    /// The configuration with these settings.
    package var configuration: RelayConfiguration {
        var configuration = RelayConfiguration(
            address: address, storage: postgres.isEmpty ? .directory(data) : .postgres(postgres), noAuthorization: noAuthorization,
            allowPlaintext: allowPlaintext, limits: limits)
        configuration.purge = purges ? rules : nil
        configuration.autoVoid = autoVoid
        configuration.backup = backup
        configuration.trustedProxies = trustedProxies
        if !(tlsCertificate.isEmpty && tlsKey.isEmpty) { configuration.tls = TLSFiles(certificate: tlsCertificate, key: tlsKey) }
        configuration.metricsTokenFile = metricsTokenFile.isEmpty ? nil : metricsTokenFile
        let usesWebTokens = !(webTokens.keys.isEmpty && webTokens.issuer.isEmpty && webTokens.audience.isEmpty)
        configuration.webTokens = usesWebTokens ? webTokens : nil
        return configuration
    }
}
