import Foundation
import Testing

/// A certificate authority of one test, made with openssl in the test's folder: `ca.pem`, and `NAME.pem` with `NAME.key`.
struct CertificateAuthority {
    let shop: Workshop

    init(in shop: Workshop) async throws {
        self.shop = shop
        try await openssl(["req", "-x509", "-days", "2", "-out", "ca.pem"] + Self.newKey("ca"))
    }

    /// - Parameters:
    ///   - names: As in `IP:127.0.0.1,DNS:relay.test`.
    ///   - days: The days until it expires; -1 for an expired one.
    func issue(_ name: String, for names: String = "IP:127.0.0.1", days: Int = 2) async throws {
        try Data("subjectAltName=\(names)\n".utf8).write(to: URL(fileURLWithPath: shop.file("\(name).ext")))
        try await openssl(["req", "-out", "\(name).csr"] + Self.newKey(name))
        try await openssl([
            "x509", "-req", "-in", "\(name).csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "\(days)", "-extfile",
            "\(name).ext", "-out", "\(name).pem",
        ])
    }

    /// Makes a certificate for 127.0.0.1 that this authority did not issue: it is its own issuer.
    func makeSelfIssued(_ name: String) async throws {
        try await openssl(
            ["req", "-x509", "-days", "2", "-out", "\(name).pem", "-addext", "subjectAltName=IP:127.0.0.1"] + Self.newKey(name))
    }

    /// The value for `--pin`.
    func pin(_ name: String) async throws -> String {
        let script = """
            openssl x509 -in \(name).pem -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | openssl base64 -A
            """
        let outcome = try await Program.run("sh", ["-c", script], in: shop.path)
        return "sha256//" + outcome.output.trimmingCharacters(in: .newlines)
    }

    /// Replaces one certificate with another.
    func put(_ name: String, inPlaceOf other: String) throws {
        for kind in ["pem", "key"] {
            try shop.bytes("\(name).\(kind)").write(to: URL(fileURLWithPath: shop.file("\(other).\(kind)")))
        }
    }

    private static func newKey(_ name: String) -> [String] {
        ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=\(name)", "-keyout", "\(name).key"]
    }

    private func openssl(_ arguments: [String]) async throws {
        let outcome = try await Program.run("openssl", arguments, in: shop.path)
        try #require(outcome.status == 0, "openssl: \(outcome.errors)")
    }
}
