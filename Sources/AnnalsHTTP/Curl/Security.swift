#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Whom a client trusts. Read once, when the client is made.
struct Security: Sendable, Hashable {
    /// A PEM file of certificates; nil: the system's.
    var file: String?
    /// A folder of certificates by their hashes, as OpenSSL reads them; nil: the system's.
    var folder: String?
    /// Nothing but `file` counts.
    var trustsFileOnly = false
    /// What the server's key must be one of, as libcurl writes it; nil: any.
    var pinnedKeys: String?

    /// What the configuration says; where it says nothing the environment, as for the program curl: libcurl itself looks for
    /// proxies there, and for nothing of this.
    init(_ configuration: HTTPClient.Configuration, environment: (String) -> String? = Self.variable) {
        if let given = configuration.caFile {
            (file, trustsFileOnly) = (given, true)
        } else if let bundle = environment("CURL_CA_BUNDLE") {
            file = bundle
        } else {
            folder = environment("SSL_CERT_DIR")
            file = environment("SSL_CERT_FILE")
        }
        if !configuration.pinnedKeys.isEmpty { pinnedKeys = configuration.pinnedKeys.joined(separator: ";") }
    }

    /// A variable of the environment; an empty one counts as none.
    static func variable(_ name: String) -> String? {
        guard let value = getenv(name) else { return nil }
        let text = String(cString: value)
        return text.isEmpty ? nil : text
    }
}
