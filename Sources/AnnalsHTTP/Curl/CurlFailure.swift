import CCurl

extension HTTPError {
    /// Converts libcurl's result to an error. Its own messages are used only for TLS, because other messages may
    /// contain a proxy's address with its password, or text from a server.
    init(_ code: CURLcode, target: RequestTarget, systemError: Int32, tlsMessage: String) {
        if let problem = CertificateProblem(code, tlsMessage) {
            self.init(.tls, problem.text(target.name, tlsMessage), certificate: problem)
            return
        }
        let (kind, text) = Self.meaning(code)
        var message = "\(text) \(target.name)"
        if kind == .tls, !tlsMessage.isEmpty {
            message += ": \(tlsMessage)"
        } else if systemError != 0, kind == .cannotConnect || kind == .sendFailed || kind == .receiveFailed {
            message += ": \(systemMessage(systemError))"
        }
        self.init(kind, message)
    }

    private static func meaning(_ code: CURLcode) -> (Kind, String) {
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST: (.cannotResolve, "cannot find an address for the host of")
        case CURLE_COULDNT_RESOLVE_PROXY: (.cannotResolve, "cannot find an address for the proxy to")
        case CURLE_COULDNT_CONNECT: (.cannotConnect, "cannot connect to")
        // The client checks a request's own timeout itself, so this is the connect timeout.
        case CURLE_OPERATION_TIMEDOUT: (.cannotConnect, "the connect timeout expired for")
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_SSL_ENGINE_NOTFOUND,
            CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_ENGINE_INITFAILED, CURLE_SSL_CRL_BADFILE, CURLE_USE_SSL_FAILED:
            (.tls, "cannot open a secure connection to")
        case CURLE_URL_MALFORMAT: (.badURL, "not an http or https address:")
        case CURLE_SEND_ERROR, CURLE_SEND_FAIL_REWIND: (.sendFailed, "the connection broke while the request was sent to")
        case CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE:
            (.receiveFailed, "the connection broke before the answer was complete, from")
        case CURLE_OUT_OF_MEMORY: (.receiveFailed, "not enough memory for a request to")
        default: (.protocolError, "invalid HTTP (\(String(cString: curl_easy_strerror(code)))) from")
        }
    }
}
