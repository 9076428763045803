/// Where a relay's certificate lies: two PEM files, which may be replaced while it serves.
package struct TLSFiles: Sendable, Hashable {
    /// The relay's own certificate, followed by those of its issuers but the root.
    package var certificate: String
    /// Its private key, without a passphrase.
    package var key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}
