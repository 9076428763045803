import CCurl

extension CertificateProblem {
    /// The problem for a result of libcurl and a message of its TLS library. nil if the result is not about trust.
    init?(_ code: CURLcode, _ text: String) {
        switch code {
        case CURLE_SSL_PINNEDPUBKEYNOTMATCH: self = .wrongKey
        case CURLE_SSL_CACERT_BADFILE: self = .trustUnusable
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS: self = Self(words: text.lowercased())
        default: return nil
        }
    }

    fileprivate init(words: String) {
        let known: [(Self, [String])] = [
            (.expired, ["has expired", "certificate expired"]),
            (.notYetValid, ["not yet valid", "not yet activated"]),
            (.wrongHost, ["subject name", "does not match", "host name", "hostname"]),
            (.unknownIssuer, ["self-signed", "self signed", "issuer", "first certificate", "signer not found"]),
        ]
        self = known.first { $0.1.contains { words.contains($0) } }?.0 ?? .other
    }
}
