/// Where a relay's certificate lies: two PEM files, which may be replaced while it serves.
public struct TLSFiles: Sendable, Hashable {
    /// The relay's own certificate, followed by those of its issuers but the root.
    public var certificate: String
    /// Its private key, without a passphrase.
    public var key: String

    public init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}
