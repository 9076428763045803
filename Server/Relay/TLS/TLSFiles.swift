/// The files of a relay's certificate: two PEM files, which can be replaced while it serves.
package struct TLSFiles: Sendable, Hashable {
    /// The relay's own certificate, followed by those of its issuers without the root.
    package var certificate: String
    /// The private key without a passphrase.
    package var key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}
