/// An HTTP client over libcurl with its own thread. It keeps connections open for later requests, and sends and
/// receives bodies of any size in constant memory.
///
/// An app needs to create one only if several stores should share connections:
///
///     let client = try HTTPClient()
///     let shop = try shopAddress.transport(client: client)
///     let notes = try notesAddress.transport(client: client)
///
/// The client does not follow redirects, because the user chose the relay's address. Proxies come from the environment
/// as in any program that uses libcurl (`https_proxy`, `no_proxy`, …), but never for this machine itself. An
/// `Authorization` header is never sent to a proxy: over plain HTTP the client refuses such a request. TLS is 1.2 or
/// newer.
///
/// If the server closes a reused connection while a request is sent, and sends no answer, the client sends the request
/// again over a new connection. So each request must be safe to repeat.
///
/// To end a transfer, cancel the task that waits for the request. The transfer ends at once, even within a body. After
/// the call has thrown, the client does nothing more for the request.
public final class HTTPClient: Sendable {
    public struct Configuration: Sendable {
        /// A PEM file of certificates to trust. They replace the system's certificates and those from the environment
        /// (`CURL_CA_BUNDLE`, `SSL_CERT_FILE`, `SSL_CERT_DIR`).
        public var caFile: String?
        /// The SHA-256 of public keys, as `sha256//` and base64. The server must have one of these keys in addition to
        /// a trusted certificate. If empty, any key is allowed.
        public var pinnedKeys: [String]
        public var userAgent: String
        /// The time limit for name lookup, connection and TLS handshake together.
        public var connectTimeout: Duration
        /// The largest number of simultaneous requests. Requests that wait at a relay for new entries are not counted.
        public var activeTransfers: Int

        public init(
            caFile: String? = nil, pinnedKeys: [String] = [], userAgent: String = "annals",
            connectTimeout: Duration = HTTPLimits.connectTimeout,
            activeTransfers: Int = HTTPLimits.activeTransfers
        ) {
            precondition(activeTransfers > 0, "a client must be allowed at least one transfer")
            self.caFile = caFile
            self.pinnedKeys = pinnedKeys
            self.userAgent = userAgent
            self.connectTimeout = connectTimeout
            self.activeTransfers = activeTransfers
        }
    }

    let loop: TransferLoop
    private let thread: LoopThread

    /// Starts the client's thread. Throws `closed` if the system cannot provide a thread or memory.
    public init(_ configuration: Configuration = Configuration()) throws(HTTPError) {
        let loop = try TransferLoop(configuration)
        self.loop = loop
        thread = try LoopThread { loop.run() }
    }

    deinit { loop.requestClose() }

    /// Sends a request and returns the whole answer, with any status.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - maximumBody: the largest size of the answer's body, in bytes. A larger body throws `tooLarge`.
    ///   - onSent: gets the number of sent bytes of the request's body, from 0 on. It starts from 0 again if the
    ///     request is sent again. It runs on the client's thread, so it must return quickly. It is never called
    ///     after `send` has returned or thrown.
    package func send(
        _ request: HTTPRequest, maximumBody: Int = HTTPLimits.bufferedBody, onSent: (@Sendable (Int64) -> Void)? = nil
    ) async throws(HTTPError) -> HTTPResponse {
        let promise = ResponsePromise()
        return try await perform(Transfer(request, sink: BufferSink(limit: maximumBody, promise), onSent: onSent), promise)
    }

    /// Sends a request and writes the body of a successful answer (200 or 206) to a file. Any other answer is returned
    /// with its body in memory, and the file is unchanged.
    ///
    /// To resume an interrupted download, pass the number of bytes that the file already has. The request then asks for
    /// the rest. If the server sends everything, the file is written from its beginning. The caller must check that the
    /// bytes belong together, by `If-Range` or a digest.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - file: the destination of the body.
    ///   - offset: how many bytes of the file to keep. Bytes after them are truncated.
    ///   - maximumLength: the largest number of bytes to write. A longer body throws `tooLarge`.
    ///   - accept: gets the answer's headers and the length of the whole file before the file is opened. If it throws,
    ///     the file is unchanged. With `accept`, an answer without a length is refused.
    ///   - onPiece: gets every piece of the body and its offset in the file, on the client's thread.
    ///   - onProgress: gets the answer's headers and the length of the file, when the body begins and after every
    ///     piece. It runs on the client's thread, so it must return quickly. After an interrupted download the caller
    ///     knows from it which file the download was.
    ///   - Returns: the answer. Its `bodyLength` is the number of bytes written by this call.
    package func download(
        _ request: HTTPRequest, to file: HTTPFile, startingAt offset: Int64 = 0, maximumLength: Int64 = HTTPLimits.downloadedFile,
        accept: HTTPFile.Acceptance? = nil, onPiece: (@Sendable (UnsafeRawBufferPointer, Int64) -> Void)? = nil,
        onProgress: (@Sendable (HTTPHeaders, Int64) -> Void)? = nil
    ) async throws(HTTPError) -> HTTPResponse {
        // This is an error of the caller. No server can cause it.
        precondition(offset >= 0, "the offset must not be negative")
        var request = request
        if offset > 0 { request.headers.append(("Range", "bytes=\(offset)-")) }
        let promise = ResponsePromise()
        let sink = FileSink(file, start: offset, limit: maximumLength, promise, accept: accept, onPiece: onPiece, onProgress: onProgress)
        return try await perform(Transfer(request, sink: sink), promise)
    }

    /// Ends all transfers with the error `closed`, closes all connections, and ends the client's thread. Later requests
    /// fail with `closed`. Later calls of `shutdown` return at once.
    public func shutdown() async {
        await loop.close()
        thread.join()
    }

    private func perform(_ transfer: Transfer, _ promise: ResponsePromise) async throws(HTTPError) -> HTTPResponse {
        guard !Task.isCancelled else { throw HTTPError(.cancelled, "the request was cancelled before it began") }
        loop.start(transfer)
        let result = await withTaskCancellationHandler {
            await promise.value
        } onCancel: {
            loop.cancel(transfer)
        }
        return try result.get()
    }
}
