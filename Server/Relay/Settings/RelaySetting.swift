internal import AnnalsCore
internal import Logging
internal import RelayLog

/// One setting of a relay: by a flag, by the environment or in the file.
struct RelaySetting: Sendable {
    /// Dots separate the sections of the file: `jwt.issuer`.
    let name: String
    /// The kind of value, for an error: "which is not …".
    let kind: String
    let get: @Sendable (RelaySettings) -> String
    /// Returns false if the text is no valid value.
    let set: @Sendable (inout RelaySettings, String) -> Bool

    private typealias Path<Value> = any WritableKeyPath<RelaySettings, Value> & Sendable

    private static func text(_ name: String, _ path: Path<String>) -> RelaySetting {
        RelaySetting(name: name, kind: "a text", get: { $0[keyPath: path] }) { settings, text in
            settings[keyPath: path] = text
            return true
        }
    }

    private static func flag(_ name: String, _ path: Path<Bool>) -> RelaySetting {
        RelaySetting(name: name, kind: "true or false", get: { "\($0[keyPath: path])" }) { settings, text in
            guard let value = ["true": true, "yes": true, "false": false, "no": false][text.lowercased()] else { return false }
            settings[keyPath: path] = value
            return true
        }
    }

    private static func number(_ name: String, _ path: Path<Int>) -> RelaySetting {
        RelaySetting(name: name, kind: "a whole number", get: { "\($0[keyPath: path])" }) { settings, text in
            guard let value = Int(text) else { return false }
            settings[keyPath: path] = value
            return true
        }
    }

    private static func time(_ name: String, _ path: Path<Int64>) -> RelaySetting {
        RelaySetting(
            name: name, kind: "a duration such as 5m, 12h or 30d", get: { TimeText.text(milliseconds: $0[keyPath: path]) }
        ) { settings, text in
            guard let value = TimeText.milliseconds(text) else { return false }
            settings[keyPath: path] = value
            return true
        }
    }

    /// All settings.
    static let all: [RelaySetting] =
        [
            RelaySetting(name: "listen", kind: "HOST:PORT", get: { "\($0.address.host):\($0.address.port)" }) { settings, text in
                guard let address = try? ListenAddress(text) else { return false }
                settings.address = address
                return true
            },
            text(data, \.data), text(postgres, \.postgres), flag("no-auth", \.noAuthorization), flag("allow-plaintext", \.allowPlaintext),
            RelaySetting(
                name: "trusted-proxies", kind: "a list of addresses or networks such as 127.0.0.1, 10.0.0.0/8",
                get: { $0.trustedProxies.text }
            ) { settings, text in
                guard let proxies = TrustedProxies(text) else { return false }
                settings.trustedProxies = proxies
                return true
            },
            RelaySetting(
                name: "log-level", kind: "trace, debug, info, notice, warning, error or critical", get: { $0.logLevel.rawValue }
            ) { settings, text in
                guard let level = Logger.Level(rawValue: text) else { return false }
                settings.logLevel = level
                return true
            },
            RelaySetting(name: "log-format", kind: "text or json", get: { $0.logFormat }) { settings, text in
                guard ["text", "json"].contains(text) else { return false }
                settings.logFormat = text
                return true
            },
            text("metrics-token-file", \.metricsTokenFile), text("tls.certificate", \.tlsCertificate), text("tls.key", \.tlsKey),
            flag("purge.enabled", \.purges), time("purge.keep", \.rules.keep), time("purge.retention", \.rules.retention),
            time("purge.silence", \.rules.silence), number("auto-void", \.autoVoid),
            text("backup.folder", \.backup.folder), time("backup.every", \.backup.every), number("backup.keep", \.backup.keep),
            text("jwt.keys", \.webTokens.keys), text("jwt.issuer", \.webTokens.issuer), text("jwt.audience", \.webTokens.audience),
            text("jwt.claim", \.webTokens.claim), number("jwt.leeway-seconds", \.webTokens.leewaySeconds),
        ]
        + RelayLimits.named.map { limit in
            RelaySetting(name: "limits.\(limit.name)", kind: "a whole number", get: { "\($0.limits[keyPath: limit.value])" }) {
                settings, text in
                guard let value = Int(text) else { return false }
                settings.limits[keyPath: limit.value] = value
                return true
            }
        }

    static let data = "data"
    static let postgres = "postgres"
    /// Settings with an address that may hold a password.
    static let mayBeSecret: Set = [postgres, "jwt.keys"]
}
