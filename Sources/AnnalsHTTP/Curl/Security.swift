#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The certificates and keys that a client trusts. They are read once, when the client is created.
struct Security: Sendable, Hashable {
    /// A PEM file of certificates. nil means the system's.
    var file: String?
    /// A folder of certificates that are named by their hashes, as OpenSSL reads them. nil means the system's.
    var folder: String?
    /// Whether only `file` is trusted.
    var trustsFileOnly = false
    /// The allowed public keys of the server, in libcurl's form. nil allows any key.
    var pinnedKeys: String?

    /// Reads the configuration. Where it has no value, the environment is used, as in the program curl. libcurl itself
    /// reads only proxies from the environment.
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

    /// A variable of the environment. An empty value counts as not set.
    static func variable(_ name: String) -> String? {
        guard let value = getenv(name) else { return nil }
        let text = String(cString: value)
        return text.isEmpty ? nil : text
    }
}
