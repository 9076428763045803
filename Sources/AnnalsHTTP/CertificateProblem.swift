/// Why a server was not trusted. Nothing was sent to the server.
public enum CertificateProblem: String, Hashable, Sendable, CaseIterable {
    case expired
    case notYetValid
    /// No trusted authority issued the certificate, or the certificate of its issuer is missing.
    case unknownIssuer
    /// The certificate is for another host.
    case wrongHost
    /// The server's key is not a pinned key.
    case wrongKey
    /// The file or folder of trusted certificates cannot be used.
    case trustUnusable
    /// Another reason. The message contains it.
    case other

    /// The message about a server's certificate.
    func text(_ server: String, _ words: String) -> String {
        switch self {
        case .expired: "the certificate of \(server) has expired"
        case .notYetValid: "the certificate of \(server) is not valid yet"
        case .unknownIssuer: "no trusted authority issued the certificate of \(server)"
        case .wrongHost: "the certificate of \(server) is for another host"
        case .wrongKey: "the key of \(server) is not a pinned key"
        case .trustUnusable: "the trusted certificates cannot be read, so \(server) is not trusted"
        case .other: "the certificate of \(server) is not trusted" + (words.isEmpty ? "" : ": \(words)")
        }
    }

    /// What the app or its user can do.
    public var hint: String {
        switch self {
        case .expired: "Ask the relay's operator to renew it, and check this machine's clock"
        case .notYetValid: "Check this machine's clock and the relay's clock"
        case .unknownIssuer:
            """
            If you trust its issuer, give the issuer's certificate in RelayTrust.caFile. A self-made certificate is its own issuer: give \
            the certificate itself. RelayTrust.pins are checked in addition, and not instead
            """
        case .wrongHost: "Use the host name in the certificate"
        case .wrongKey:
            "Another server may intercept the connection. If the relay's operator has changed the key, give the new one in RelayTrust.pins"
        case .trustUnusable: "Give a PEM file in RelayTrust.caFile, and check SSL_CERT_FILE, SSL_CERT_DIR and CURL_CA_BUNDLE"
        case .other: "Ask the relay's operator"
        }
    }

    /// What a user of the command line can do; nil if `hint` says it.
    package var commandHint: String? {
        switch self {
        case .unknownIssuer:
            """
            If you trust its issuer, add --ca-file with the issuer's certificate. A self-made certificate is its own issuer: add --ca-file \
            with the certificate itself. --pin is checked in addition, and not instead
            """
        case .wrongKey:
            "Another server may intercept the connection. If the relay's operator has changed the key, give the new one with --pin"
        case .trustUnusable: "Give a PEM file with --ca-file, and check SSL_CERT_FILE, SSL_CERT_DIR and CURL_CA_BUNDLE"
        case .expired, .notYetValid, .wrongHost, .other: nil
        }
    }
}
