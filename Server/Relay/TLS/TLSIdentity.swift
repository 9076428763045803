internal import AnnalsCore
internal import Foundation
internal import NIOSSL

/// A certificate with its key, ready for handshakes.
struct TLSIdentity: Sendable {
    let context: NIOSSLContext
    /// When the relay's own certificate expires, in seconds since 1970.
    let expires: Int64

    /// Reads both files, and refuses a certificate that every client would refuse. It does not check the issuers'
    /// certificates: the relay does not know which of them a client needs, and an expired one does no harm.
    ///
    /// Throws `AnnalsError` with `.configuration`.
    init(_ files: TLSFiles, now: Int64) throws(AnnalsError) {
        let chain = try Self.chain(files.certificate)
        try Self.require(chain[0], files.certificate, validAt: now)
        expires = Int64(chain[0].notValidAfter)
        let key = try Self.key(files.key)
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        configuration.cipherSuiteValues = Self.cipherSuites
        configuration.applicationProtocols = ["http/1.1"]
        do {
            context = try NIOSSLContext(configuration: configuration)
        } catch {
            throw Self.refusal(
                "the key in \(files.key) does not belong to the certificate in \(files.certificate)",
                "The first certificate in the file must be the relay's own")
        }
    }

    /// The cipher suites for TLS 1.2: those with forward secrecy and authenticated encryption. With forward secrecy a
    /// key that is stolen later does not decrypt recorded traffic. All cipher suites of TLS 1.3 have both, so they are
    /// not listed.
    private static let cipherSuites: [NIOTLSCipher] = [
        .TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, .TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, .TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        .TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, .TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        .TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ]

    private static func chain(_ path: String) throws(AnnalsError) -> [NIOSSLCertificate] {
        let bytes = try read(path, "certificate")
        guard let chain = try? NIOSSLCertificate.fromPEMBytes(bytes), !chain.isEmpty else {
            throw refusal("\(path) contains no certificate", "Use a PEM file that begins with the relay's own certificate")
        }
        return chain
    }

    private static func key(_ path: String) throws(AnnalsError) -> NIOSSLPrivateKey {
        let bytes = try read(path, "key")
        guard let key = try? NIOSSLPrivateKey(bytes: bytes, format: .pem) else {
            throw refusal("\(path) contains no readable private key", "Use a PEM file with a key without a passphrase")
        }
        return key
    }

    private static func require(_ certificate: NIOSSLCertificate, _ path: String, validAt now: Int64) throws(AnnalsError) {
        let (first, last) = (Int64(certificate.notValidBefore), Int64(certificate.notValidAfter))
        guard last > now else { throw refusal("the certificate in \(path) expired on \(day(last))", "Renew it") }
        guard first <= now else {
            throw refusal("the certificate in \(path) is not valid before \(day(first))", "Check this machine's clock")
        }
    }

    private static func read(_ path: String, _ what: String) throws(AnnalsError) -> [UInt8] {
        do {
            return [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        } catch {
            let reason = FileManager.default.fileExists(atPath: path) ? "cannot be read" : "does not exist"
            throw refusal("the file \(path) of the TLS \(what) \(reason)", "Check its path and its permissions")
        }
    }

    private static func day(_ seconds: Int64) -> String {
        String(Date(timeIntervalSince1970: Double(seconds)).ISO8601Format().prefix(10))
    }

    private static func refusal(_ message: String, _ hint: String) -> AnnalsError {
        AnnalsError(.configuration, operation: "relay", message, hint: hint)
    }
}
