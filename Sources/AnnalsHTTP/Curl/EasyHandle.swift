import CCurl

/// A libcurl handle for one transfer at a time. It is reused for later transfers. Only the client's thread uses it.
final class EasyHandle {
    let pointer: UnsafeMutableRawPointer
    private var headers: UnsafeMutablePointer<curl_slist>?
    private let message: UnsafeMutablePointer<CChar>

    init() throws(HTTPError) {
        guard let pointer = curl_easy_init() else { throw HTTPError(.sendFailed, "not enough memory for a request") }
        self.pointer = pointer
        message = .allocate(capacity: Int(CURL_ERROR_SIZE))
        message.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    }

    deinit {
        curl_easy_cleanup(pointer)
        curl_slist_free_all(headers)
        message.deallocate()
    }

    /// Removes the state of the last transfer. Connections and resolved names are kept, because they belong to the
    /// multi handle.
    func reset() {
        curl_easy_reset(pointer)
        curl_slist_free_all(headers)
        headers = nil
        message.pointee = 0
    }

    /// Sets all options of a transfer. libcurl passes `context` to every callback.
    func prepare(
        _ request: HTTPRequest, to target: RequestTarget, body: BodySource?, configuration: HTTPClient.Configuration, security: Security,
        callbacks: TransferCallbacks, context: UnsafeMutableRawPointer, mustConnectAnew: Bool
    ) throws(HTTPError) {
        try setConnection(target, configuration)
        try setSecurity(security)
        try setProxy(target, request)
        try setCallbacks(callbacks, context)
        try setMethod(request.method, body)
        try setHeaders(request, body)
        if mustConnectAnew { try set(CURLOPT_FRESH_CONNECT, 1) }
    }

    /// The `errno` of the failure. 0 if the system did not cause it.
    var systemError: Int32 { Int32(truncatingIfNeeded: number(CURLINFO_OS_ERRNO)) }

    /// Whether the transfer reused the connection of an earlier transfer.
    var isConnectionKept: Bool { number(CURLINFO_NUM_CONNECTS) == 0 }

    /// The message of libcurl and its TLS library about a failure.
    var tlsMessage: String { String(cString: message) }

    private func number(_ info: CURLINFO) -> Int {
        var number = 0
        annals_curl_get_long(pointer, info, &number)
        return number
    }

    private func setConnection(_ target: RequestTarget, _ configuration: HTTPClient.Configuration) throws(HTTPError) {
        try set(CURLOPT_URL, target.url)
        try require(annals_curl_allow_only_http(pointer))
        try set(CURLOPT_FOLLOWLOCATION, 0)
        // With one transfer on each connection, neither a large answer nor a lost packet delays another transfer.
        try set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try set(CURLOPT_HTTP09_ALLOWED, 0)
        // Signals belong to the process. The client's thread blocks SIGPIPE itself.
        try set(CURLOPT_NOSIGNAL, 1)
        try set(CURLOPT_TCP_KEEPALIVE, 1)
        try set(CURLOPT_CONNECTTIMEOUT_MS, configuration.connectTimeout.wholeMilliseconds)
        try set(CURLOPT_BUFFERSIZE, HTTPLimits.receiveBuffer)
        try set(CURLOPT_UPLOAD_BUFFERSIZE, HTTPLimits.sendBuffer)
        try set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        try set(CURLOPT_USERAGENT, configuration.userAgent)
        // Without this option, the cancellation of a request during its name lookup would block all other requests
        // until the system's resolver gives up.
        try require(annals_curl_abandon_lookups(pointer))
        try require(annals_curl_set_pointer(pointer, CURLOPT_ERRORBUFFER, message))
    }

    private func setSecurity(_ security: Security) throws(HTTPError) {
        try set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        try set(CURLOPT_PROXY_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        if let file = security.file { try set(CURLOPT_CAINFO, file) }
        if let folder = security.folder { try set(CURLOPT_CAPATH, folder) }
        // Without this line, libcurl would trust the system's folder in addition to the file.
        if security.trustsFileOnly { try require(annals_curl_set_string(pointer, CURLOPT_CAPATH, nil)) }
        if let keys = security.pinnedKeys { try set(CURLOPT_PINNEDPUBLICKEY, keys) }
    }

    private func setProxy(_ target: RequestTarget, _ request: HTTPRequest) throws(HTTPError) {
        // The headers of a request must not be sent to the proxy in a CONNECT request.
        try set(CURLOPT_HEADEROPT, Int(CURLHEADER_SEPARATE))
        guard !target.isLoopback else { return try set(CURLOPT_NOPROXY, "*") }
        guard !target.isEncrypted, request.hasHeader("Authorization") else { return }
        guard !ProxyChoice(for: target).hasProxy else {
            throw HTTPError(
                .badRequest, "the token for \(target.name) would be sent to a proxy unencrypted: use https, or add the host to no_proxy")
        }
        try set(CURLOPT_NOPROXY, "*")
    }

    private func setCallbacks(_ callbacks: TransferCallbacks, _ context: UnsafeMutableRawPointer) throws(HTTPError) {
        try require(annals_curl_set_pointer(pointer, CURLOPT_PRIVATE, context))
        try require(annals_curl_set_prerequest_function(pointer, callbacks.prerequest))
        try require(annals_curl_set_pointer(pointer, CURLOPT_PREREQDATA, context))
        try require(annals_curl_set_data_function(pointer, CURLOPT_HEADERFUNCTION, callbacks.header))
        try require(annals_curl_set_pointer(pointer, CURLOPT_HEADERDATA, context))
        try require(annals_curl_set_data_function(pointer, CURLOPT_WRITEFUNCTION, callbacks.body))
        try require(annals_curl_set_pointer(pointer, CURLOPT_WRITEDATA, context))
        try require(annals_curl_set_data_function(pointer, CURLOPT_READFUNCTION, callbacks.upload))
        try require(annals_curl_set_pointer(pointer, CURLOPT_READDATA, context))
        try require(annals_curl_set_seek_function(pointer, callbacks.seek))
        try require(annals_curl_set_pointer(pointer, CURLOPT_SEEKDATA, context))
    }

    private func setMethod(_ method: String, _ body: BodySource?) throws(HTTPError) {
        if let bytes = body?.inlineBytes {
            try set(CURLOPT_POST, 1)
            try setOffset(CURLOPT_POSTFIELDSIZE_LARGE, Int64(bytes.count))
            let code = bytes.withUnsafeBytes { bytes in
                // An empty array may have no address. libcurl needs an address to see that there is a body.
                annals_curl_set_pointer(pointer, CURLOPT_COPYPOSTFIELDS, bytes.baseAddress ?? UnsafeRawPointer(message))
            }
            try require(code)
        } else if let body {
            try set(CURLOPT_UPLOAD, 1)
            try setOffset(CURLOPT_INFILESIZE_LARGE, body.length)
        } else if method == "POST" || method == "PUT" || method == "PATCH" {
            // These methods send a length even without a body.
            try set(CURLOPT_POST, 1)
            try setOffset(CURLOPT_POSTFIELDSIZE_LARGE, 0)
            try set(CURLOPT_POSTFIELDS, "")
        } else if method == "HEAD" {
            return try set(CURLOPT_NOBODY, 1)
        }
        if method != "GET" || body != nil { try set(CURLOPT_CUSTOMREQUEST, method) }
    }

    private func setHeaders(_ request: HTTPRequest, _ body: BodySource?) throws(HTTPError) {
        for (name, value) in request.headers {
            // In libcurl's notation, "Name:" removes a header and "Name;" sends it empty.
            try addHeader(value.isEmpty ? "\(name);" : "\(name): \(value)")
        }
        // Without "Expect:", libcurl may wait a second for permission to send the body. Without "Content-Type:", it
        // declares the body as a web form.
        try addHeader("Expect:")
        if !request.hasHeader("Content-Type") { try addHeader("Content-Type:") }
        try require(annals_curl_set_pointer(pointer, CURLOPT_HTTPHEADER, headers))
    }

    private func addHeader(_ line: String) throws(HTTPError) {
        guard let longer = curl_slist_append(headers, line) else { throw HTTPError(.sendFailed, "not enough memory for a request") }
        headers = longer
    }

    private func set(_ option: CURLoption, _ value: Int) throws(HTTPError) {
        try require(annals_curl_set_long(pointer, option, value))
    }

    private func setOffset(_ option: CURLoption, _ value: Int64) throws(HTTPError) {
        try require(annals_curl_set_offset(pointer, option, curl_off_t(value)))
    }

    private func set(_ option: CURLoption, _ value: String) throws(HTTPError) {
        try require(annals_curl_set_string(pointer, option, value))
    }

    private func require(_ code: CURLcode) throws(HTTPError) {
        guard code == CURLE_OK else {
            throw HTTPError(.sendFailed, "libcurl refuses the request: \(String(cString: curl_easy_strerror(code)))")
        }
    }
}

extension Duration {
    /// Milliseconds, rounded up so that a wait never ends too early. At least 0.
    var wholeMilliseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < Int64(Int32.max) / 1000 else { return Int(Int32.max) }
        return Int(seconds) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
