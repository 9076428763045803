import CCurl

/// The target of a request, checked before anything is opened. libcurl parses it, so the checked host is the host of
/// the connection.
struct RequestTarget: Sendable, Hashable {
    var url: String
    /// As in the address: a name or a numeric address. An IPv6 address is in brackets.
    var host: String
    var port: String
    var isEncrypted: Bool

    /// The server's name in messages. The whole address may contain a secret.
    var name: String { "\(host):\(port)" }

    init(url: String) throws(HTTPError) {
        guard let parsed = curl_url() else { throw HTTPError(.badURL, "the address cannot be read") }
        defer { curl_url_cleanup(parsed) }
        let code = curl_url_set(parsed, CURLUPART_URL, url, UInt32(CURLU_DISALLOW_USER | CURLU_NON_SUPPORT_SCHEME))
        guard code == CURLUE_OK else { throw HTTPError(.badURL, Self.reason(code)) }
        guard let scheme = Self.part(CURLUPART_SCHEME, of: parsed), scheme == "http" || scheme == "https" else {
            throw HTTPError(.badURL, "the address must begin with http:// or https://")
        }
        guard let host = Self.part(CURLUPART_HOST, of: parsed), let port = Self.part(CURLUPART_PORT, of: parsed) else {
            throw HTTPError(.badURL, "the address names no host")
        }
        self.url = url
        self.host = host
        self.port = port
        isEncrypted = scheme == "https"
    }

    /// Whether the host is this machine. A proxy could not reach it.
    var isLoopback: Bool {
        let host = host.lowercased()
        return host == "localhost" || host == "[::1]" || host.hasSuffix(".localhost") || Self.isLoopbackNumber(host)
    }

    private static func isLoopbackNumber(_ host: String) -> Bool {
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        return numbers.count == 4 && numbers[0] == 127 && !numbers.contains(nil)
    }

    private static func part(_ part: CURLUPart, of url: OpaquePointer) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(url, part, &text, UInt32(CURLU_DEFAULT_PORT)) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        let string = String(cString: text)
        return string.isEmpty ? nil : string
    }

    private static func reason(_ code: CURLUcode) -> String {
        switch code {
        case CURLUE_USER_NOT_ALLOWED: "the address must not contain a user name or password; use a token instead"
        case CURLUE_BAD_SCHEME, CURLUE_NO_SCHEME, CURLUE_UNSUPPORTED_SCHEME: "the address must begin with http:// or https://"
        case CURLUE_BAD_PORT_NUMBER: "the port in the address must be a number from 0 to 65535"
        case CURLUE_NO_HOST: "the address names no host"
        default: "the address is not an http or https address"
        }
    }
}
